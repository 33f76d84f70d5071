// Copies the shared parameters of a layer into a replica: what the mini-batch then works with.
//
// Shapes: params and copy [count].
#pragma once

#include "codelets/codelet.h"

namespace prorata {

struct SnapshotShape {
  std::int32_t count;
};

struct SnapshotArgs {
  SnapshotShape shape;
};

extern const Codelet snapshot;  // params R, copy W

}  // namespace prorata

// What a mini-batch makes on its way: values, their gradients, and what operations keep between forward and backward.
//
// A value that several operations read gets the sum of their gradients. Each of them has a buffer of its own to write
// into: the last one, which is the first to go backward, the value's `dy`, the others one more each, which plan_sum()
// adds to it when all are there. So all gradients are added in the same order in each run, and nobody sees what is
// another's.
#pragma once

#include "models/data_handle.h"
#include "models/network.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace prorata {

class Activations {
 public:
  // For mini-batches of up to `batch` samples. `copies`: the parameters have copies of their own. The network must
  // outlive it.
  Activations(const Network& network, std::int32_t batch, bool copies);

  // The buffers of operation i; `shared`: with the shared parameters, else with the copy.
  LayerBuffers buffers(std::size_t i, bool shared) const;
  // Adds the tasks that make `dy` of operation i from the gradients of all who read it; none for a single one.
  void plan_sum(Plan& plan, std::size_t i) const;

  starpu_data_handle_t input() const { return x_.get(); }
  starpu_data_handle_t output() const { return layers_.back().y.get(); }
  starpu_data_handle_t output_gradient() const { return layers_.back().dy.get(); }
  starpu_data_handle_t snapshot(std::size_t i) const { return layers_[i].snapshot.get(); }
  starpu_data_handle_t gradient(std::size_t i) const { return layers_[i].dparams.get(); }
  starpu_data_handle_t extra(std::size_t i) const { return layers_[i].extra.get(); }

  // What it needs of a memory, at most, with copies of the parameters.
  struct Bytes {
    std::size_t fixed, per_sample;
  };
  static Bytes bytes(const Network& network);

 private:
  struct Layer {
    DataHandle y, dy, unwanted, snapshot, dparams, extra;
    std::vector<DataHandle> more;  // gradients of y, by all its readers but the last
  };

  starpu_data_handle_t gradient_for(std::size_t reader, std::size_t input) const;

  const Network& network_;
  DataHandle x_;
  std::vector<Layer> layers_;
};

}  // namespace prorata

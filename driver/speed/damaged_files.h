// StarPU's files of performance models, looked at before StarPU reads them.
//
// StarPU writes each file in place, under a lock, as it shuts down: whoever is killed meanwhile, or has a full disk,
// leaves a part of it. Of a codelet's model StarPU ignores an empty file and aborts on any other part (1.3.10 and 1.4:
// parse_model_file() in perfmodel_history.c). Of what it knows of the bus it aborts on a part of `config` or
// `affinity`; a part of `latency` or `bandwidth` it measures anew by itself, and `platform` it only writes
// (perfmodel_bus.c).
#pragma once

#include <string>

namespace prorata {

// Whether StarPU can read such a file of a codelet's model, or of the bus: of its `config`, of its `affinity` beside
// that `config`.
bool is_whole_model(const std::string& text);
bool is_whole_bus_config(const std::string& text);
bool is_whole_bus_affinity(const std::string& text, const std::string& config);

// Of those that StarPU will read for our codelets, under model_directory() and of model_host(), moves each that is not
// whole aside, as NAME.damaged, and warns. To be called before StarPU starts. InputError: one cannot be moved.
void set_damaged_models_aside();

}  // namespace prorata

// What Prorata makes of one mini-batch, in files that compare.py holds against PyTorch.
//
//     interop_gradients NETWORK.toml FOLDER [PARAMETERS.safetensors]
//
// FOLDER has images.u8 [samples, height, width, channels] and labels.u8 [samples]. Without PARAMETERS they are those of
// a seed. Written there: parameters.safetensors, as they were; gradients.safetensors, each under its parameter's name;
// trained.safetensors, after a mini-batch with a learning rate of 0, which moves running statistics only; outputs.f32
// of that mini-batch, and evaluated.f32 of an evaluation after it, [samples, classes].
#include "driver/evaluation.h"
#include "driver/runtime.h"
#include "driver/trainer.h"
#include "models/parameter_file.h"

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <numeric>
#include <stdexcept>

namespace prorata {
namespace {

namespace fs = std::filesystem;

std::vector<std::uint8_t> read_bytes(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) throw std::runtime_error(file.string() + ": cannot be opened");
  return {std::istreambuf_iterator<char>(in), {}};
}

void write_floats(const fs::path& file, starpu_data_handle_t handle, std::size_t count) {
  starpu_data_acquire(handle, STARPU_R);
  std::ofstream(file, std::ios::binary)
      .write(reinterpret_cast<const char*>(starpu_vector_get_local_ptr(handle)),
             static_cast<std::streamsize>(count * sizeof(float)));
  starpu_data_release(handle);
}

void run(Trainer& trainer, GroupKind kind, const SampleHandles& handles, std::span<const std::uint32_t> order) {
  const Pass pass{.kind = kind,
                  .data = handles.source(),
                  .order = order,
                  .step = [](std::size_t) { return UpdateStep{.learning_rate = 0, .momentum = 0, .weight_decay = 0}; },
                  .balance = PRORATA_PRORATA,
                  .round = 0,
                  .record = [](const MinibatchResult&) { return true; }};
  trainer.run(
      pass, [] { return false; }, [] {});
}

void write_all(const fs::path& network_file, const fs::path& folder, const char* parameters) {
  const Runtime runtime({});
  Network network(read_network_spec(network_file), 1);
  if (parameters) read_parameters(network, parameters);
  write_parameters(network, folder / "parameters.safetensors");

  const std::vector<std::uint8_t> labels = read_bytes(folder / "labels.u8");
  const Samples samples{.images = read_bytes(folder / "images.u8"), .labels = {labels.begin(), labels.end()}};
  const SampleHandles handles(samples);
  std::vector<std::uint32_t> order(samples.size());
  std::iota(order.begin(), order.end(), 0u);
  const std::size_t outputs = samples.size() * static_cast<std::size_t>(network.spec().classes);
  Trainer trainer(network, {.batch = static_cast<std::int32_t>(samples.size()), .replicas = 1});
  Replica& replica = trainer.replica(0);

  run(trainer, GroupKind::train, handles, order);
  write_floats(folder / "outputs.f32", replica.outputs(), outputs);
  write_parameters(network, folder / "trained.safetensors");
  run(trainer, GroupKind::evaluate, handles, order);
  write_floats(folder / "evaluated.f32", replica.outputs(), outputs);

  // The names, shapes and order of a parameter file, for what is in the parameters' place.
  network.fetch(STARPU_RW);
  for (std::size_t i = 0; i < network.depth(); ++i)
    if (const ParameterBlock* block = network.parameters(i)) {
      const starpu_data_handle_t gradient = replica.gradient(i);
      starpu_data_acquire(gradient, STARPU_R);
      std::copy_n(reinterpret_cast<const float*>(starpu_vector_get_local_ptr(gradient)), block->values.count,
                  block->values.data.get());
      starpu_data_release(gradient);
    }
  write_parameters(network, folder / "gradients.safetensors");
}

}  // namespace
}  // namespace prorata

int main(int argc, char** argv) try {
  if (argc < 3 || argc > 4) {
    std::cerr << "usage: interop_gradients NETWORK.toml FOLDER [PARAMETERS.safetensors]\n";
    return 2;
  }
  prorata::write_all(argv[1], argv[2], argc > 3 ? argv[3] : nullptr);
  return 0;
} catch (const std::exception& e) {
  std::cerr << "interop_gradients: " << e.what() << '\n';
  return 1;
}

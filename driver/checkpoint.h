// The checkpoints of a run: with one a run goes on as if it had never been stopped.
//
//   RUN/checkpoints/N/   model.safetensors, optimizer.safetensors, network.toml, state.json; N counts them
//   RUN/checkpoint       a symbolic link to the last one
//
// At whatever moment a run is killed, `checkpoint` names a whole one; before the first link is made there is none, and
// the greatest N is the last one. A checkpoint is written in checkpoints/N.tmp and
// synced, and gets its name then; after that the link is made beside the old one and renamed over it. One that goes is
// renamed to N.tmp before. So what ends in .tmp is never needed, and all else is whole.
//
// state.json ties the files together: it has their sizes and checksums, and one of its own.
#pragma once

#include "models/network.h"

#include <cstddef>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

namespace prorata {

class Checkpoints {
 public:
  // Of the run directory `run`, the last `keep` > 0 of them. What a killed run left half-done is removed.
  Checkpoints(std::filesystem::path run, std::size_t keep);

  std::filesystem::path last() const { return run_ / "checkpoint"; }
  // The end of a sentence: how to go on with the run, and from which of them.
  std::string going_on() const;
  // Writes one and makes it the last. `network_file`: the text of the network's file; `state`: what else the run
  // needs. No task may be in flight. std::runtime_error: it could not be written; the one before is as it was.
  void write(const Network& network, const std::string& network_file, nlohmann::json state);
  // All of them.
  void remove();

 private:
  void write_files(const std::filesystem::path& folder, const Network& network, const std::string& network_file,
                   nlohmann::json& state) const;
  void link_to(const std::string& name) const;
  void remove_old() const;

  std::filesystem::path run_;
  std::size_t keep_;
};

struct Checkpoint {
  std::filesystem::path folder;
  nlohmann::json state;

  std::filesystem::path parameters() const { return folder / "model.safetensors"; }
  std::filesystem::path optimizer() const { return folder / "optimizer.safetensors"; }
  std::filesystem::path network() const { return folder / "network.toml"; }
  std::filesystem::path state_file() const { return folder / "state.json"; }
};

// The last checkpoint of a run directory; sizes and checksums of its files are right. InputError: there is none, or it
// is damaged, of another version's format.
Checkpoint read_checkpoint(const std::filesystem::path& run);

// The parameter file that a user means by a run directory, a checkpoint in it, or the file itself.
std::filesystem::path find_parameters(const std::filesystem::path& path);
// The network's file that is kept beside a checkpoint's parameters, or else the one that `model` names.
std::filesystem::path find_network_of(const std::filesystem::path& parameters, const std::string& model);

}  // namespace prorata

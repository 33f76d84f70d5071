// StarPU-MPI from start to end, and what its users have in common.
#pragma once

#include <starpu_mpi.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace prorata {

class StarpuMpi {
 public:
  // StarPU and MPI must be running, and no other one be there.
  StarpuMpi() { check(starpu_mpi_init_comm(nullptr, nullptr, 0, MPI_COMM_WORLD), "to start"); }
  ~StarpuMpi() { starpu_mpi_shutdown(); }
  StarpuMpi(const StarpuMpi&) = delete;
  StarpuMpi& operator=(const StarpuMpi&) = delete;

  static void check(int error, const char* what) {
    if (error != 0)
      throw std::runtime_error(std::string("StarPU-MPI refuses ") + what + " (" + std::to_string(error) + ")");
  }

  // Detached requests with the rank `other`, of layer `block`; `there`: to the layer's owner. The data must stay until
  // they are done.
  static void send(starpu_data_handle_t data, int other, std::size_t block, bool there, void (*done)(void*) = nullptr,
                   void* argument = nullptr) {
    sent_ += starpu_data_get_size(data);
    check(starpu_mpi_isend_detached(data, other, tag(block, there), MPI_COMM_WORLD, done, argument), "to send");
  }
  static void receive(starpu_data_handle_t data, int other, std::size_t block, bool there,
                      void (*done)(void*) = nullptr, void* argument = nullptr) {
    check(starpu_mpi_irecv_detached(data, other, tag(block, there), MPI_COMM_WORLD, done, argument), "to receive");
  }

  // Bytes of data that this rank has sent so far.
  static std::uint64_t sent() { return sent_; }

 private:
  inline static std::atomic<std::uint64_t> sent_{0};

  static starpu_mpi_tag_t tag(std::size_t block, bool there) {
    return 2 * static_cast<starpu_mpi_tag_t>(block) + (there ? 1 : 0);
  }
};

}  // namespace prorata

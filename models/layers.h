// The layers of a network as operations: what each needs in memory, and which tasks it makes.
//
// A layer of the file and an operation are not quite the same: a relu that follows dense or conv2d is fused into it,
// and flatten, which moves nothing in NHWC, makes no task.
#pragma once

#include "codelets/codelet.h"
#include "models/random.h"
#include "models/specification.h"

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace prorata {

// A task to be: codelet, buffers, and arguments that live as long as the plan that holds it.
struct TaskPlan {
  const Codelet* codelet;
  std::vector<starpu_data_handle_t> buffers;
  void* args;
  bool at_home = false;
};

// A StarPU task of it, not submitted. Its arguments stay the plan's. `at_home`: to be run where the parameters live, in
// main memory, where that has workers: the gradient of a device then travels and the parameters stay, and their handles
// are held for the arithmetic only.
starpu_task* make_task(const TaskPlan& planned);
// Throws std::runtime_error if StarPU refuses it.
void submit_task(starpu_task* task);

// Collects the tasks of a replica, with their arguments.
class Plan {
 public:
  // Appends a task; `args.shape.batch`, where there is one, is set again at each submission. Returns the stored
  // arguments.
  template <class Args>
  Args& add(const Codelet& codelet, std::vector<starpu_data_handle_t> buffers, Args args) {
    auto stored = std::make_shared<Args>(args);
    if constexpr (requires { stored->shape.batch; }) batches_.push_back(&stored->shape.batch);
    tasks_.push_back({&codelet, std::move(buffers), stored.get()});
    Args& result = *stored;
    args_.push_back(std::move(stored));
    return result;
  }

  // The same for a task that is to be run at home.
  template <class Args>
  Args& add_at_home(const Codelet& codelet, std::vector<starpu_data_handle_t> buffers, Args args) {
    Args& stored = add(codelet, std::move(buffers), args);
    tasks_.back().at_home = true;
    return stored;
  }

  void set_batch(std::int32_t batch) {
    for (std::int32_t* b : batches_) *b = batch;
  }
  const std::vector<TaskPlan>& tasks() const { return tasks_; }

 private:
  std::vector<TaskPlan> tasks_;
  std::vector<std::shared_ptr<void>> args_;
  std::vector<std::int32_t*> batches_;
};

// The buffers of one operation in one replica. Per sample: x of the input's size, y of the output's, dx and dy alike.
struct LayerBuffers {
  starpu_data_handle_t x;
  starpu_data_handle_t y;
  starpu_data_handle_t params;   // what forward and backward read; null where there are none
  starpu_data_handle_t dparams;  // null where there are none
  starpu_data_handle_t dx;       // null for the first operation: nobody needs it
  starpu_data_handle_t dy;
  starpu_data_handle_t extra;  // extra_bytes() a sample; null where there are none
};

class Operation {
 public:
  Operation(std::string name, ImageShape input, ImageShape output)
      : name_(std::move(name)), input_(input), output_(output) {}
  virtual ~Operation() = default;

  const std::string& name() const { return name_; }
  const ImageShape& input() const { return input_; }
  const ImageShape& output() const { return output_; }

  // Weights, then biases; 0 where there are none.
  virtual std::size_t weight_count() const { return 0; }
  virtual std::size_t bias_count() const { return 0; }
  std::size_t parameter_count() const { return weight_count() + bias_count(); }
  // PyTorch's shape of the weights, and where element i of PyTorch's flat tensor is in ours: PyTorch has channels
  // first. `flattened`: the image that a dense layer's inputs were before they were flattened.
  virtual std::vector<std::int64_t> torch_weight_shape() const { return {}; }
  virtual std::size_t torch_weight_index(std::size_t i, const ImageShape& /*flattened*/) const { return i; }

  virtual std::size_t extra_bytes() const { return 0; }

  // He's uniform initialisation (1502.01852, for rectifiers): weights within +-sqrt(6 / inputs of a unit), biases 0.
  void initialize(std::span<float> params, Random& random) const;

  virtual void plan_forward(Plan& plan, const LayerBuffers& b) const = 0;
  virtual void plan_backward(Plan& plan, const LayerBuffers& b) const = 0;

 private:
  std::string name_;
  ImageShape input_;
  ImageShape output_;
};

// The operations of a network, in the order of forward.
std::vector<std::unique_ptr<const Operation>> make_operations(const NetworkSpec& spec);

}  // namespace prorata

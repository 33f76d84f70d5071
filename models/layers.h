// The layers of a network as operations: what each needs in memory, and which tasks it makes.
//
// A layer of the file and an operation are not quite the same: a relu that alone reads dense, conv2d or add
// is fused into it, and flatten, which moves nothing in NHWC, makes no task.
//
// Values. Operation i makes value i of a mini-batch, and reads values of earlier ones, or the network's input.
//
// Gradients. Whoever reads a value writes the gradient of it into a buffer of its own, and before the value's operation
// goes backward they are summed. So an operation may change its `dy`, as a fused relu does, and no reader needs to know
// of the others (models/activations.h).
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
// are held for the arithmetic only. It is urgent there: it is short, and a device or another rank waits for it.
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
    if constexpr (requires { stored->minibatch; }) draws_.push_back({&stored->seed, &stored->minibatch});
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

  // The same where `args.shape.count` counts the elements of one sample.
  template <class Args>
  Args& add_for_each_sample(const Codelet& codelet, std::vector<starpu_data_handle_t> buffers, Args args) {
    Args& stored = add(codelet, std::move(buffers), args);
    counts_.push_back({&stored.shape.count, stored.shape.count});
    return stored;
  }

  void set_batch(std::int32_t batch) {
    for (std::int32_t* b : batches_) *b = batch;
    for (const auto& [count, of_sample] : counts_) *count = batch * of_sample;
  }
  // From what tasks that draw at random draw.
  void set_draw(std::uint64_t seed, std::uint64_t minibatch) {
    for (const Draw& draw : draws_) {
      *draw.seed = seed;
      *draw.minibatch = minibatch;
    }
  }
  const std::vector<TaskPlan>& tasks() const { return tasks_; }

 private:
  struct Draw {
    std::uint64_t *seed, *minibatch;
  };

  std::vector<TaskPlan> tasks_;
  std::vector<std::shared_ptr<void>> args_;
  std::vector<std::int32_t*> batches_;
  std::vector<std::pair<std::int32_t*, std::int32_t>> counts_;
  std::vector<Draw> draws_;
};

// The buffers of one operation in one replica. Per sample: x of the input's size, y of the output's, dx and dy alike.
struct LayerBuffers {
  std::vector<starpu_data_handle_t> x;  // one for each value that it reads
  starpu_data_handle_t y;
  starpu_data_handle_t params;           // what forward and backward read; null where there are none
  starpu_data_handle_t dparams;          // null where there are none
  std::vector<starpu_data_handle_t> dx;  // one for each value that it reads; null where nobody needs it
  starpu_data_handle_t unwanted;         // of dx's size; null where all of dx is there, or all of it null
  starpu_data_handle_t dy;
  starpu_data_handle_t extra;    // extra_bytes(); null where there are none
  starpu_data_handle_t running;  // the shared running statistics; null where there are none
};

class Operation {
 public:
  // `reads`: the values that it takes.
  Operation(const LayerSpec& layer, std::vector<std::size_t> reads)
      : name_(layer.name),
        reads_(std::move(reads)),
        input_(layer.input),
        output_(layer.output),
        elementwise_(is_elementwise(layer)) {}
  virtual ~Operation() = default;

  const std::string& name() const { return name_; }
  const std::vector<std::size_t>& reads() const { return reads_; }
  // Of each value that it reads.
  const ImageShape& input() const { return input_; }
  const ImageShape& output() const { return output_; }
  bool elementwise() const { return elementwise_; }

  // Weights, then biases; 0 where there are none.
  virtual std::size_t weight_count() const { return 0; }
  virtual std::size_t bias_count() const { return 0; }
  std::size_t parameter_count() const { return weight_count() + bias_count(); }
  // PyTorch's shape of the weights, and where element i of PyTorch's flat tensor is in ours: PyTorch has channels
  // first. `flattened`: the image that a dense layer's inputs were before they were flattened.
  virtual std::vector<std::int64_t> torch_weight_shape() const { return {}; }
  virtual std::size_t torch_weight_index(std::size_t i, const ImageShape& /*flattened*/) const { return i; }

  // What forward keeps for backward, of a mini-batch of so many samples.
  virtual std::size_t extra_bytes(std::size_t /*batch*/) const { return 0; }
  // Of how many channels it has running statistics (models/running_statistics.h), and how fast they move; the
  // mini-batch's are its extra data then.
  virtual std::size_t statistics_channels() const { return 0; }
  virtual float statistics_momentum() const { return 0; }

  // He's uniform initialisation (1502.01852, for rectifiers): weights within +-sqrt(6 / inputs of a unit), biases 0.
  virtual void initialize(std::span<float> params, Random& random) const;

  // Of training.
  virtual void plan_forward(Plan& plan, const LayerBuffers& b) const = 0;
  // Of evaluation, where it is another.
  virtual void plan_inference(Plan& plan, const LayerBuffers& b) const { plan_forward(plan, b); }
  // Of training. Operations without parameters are asked only where a dx is there.
  virtual void plan_backward(Plan& plan, const LayerBuffers& b) const = 0;

 private:
  std::string name_;
  std::vector<std::size_t> reads_;
  ImageShape input_;
  ImageShape output_;
  bool elementwise_;
};

// The operation of a layer that makes this value, with or without a relu fused into it.
std::unique_ptr<const Operation> make_operation(const LayerSpec& layer, std::vector<std::size_t> reads,
                                                std::size_t value, bool relu);
// Whether it can have one.
bool takes_relu(const LayerSpec& layer);

}  // namespace prorata

// Every codelet x every implementation x shapes, against a double-precision reference and finite differences; and what
// StarPU and the user see of a codelet besides its numbers. To add an operation, see operations.h.
#include "codelets/backend/cpu_worker.h"
#include "codelets/backend/gemm.h"
#if defined(PRORATA_CUDNN)
#include "codelets/backend/cudnn.h"
#endif
#include "tests/codelets/table.h"

#include <cblas.h>
#include <omp.h>

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <set>
#include <stdexcept>

namespace prorata::selftest {
namespace {

// As in a run, where the workers are the parallelism.
class OneThread : public ::testing::Environment {
  void SetUp() override {
    omp_set_num_threads(1);
    openblas_set_num_threads(1);
  }
};
const auto* const one_thread = ::testing::AddGlobalTestEnvironment(new OneThread);

// --- The table ---

struct Row {
  const Operation* operation;
  Implementation implementation;

  std::string name() const { return operation->codelet->name() + "_" + implementation.name; }
  friend std::ostream& operator<<(std::ostream& out, const Row& row) { return out << row.name(); }
};

std::vector<Row> rows(bool only_gradients) {
  std::vector<Row> all;
  for (const Operation& op : operations())
    for (const Implementation& i : implementations_of(*op.codelet))
      if (!only_gradients || !op.derivatives.empty()) all.push_back({&op, i});
  return all;
}

std::string name_of(const ::testing::TestParamInfo<Row>& info) { return info.param.name(); }

class EveryImplementation : public ::testing::TestWithParam<Row> {};
class EveryGradient : public ::testing::TestWithParam<Row> {};
INSTANTIATE_TEST_SUITE_P(Table, EveryImplementation, ::testing::ValuesIn(rows(false)), name_of);
INSTANTIATE_TEST_SUITE_P(Table, EveryGradient, ::testing::ValuesIn(rows(true)), name_of);

TEST_P(EveryImplementation, WritesWhatTheReferenceExpectsAndNothingElse) {
  const auto& [op, implementation] = GetParam();
  if (!implementation.missing.empty()) GTEST_SKIP() << implementation.missing;
  ASSERT_EQ(op->elements.size(), op->codelet->buffers());
  // The second round finds what an implementation has kept of each shape from the first one.
  for (auto grain : {Random::Grain::fine, Random::Grain::coarse})
    for (std::size_t i = 0; i < op->cases.size(); ++i) {
      const Case& c = op->cases[i];
      SCOPED_TRACE(c.name + (grain == Random::Grain::fine ? ", fine numbers" : ", coarse numbers"));
      Random random(i, grain);
      EXPECT_EQ(check(*op, implementation, c.args.get(), op->inputs(c.args.get(), random)), "");
    }
}

TEST_P(EveryGradient, AgreesWithFiniteDifferences) {
  const auto& [op, implementation] = GetParam();
  if (!implementation.missing.empty()) GTEST_SKIP() << implementation.missing;
  ASSERT_FALSE(op->gradient_cases.empty());
  for (const Case& c : op->gradient_cases) {
    SCOPED_TRACE(c.name);
    EXPECT_EQ(check_gradient(*op, implementation, c), "");
  }
}

TEST(Codelets, HaveEachOneEntryInTheTable) {
  EXPECT_FALSE(Codelet::all().empty());
  for (const Codelet* c : Codelet::all())
    EXPECT_EQ(std::count_if(operations().begin(), operations().end(),
                            [c](const Operation& op) { return op.codelet == c; }),
              1)
        << c->name();
  EXPECT_EQ(operations().size(), Codelet::all().size());
}

// --- What StarPU sees of a codelet ---

// `declared` is what StarPU has for a kind of worker, and no more, under names of their own.
template <class Implementations, class Functions>
void expect_told(const Codelet& c, starpu_worker_archtype kind, const Implementations& declared,
                 const Functions& functions) {
  EXPECT_FALSE(declared.empty());
  ASSERT_EQ(c.implementations(kind).size(), declared.size());
  std::set<std::string> names;
  for (std::size_t i = 0; i < declared.size(); ++i) {
    EXPECT_EQ(functions[i], declared[i].run);
    EXPECT_EQ(c.implementations(kind)[i], declared[i].name);
    names.insert(declared[i].name);
  }
  EXPECT_EQ(names.size(), declared.size()) << "two implementations of one name";
  for (std::size_t i = declared.size(); i < STARPU_MAXIMPLEMENTATIONS; ++i) EXPECT_EQ(functions[i], nullptr);
}

TEST(Codelets, TellStarPUWhatTheyDeclare) {
  for (const Codelet* c : Codelet::all()) {
    SCOPED_TRACE(c->name());
    expect_told(*c, STARPU_CPU_WORKER, c->cpu(), c->starpu()->cpu_funcs);
    EXPECT_EQ(c->starpu()->name, c->name());
    std::uint32_t where = STARPU_CPU;
#if defined(PRORATA_OPENCL)
    where |= STARPU_OPENCL;
    expect_told(*c, STARPU_OPENCL_WORKER, c->devices().opencl, c->starpu()->opencl_funcs);
    for (char flag : c->starpu()->opencl_flags) EXPECT_EQ(flag, STARPU_OPENCL_ASYNC);
#endif
#if defined(PRORATA_CUDA)
    where |= STARPU_CUDA;
    expect_told(*c, STARPU_CUDA_WORKER, c->devices().cuda, c->starpu()->cuda_funcs);
    for (char flag : c->starpu()->cuda_flags) EXPECT_EQ(flag, STARPU_CUDA_ASYNC);
#endif
    EXPECT_EQ(c->starpu()->where, where);
  }
}

TEST(Codelets, RefuseMoreThanStarPUWasBuiltFor) {
  const std::size_t before = Codelet::all().size();
  const std::vector<starpu_data_access_mode> modes(STARPU_NMAXBUFS + 1, STARPU_R);
  const std::vector<CpuImplementation> cpu(STARPU_MAXIMPLEMENTATIONS + 1, {"none", nullptr});
  EXPECT_THROW(Codelet("many_buffers", modes, footprint_of<SnapshotArgs>(), {}), std::logic_error);
  EXPECT_THROW(Codelet("many_implementations", {}, footprint_of<SnapshotArgs>(), cpu), std::logic_error);
  EXPECT_EQ(Codelet::all().size(), before);
}

TEST(PerformanceModels, AreOneACodeletUnderASymbolWithoutDot) {
  std::set<std::string> symbols;
  for (const Codelet* c : Codelet::all()) {
    const std::string symbol = c->starpu()->model->symbol;
    // StarPU drops the host's name from the file of a model with a dot in its symbol.
    EXPECT_EQ(symbol.find('.'), std::string::npos) << symbol;
    EXPECT_NE(symbol.find(c->name()), std::string::npos) << symbol;
    EXPECT_EQ(c->starpu()->model->type, STARPU_HISTORY_BASED) << symbol;
    symbols.insert(symbol);
  }
  EXPECT_EQ(symbols.size(), Codelet::all().size());
}

struct Task : starpu_task {
  Task(const Codelet& codelet, void* args) {
    starpu_task_init(this);
    cl = codelet.starpu();
    cl_arg = args;
  }
};

TEST(PerformanceModels, TellShapesApartAndNothingElse) {
  for (const Operation& op : operations()) {
    const auto footprint = [&](const Case& c) {
      Task task(*op.codelet, c.args.get());
      return op.codelet->starpu()->model->footprint(&task);
    };
    for (const Case& a : op.cases)
      for (const Case& b : op.cases)
        EXPECT_EQ(footprint(a) == footprint(b), a.shape == b.shape)
            << op.codelet->name() << ", " << a.name << " and " << b.name;
  }
}

// Else networks that were calibrated before would be measured again.
TEST(PerformanceModels, HaveOfAConvolutionTheFootprintFromBeforeThereWereGroups) {
  Conv2dArgs args{{64, 28, 28, 1, 6, 5, 1, 2, 1}};
  const std::array<std::int32_t, 9> before{64, 28, 28, 1, 6, 5, 1, 2, 1};
  Task task(conv2d_forward, &args);
  const auto footprint = [&] { return conv2d_forward.starpu()->model->footprint(&task); };
  EXPECT_EQ(footprint(), starpu_hash_crc32c_be_n(before.data(), sizeof(before), 0));
  args.shape.bias = 0;
  EXPECT_NE(footprint(), starpu_hash_crc32c_be_n(before.data(), sizeof(before), 0));
}

TEST(PerformanceModels, CountSamples) {
  for (const Operation& op : operations())
    for (const Case& c : op.cases)
      for (unsigned implementation = 0; implementation < op.codelet->cpu().size(); ++implementation) {
        Task task(*op.codelet, c.args.get());
        EXPECT_EQ(op.codelet->starpu()->model->size_base(&task, implementation), c.samples)
            << op.codelet->name() << ", " << c.name;
      }
}

class ImplementationChoice : public ::testing::Test {
 protected:
  void TearDown() override { use_first_implementations(false); }

  static bool may_run(const Codelet& c, unsigned implementation) {
    Task task(c, nullptr);
    return c.starpu()->can_execute(0, &task, implementation);
  }
};

TEST_F(ImplementationChoice, IsFreeUnlessOnlyTheFirstOnesAreWanted) {
  for (bool only_first : {false, true, false}) {
    use_first_implementations(only_first);
    for (const Codelet* c : Codelet::all())
      for (unsigned i = 0; i < c->cpu().size(); ++i)
        EXPECT_EQ(may_run(*c, i), i == 0 || !only_first) << c->name() << ", implementation " << i;
  }
}

// --- Errors ---

struct FailingArgs {
  const char* message;
};
void fails(const FailingArgs& args, const float*) { throw std::runtime_error(args.message); }

void call_failing(const char* message) {
  const FailingArgs args{message};
  std::vector<Buffer> buffers{{f32, 1}};
  starpu_vector_interface interface = buffers[0].interface();
  void* pointers[] = {&interface};
  cpu<fails>(pointers, const_cast<FailingArgs*>(&args));
}

std::string rethrown() {
  try {
    rethrow_kernel_error();
  } catch (const std::exception& e) {
    return e.what();
  }
  return "";
}

TEST(KernelError, TheFirstOneIsThrownOnce) {
  EXPECT_FALSE(kernel_failed());
  call_failing("first");
  call_failing("second");
  EXPECT_TRUE(kernel_failed());
  EXPECT_EQ(rethrown(), "first");
  EXPECT_FALSE(kernel_failed());
  EXPECT_EQ(rethrown(), "");
  call_failing("third");
  EXPECT_EQ(rethrown(), "third");
}

TEST(KernelError, ComesFromAConvolutionThatCannotBe) {
  const Conv2dArgs wider_than_its_image{{1, 3, 3, 1, 1, 5, 1, 0, 0}};
  const Conv2dArgs in_unequal_groups{{1, 3, 1, 3, 2, 1, 1, 0, 0, 2}};
  for (const Conv2dArgs& args : {wider_than_its_image, in_unequal_groups})
    for (int attempt = 0; attempt < 2; ++attempt)  // what failed once is not taken from a cache later
      for (const Implementation& implementation : present(conv2d_forward)) {
        std::vector<Buffer> buffers{{f32, 9}, {f32, 26}, {f32, 1}};
        const auto run = [&] {
          implementation.call(&args, buffers);
          rethrow_kernel_error();
        };
        EXPECT_THROW(run(), std::exception) << implementation.name;
        EXPECT_NO_THROW(rethrow_kernel_error());
      }
}

// --- Numbers of particular interest ---

TEST(Diverged, DensePassesNotANumberOnToWhatDependsOnIt) {
  const std::pair<std::size_t, std::size_t> sources[] = {{0, 2 * 17 + 3}, {1, 4 * 17}, {1, 9 * 17 + 5}};
  for (auto [buffer, place] : sources)  // of the input, the weights and the biases
    for (std::int32_t relu : {0, 1}) {
      const DenseArgs args{{5, 17, 9, relu}};
      Random random(1, Random::Grain::fine);
      Arguments in = operation(dense_forward).inputs(&args, random);
      in[buffer][place] = kNaN;
      for (const Implementation& i : present(dense_forward))
        EXPECT_EQ(check(operation(dense_forward), i, &args, in), "") << i.name;
    }
}

TEST(Diverged, ConvolutionPassesNotANumberOnToWhatDependsOnIt) {
  constexpr std::size_t kWeights = 4 * 3 * 3 * 3;
  const std::pair<std::size_t, std::size_t> sources[] = {{0, (5 + 2) * 6 * 3}, {1, 30}, {1, kWeights + 2}};
  for (auto [buffer, place] : sources)  // of the input, the weights and the biases
    for (std::int32_t relu : {0, 1}) {
      const Conv2dArgs args{{2, 5, 6, 3, 4, 3, 1, 0, relu}};
      Random random(1, Random::Grain::fine);
      Arguments in = operation(conv2d_forward).inputs(&args, random);
      in[buffer][place] = kNaN;
      for (const Implementation& i : present(conv2d_forward))
        EXPECT_EQ(check(operation(conv2d_forward), i, &args, in), "") << i.name;
    }
}

TEST(Diverged, ReluPassesNotANumberOn) {
  const ReluArgs args{{2, 3}};
  for (const Implementation& i : present(relu_forward))
    EXPECT_EQ(check(operation(relu_forward), i, &args, {{-1, kNaN, 1, 0, -2, kNaN}, {}}), "") << i.name;
}

TEST(Diverged, MaxPoolPassesNotANumberOnWhereverItIsInTheWindow) {
  const MaxPoolArgs args{{1, 2, 2, 1, 2, 2}};
  for (const Implementation& i : present(max_pool_forward)) {
    if (i.name == "onednn") continue;  // may drop it
    for (std::size_t place : {0, 1, 2, 3}) {
      Values window{1, 2, 3, 4};
      window[place] = kNaN;
      std::vector<Buffer> buffers{{f32, window}, {f32, 1}, {u8, 1}};
      i.call(&args, buffers);
      EXPECT_TRUE(std::isnan(buffers[1].at(0))) << i.name << ", place " << place;
      EXPECT_EQ(buffers[2].at(0), double(place)) << i.name;
    }
  }
}

TEST(Diverged, LossIsNotANumber) {
  const SoftmaxCrossEntropyArgs args{{2, 3}};
  for (std::size_t place : {0, 1, 2})
    for (const Implementation& i : present(softmax_cross_entropy)) {
      Values logits{1, 2, 3, 1, 2, 3};
      logits[3 + place] = kNaN;
      std::vector<Buffer> buffers{{f32, logits}, {i32, {0, 1}}, {f32, 6}, {f32, 2}};
      i.call(&args, buffers);
      EXPECT_TRUE(std::isnan(buffers[3].at(0))) << i.name << ", place " << place;
    }
}

struct Logits {
  const char* name;
  Values row;
  std::size_t label;
  double loss, correct;
};

TEST(SoftmaxCrossEntropy, IsExactAtTheEdges) {
  const double third = std::log(3.0);
  const Logits all[] = {{"one dominates, rightly", {1e4, -1e4, 0}, 0, 0, 1},
                        {"one dominates, wrongly", {1e4, -1e4, 0}, 1, 2e4, 0},
                        {"all very small", {-1e4, -1e4, -1e4}, 0, third, 1},
                        {"all very large", {1e4, 1e4, 1e4}, 0, third, 1},
                        {"a tie counts for the first", {0, 1e4, 1e4}, 1, std::log(2.0), 1},
                        {"a tie does not count for the second", {0, 1e4, 1e4}, 2, std::log(2.0), 0},
                        {"all zero", {0, 0, 0}, 2, third, 0}};
  const SoftmaxCrossEntropyArgs one{{1, 3}};
  const SoftmaxCrossEntropyArgs together{{std::int32_t(std::size(all)), 3}};
  const Operation& op = operation(softmax_cross_entropy);
  Arguments in(4);
  for (const Logits& l : all) {
    SCOPED_TRACE(l.name);
    const Arguments single{l.row, {double(l.label)}, {}, {}};
    const auto score = op.expected(&one, single)[3];  // the reference is held against what is known, too
    EXPECT_NEAR(score[0].value, l.loss, 1e-12);
    EXPECT_EQ(score[1].value, l.correct);
    for (const Implementation& i : present(softmax_cross_entropy)) EXPECT_EQ(check(op, i, &one, single), "") << i.name;
    in[0].insert(in[0].end(), l.row.begin(), l.row.end());
    in[1].push_back(double(l.label));
  }
  for (const Implementation& i : present(softmax_cross_entropy)) EXPECT_EQ(check(op, i, &together, in), "") << i.name;
}

TEST(ApplyGradient, FollowsTheDefinitionOverSeveralSteps) {
  // Powers of two, so that every number below is exact: v = 1 + v / 2, p = p - v / 4.
  const ApplyGradientArgs args{{3}, 0.25f, 0.5f, 0};
  for (const Implementation& i : present(apply_gradient)) {
    std::vector<Buffer> buffers{{f32, {2, 0, -1}}, {f32, {0, 0, 0}}, {f32, {1, 1, 1}}};
    const double velocity[] = {1, 1.5, 1.75, 1.875, 1.9375};
    double moved = 0;
    for (double v : velocity) {
      i.call(&args, buffers);
      moved += v / 4;
      EXPECT_EQ(difference(buffers[0], {{2 - moved}, {0 - moved}, {-1 - moved}}), "");
      EXPECT_EQ(difference(buffers[1], {{v}, {v}, {v}}), "");
    }
  }
}

TEST(ApplyAdam, MovesEachParameterByTheLearningRateAtFirst) {
  // Whatever the gradient's size, for the corrected averages are g and g^2.
  const ApplyAdamArgs args{{4}, 0.25f, 0.9, 0.999, 0, 0, 0};
  for (const Implementation& i : present(apply_adam)) {
    std::vector<Buffer> buffers{
        {f32, {2, 0, -1, 8}}, {f32, {0, 0, 0, 0}}, {f32, {0, 0, 0, 0}}, {f32, {4, -4, 1e-3, 1e3}}};
    i.call(&args, buffers);
    constexpr double kRoundings = 1e-6;
    EXPECT_EQ(difference(buffers[0], {{1.75, kRoundings}, {0.25, kRoundings}, {-1.25, kRoundings}, {7.75, kRoundings}}),
              "");
  }
}

TEST(ClipGradient, KeepsWhatIsNoNumberSo) {
  const ClipGradientArgs args{{2}, 1};
  constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();
  for (const Implementation& i : present(clip_gradient)) {
    std::vector<Buffer> buffers{{f32, {1, 2}}, {f32, Values{kNoNumber}}};
    i.call(&args, buffers);
    EXPECT_EQ(difference(buffers[0], {{kNoNumber}, {kNoNumber}}), "");
  }
}

TEST(ApplyGradient, DecaysWeightsByThemselves) {
  // Without gradient and momentum: p = p - p / 2 * 1 / 2 = 3/4 p.
  const ApplyGradientArgs args{{2}, 0.5f, 0, 0.5f};
  for (const Implementation& i : present(apply_gradient)) {
    std::vector<Buffer> buffers{{f32, {64, -64}}, {f32, {5, 5}}, {f32, {0, 0}}};
    for (double p : {48, 36, 27}) {
      i.call(&args, buffers);
      EXPECT_EQ(difference(buffers[0], {{p}, {-p}}), "");
    }
  }
}

// --- What the kernels stand on ---

Values transposed(std::size_t rows, std::size_t columns, const Values& a) {
  Values t(a.size());
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t c = 0; c < columns; ++c) t[c * rows + r] = a[r * columns + c];
  return t;
}

TEST(Gemm, MultipliesWhicheverIsTransposed) {
  for (Gemm gemm : {onednn_gemm, openblas_gemm})
    for (auto [m, n, k] : {std::array{1, 1, 1}, {1, 7, 5}, {9, 1, 3}, {5, 4, 1}, {8, 16, 24}, {33, 17, 65}}) {
      const auto rows = std::size_t(m), columns = std::size_t(n), inner = std::size_t(k);
      Random random(7, Random::Grain::fine);
      const Values a = random.uniform(rows * inner), b = random.uniform(inner * columns);
      const Results expected = reference::matrix_product(rows, columns, inner, a, b);
      for (Transpose ta : {Transpose::no, Transpose::yes})
        for (Transpose tb : {Transpose::no, Transpose::yes}) {
          const Values at = ta == Transpose::yes ? transposed(rows, inner, a) : a;
          const Values bt = tb == Transpose::yes ? transposed(inner, columns, b) : b;
          const std::vector<float> fa(at.begin(), at.end()), fb(bt.begin(), bt.end());
          std::vector<float> c(rows * columns, std::numeric_limits<float>::quiet_NaN());
          gemm(ta, tb, m, n, k, fa.data(), fb.data(), c.data());
          for (std::size_t i = 0; i < c.size(); ++i)
            EXPECT_TRUE(matches(c[i], expected[i])) << m << " x " << n << " x " << k << " [" << i << "]";
        }
    }
}

#if defined(PRORATA_CUDNN)
// Else the table's rows for cuDNN would be about our own implementation, which stands in for it.
TEST(Cudnn, HasAnAlgorithmForUsualConvolutions) {
  int gpus = 0;
  if (cudaGetDeviceCount(&gpus) != cudaSuccess || gpus == 0) GTEST_SKIP() << "this machine has no CUDA device";
  constexpr std::size_t kRoom = std::size_t{1} << 20;
  std::array<float*, 3> array{};
  for (float*& a : array) ASSERT_EQ(cudaMalloc(&a, kRoom * sizeof(float)), cudaSuccess);
  const auto [x, weights, y] = array;
  Cuda device(nullptr);
  for (const Conv2dShape& s : {Conv2dShape{8, 28, 28, 1, 6, 5, 1, 2, 1},
                               {8, 14, 14, 6, 16, 5, 1, 0, 1},
                               {4, 32, 32, 3, 64, 3, 1, 1, 1},
                               {4, 16, 16, 64, 128, 3, 2, 1, 0}}) {
    ASSERT_LE(s.outputs(), kRoom);
    EXPECT_TRUE(device.cudnn().forward(device, s, x, weights, y)) << s.height;
    EXPECT_TRUE(device.cudnn().backward_data(device, s, weights, y, x)) << s.height;
    EXPECT_TRUE(device.cudnn().backward_weights(device, s, x, y, weights)) << s.height;
  }
  device.finish();
  for (float* a : array) cudaFree(a);
}
#endif

TEST(CpuWorkerClock, LeavesThreadsAloneThatAreNoWorkers) {
  reset_cpu_busy_seconds();
  const SnapshotArgs args{{1}};
  std::vector<Buffer> buffers{{f32, Values{1}}, {f32, 1}};
  implementations_of(snapshot)[0].call(&args, buffers);
  for (int worker = 0; worker < STARPU_NMAXWORKERS; ++worker) EXPECT_EQ(cpu_busy_seconds(worker), 0);
}

}  // namespace
}  // namespace prorata::selftest

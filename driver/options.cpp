#include "driver/options.h"

#include "driver/compare_rules.h"
#include "driver/data/dataset.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace prorata {
namespace {

constexpr std::pair<const char*, prorata_balance> kBalances[] = {
    {"prorata", PRORATA_PRORATA}, {"uniform", PRORATA_UNIFORM}, {"dynamic", PRORATA_DYNAMIC}};

constexpr std::pair<const char*, prorata_share> kShares[] = {{"count", PRORATA_COUNT}, {"size", PRORATA_SIZE}};
constexpr std::pair<const char*, Consistency> kConsistencies[] = {
    {"asp", Consistency::asp}, {"ssp", Consistency::ssp}, {"bsp", Consistency::bsp}};

constexpr std::pair<const char*, WireFormat> kWireFormats[] = {
    {"float32", WireFormat::float32}, {"bfloat16", WireFormat::bfloat16}, {"float16", WireFormat::float16}};

template <class Named>
const char* name_of(const Named& all, decltype(all[0].second) wanted) {
  for (const auto& [name, value] : all)
    if (value == wanted) return name;
  return "?";
}

template <class Named>
std::vector<std::string> names_of(const Named& all) {
  std::vector<std::string> names;
  for (const auto& [name, value] : all) names.emplace_back(name);
  return names;
}

// An option that is one of several names.
template <class Named, class Value>
void add_choice(CLI::App* sub, const std::string& option, const Named& all, Value& chosen, const std::string& what) {
  sub->add_option_function<std::string>(
         option,
         [&all, &chosen](const std::string& wanted) {
           for (const auto& [name, value] : all)
             if (name == wanted) chosen = value;
         },
         what)
      ->check(CLI::IsMember(names_of(all)))
      ->default_str(name_of(all, chosen));
}

// The same where nobody need choose.
template <class Named, class Value>
void add_choice(CLI::App* sub, const std::string& option, const Named& all, std::optional<Value>& chosen,
                const std::string& what) {
  sub->add_option_function<std::string>(
         option,
         [&all, &chosen](const std::string& wanted) {
           for (const auto& [name, value] : all)
             if (name == wanted) chosen = value;
         },
         what)
      ->check(CLI::IsMember(names_of(all)));
}

// The options that say what is trained, and how: `compare` hands them on to each of its runs.
constexpr const char* kTrainingGroup = "Training";

constexpr double kBelowOne = 0.9999999;

// A number within bounds; not-a-number and infinity are none.
CLI::Validator between(double least, double most, bool open_at_least = false) {
  const std::string range = std::string(open_at_least ? "above " : "from ") + CLI::detail::to_string(least) + " to " +
                            CLI::detail::to_string(most);
  return {[=](std::string& text) -> std::string {
            double v = 0;
            const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), v);
            const bool number = error == std::errc() && end == text.data() + text.size();
            const bool good = number && v <= most && (open_at_least ? v > least : v >= least);
            return good ? std::string() : "'" + text + "' is not a number " + range;
          },
          range, "between"};
}

// CLI11 takes "-3" for a large unsigned number.
std::string whole_number(const std::string& text) {
  const bool digits = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
  return digits ? "" : "'" + text + "' is not a whole number from 0 on";
}

CLI::App* add_subcommand(CLI::App& app, const char* name, const char* what, CommonOptions& o) {
  CLI::App* sub = app.add_subcommand(name, what);
  sub->add_option("--config", o.config, "Take options from this TOML file; the command line wins")->type_name("FILE");
  sub->add_flag("--json", o.json, "Print the result as JSON on standard output, and nothing else there");
  sub->add_flag("-q,--quiet", o.quiet, "Say only what is wrong");
  sub->add_flag("-v,--verbose", o.verbose, "Let StarPU talk, too");
  return sub;
}

// --NAME, --no-NAME, or neither. (CLI11's own flags turn an optional that nobody gave into false.)
void add_yes_or_no(CLI::App* sub, const std::string& name, std::optional<bool>& chosen, const std::string& what) {
  sub->add_flag_function(
      "--" + name + ",!--no-" + name, [&chosen](std::int64_t count) { chosen = count > 0; }, what);
}

CLI::Option* add_model(CLI::App* sub, std::string& model) {
  std::string known;
  for (const std::string& name : zoo()) known += (known.empty() ? "" : ", ") + name;
  return sub->add_option("--model", model, "A network of the zoo (" + known + "), or the path of a TOML file")
      ->type_name("NAME|FILE");
}

void add_slowdown(CLI::App* sub, std::vector<std::pair<int, double>>& slowdown) {
  sub->add_option_function<std::string>(
         "--slowdown", [&slowdown](const std::string& text) { slowdown = parse_slowdown(text); },
         "Experiment: stretch the kernels of CPU worker W to F times their duration")
      ->type_name("W:F[,W:F]");
}

void add_tf32(CLI::App* sub, bool& tf32) {
  sub->add_flag("--tf32", tf32,
                "Let CUDA devices round the factors of products to 10 bits (TensorFloat-32), which is faster");
}

void add_batches(CLI::App* sub, std::vector<std::int32_t>& batches, const char* what) {
  sub->add_option_function<std::string>(
         "--batches", [&batches](const std::string& text) { batches = parse_batches(text); }, what)
      ->type_name("B[,B]");
}

void add_data(CLI::App* sub, DataOptions& o) {
  add_model(sub, o.model)->capture_default_str();
  sub->add_option("--dataset", o.dataset, "The data set")
      ->check(CLI::IsMember(dataset_names()))
      ->capture_default_str()
      ->type_name("NAME");
  sub->add_option("--data", o.data, "The folder of the data set's files; default: where Debian's package puts them")
      ->type_name("DIR");
  sub->add_flag("--normalize", o.preparation.normalize,
                "Bring each channel to mean 0 and standard deviation 1 over the training set");
  sub->add_option(
         "--train-per-class", o.preparation.train_per_class,
         "Of a hyperspectral scene: training pixels of each class, or below 1 the fraction of them; default: 0.1")
      ->check(between(0, 1e9, true))
      ->type_name("N|X");
  sub->add_option("--split-seed", o.preparation.split_seed,
                  "Of a hyperspectral scene: which pixels those are; default: 1")
      ->check(whole_number)
      ->type_name("N");
}

void add_augmentation(CLI::App* sub, Preprocessing& o) {
  sub->add_option("--random-crop", o.random_crop,
                  "Train on images shifted at random within a border of N black pixels; 0: off")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str()
      ->type_name("N");
  sub->add_flag("--horizontal-flip", o.horizontal_flip, "Train on images of which half are mirrored at random");
  sub->add_option("--cutout", o.cutout,
                  "Train on images without a square of N pixels a side (DeVries and Taylor 2017); 0: off")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str()
      ->type_name("N");
}

}  // namespace

std::vector<std::pair<int, double>> parse_slowdown(const std::string& text, int rank) {
  std::vector<std::pair<int, double>> result;
  const auto fail = [&] {
    throw CLI::ValidationError("--slowdown",
                               "'" + text +
                                   "' is not WORKER:FACTOR[,WORKER:FACTOR...] with workers from 0 on, each "
                                   "once, and factors from 1 to 1000; RANK/WORKER:FACTOR is of one rank");
  };
  const char* at = text.data();
  const char* const end = at + text.size();
  const auto take = [&](auto& number) {
    const auto [next, error] = std::from_chars(at, end, number);
    if (error != std::errc()) fail();
    at = next;
  };
  while (true) {
    int of_rank = rank, worker = -1;
    double factor = 0;
    take(worker);
    if (at != end && *at == '/') {
      of_rank = worker;
      ++at;
      take(worker);
    }
    if (of_rank < 0 || worker < 0 || at == end || *at != ':') fail();
    ++at;
    take(factor);
    if (!(factor >= 1 && factor <= 1000)) fail();
    if (of_rank == rank) {
      for (const auto& [other, unused] : result)
        if (other == worker) fail();
      result.emplace_back(worker, factor);
    }
    if (at == end) return result;
    if (*at != ',') fail();
    ++at;
  }
}

std::vector<std::int32_t> parse_batches(const std::string& text) {
  std::vector<std::int32_t> batches;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (true) {
    std::int32_t batch = 0;
    const auto [next, error] = std::from_chars(at, end, batch);
    if (error != std::errc() || batch < 1 || batch > 65536 || (next != end && *next != ','))
      throw CLI::ValidationError("--batches", "'" + text + "' is not BATCH[,BATCH...] with sizes from 1 to 65536");
    batches.push_back(batch);
    if (next == end) break;
    at = next + 1;
  }
  std::sort(batches.begin(), batches.end());
  batches.erase(std::unique(batches.begin(), batches.end()), batches.end());
  return batches;
}

const char* to_string(prorata_balance balance) { return name_of(kBalances, balance); }
const char* to_string(prorata_share share) { return name_of(kShares, share); }
const char* to_string(LrSchedule schedule) { return name_of(kLrSchedules, schedule); }
const char* to_string(OptimizerKind optimizer) { return name_of(kOptimizers, optimizer); }
const char* to_string(WireFormat format) { return name_of(kWireFormats, format); }
const char* to_string(Consistency consistency) { return name_of(kConsistencies, consistency); }

std::vector<std::string> balance_names() { return names_of(kBalances); }
std::vector<std::string> share_names() { return names_of(kShares); }

namespace {

Slowdown parse_experiment(const std::string& text) {
  if (text == "none") return {text, {}};
  return {text, parse_slowdown(text)};
}

std::vector<std::string> or_none(std::vector<std::string> names) {
  names.push_back("none");
  return names;
}

void add_optimizer(CLI::App* sub, TrainOptions& o) {
  add_choice(sub, "--optimizer", kOptimizers, o.optimizer,
             "How gradients become updates, as PyTorch's of that name; default: the network's");
  sub->add_flag("--nesterov", o.nesterov, "Nesterov's momentum, of sgd");
  sub->add_option("--beta1", o.beta1, "Of adam and adamw: how much of the gradients' average is kept; default: 0.9")
      ->check(between(0, kBelowOne))
      ->type_name("X");
  sub->add_option("--beta2", o.beta2, "The same of their squares' average; default: 0.999")
      ->check(between(0, kBelowOne))
      ->type_name("X");
  sub->add_option("--eps", o.eps, "Of adam and adamw: what is added to the root that divides; default: 1e-8")
      ->check(between(0, 1000))
      ->type_name("X");
  sub->add_option("--clip-norm", o.clip_norm,
                  "The largest L2 norm of a mini-batch's gradient for all parameters; a larger one is scaled down")
      ->check(between(0, 1e30, true))
      ->type_name("X");
}

void add_training(CLI::App* sub, TrainOptions& o) {
  sub->option_defaults()->group(kTrainingGroup);
  add_data(sub, o.data);
  add_augmentation(sub, o.augmentation);
  sub->add_option("--epochs", o.epochs, "Passes over the training set; default: the network's")
      ->check(CLI::Range(1, 1000000))
      ->type_name("N");
  sub->add_option("--batch", o.batch, "Samples of a mini-batch; default: the network's")
      ->check(CLI::Range(1, 65536))
      ->type_name("N");
  sub->add_option("--accumulate", o.accumulate,
                  "A mini-batch is N times --batch samples, computed one --batch after the other, with one update")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str()
      ->type_name("N");
  sub->add_option("--lr", o.learning_rate, "Learning rate; default: the network's")
      ->check(between(0, 1000, true))
      ->type_name("X");
  sub->add_option("--momentum", o.momentum, "Momentum of sgd; default: the network's")
      ->check(between(0, 1))
      ->type_name("X");
  sub->add_option("--weight-decay", o.weight_decay, "Weight decay; default: the network's")
      ->check(between(0, 1000))
      ->type_name("X");
  add_optimizer(sub, o);
  add_choice(sub, "--lr-schedule", kLrSchedules, o.lr_schedule,
             "The learning rate over the run: falling to 0 as a cosine, constant, or falling in steps; default: the "
             "network's");
  sub->add_option("--lr-step-epochs", o.lr_step_epochs, "Of the schedule 'step': epochs until the learning rate falls")
      ->check(CLI::Range(1, 1000000))
      ->type_name("N");
  sub->add_option("--lr-gamma", o.lr_gamma, "Of the schedule 'step': what the rate is multiplied by; default: 0.1")
      ->check(between(0, 1, true))
      ->type_name("X");
  sub->add_option("--lr-warmup", o.lr_warmup,
                  "Mini-batches over which the learning rate rises to its value; default: 200, or a fifth of the run")
      ->check(CLI::Range(0, 1000000000))
      ->type_name("N");
  add_choice(
      sub, "--consistency", kConsistencies, o.consistency,
      "When parameters are updated: by each mini-batch at once (asp), so within a bound on staleness (ssp), or in "
      "steps of all workers together (bsp)");
  sub->add_option("--staleness", o.staleness,
                  "Bound of ssp: updates by others between a mini-batch's begin and its own; default: the workers")
      ->check(CLI::Range(0, 1000000))
      ->type_name("N");
  sub->add_flag("--staleness-aware-lr", o.staleness_aware_lr,
                "A gradient with staleness s > 1 counts 1/s (Zhang et al. 2016)");
  sub->add_option("--delay-compensation", o.delay_compensation,
                  "Lambda of DC-ASGD (Zheng et al. 2017), which corrects a stale gradient to first order; 0: off")
      ->check(between(0, 1000))
      ->capture_default_str()
      ->type_name("X");
  add_yes_or_no(
      sub, "dana", o.dana,
      "A momentum for each mini-batch in flight, which looks ahead by Nesterov's formula (Hakimi et al. 2019); "
      "default: where several are, and for several ranks");
  sub->add_flag("--momentum-correction", o.momentum_correction,
                "Rather than that, lower the momentum by what asynchrony adds to it (Mitliagkas et al. 2016)");
  sub->add_option("--round", o.round, "Mini-batches that are dealt at a time; default: 8 a worker")
      ->check(CLI::Range(1, 1000000))
      ->type_name("N");
  sub->add_option("--replicas", o.replicas, "Mini-batches in flight; default: one a CPU worker, two a device")
      ->check(CLI::Range(1, 4096))
      ->type_name("N");
  add_yes_or_no(sub, "deterministic", o.deterministic,
                "Use the first implementation of every operation rather than the fastest, so that a run with one "
                "worker or with bsp gives the same bits each time; default: with these");
  add_tf32(sub, o.tf32);
  sub->option_defaults()->group("Options");
}

void add_ranks(CLI::App* sub, TrainOptions& o) {
  sub->add_option(
         "--exchange-period", o.exchange_period,
         "With several ranks (mpirun), asp or ssp: mini-batches of a rank from one exchange of parameters to the "
         "next, on average")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str()
      ->type_name("N");
  sub->add_option("--exchange-weight", o.exchange_weight,
                  "With several ranks, asp or ssp: what a rank's own training counts for in an exchange: 1 / ranks is "
                  "the mean of all, 1 the sum; its learning rate is divided by it; default: ranks^(-3/4)")
      ->check(between(0, 1, true))
      ->type_name("X");
  sub->add_option("--elastic", o.elastic,
                  "With several ranks, asp or ssp: elastic averaging (EASGD): in an exchange each rank and a centre "
                  "that nobody trains on come nearer to one another by this part of what is between them; the paper's "
                  "is 0.9 / ranks")
      ->check(between(0, 1, true))
      ->excludes("--exchange-weight")
      ->type_name("X");
  add_choice(sub, "--exchange-format", kWireFormats, o.exchange_format,
             "With several ranks, asp or ssp: how numbers travel; what 16 bits round off goes with a later exchange");
  sub->add_option("--rank-timeout", o.rank_timeout,
                  "With several ranks: seconds that one waits for the others before it ends the job")
      ->check(between(0, 1e9, true))
      ->capture_default_str()
      ->type_name("SECONDS");
}

void add_run_directory(CLI::App* sub, TrainOptions& o, const std::string& usual) {
  sub->add_option("--out", o.out, "Run directory; default: runs/" + usual + "-<time>")->type_name("DIR");
  sub->add_flag("--overwrite", o.overwrite, "Use the run directory even if it is not empty");
}

void add_checkpoints(CLI::App* sub, TrainOptions& o) {
  sub->add_flag(
      "--resume", o.resume,
      "Go on from the last checkpoint of the run directory that --out names, with the options that the run was "
      "begun with");
  sub->add_option("--init", o.init, "Start from these parameters: a file (safetensors), or a run directory")
      ->type_name("PATH");
  sub->add_option_function<std::string>(
         "--checkpoint-every",
         [&o](const std::string& text) {
           o.checkpoint_every.reset();
           if (text != "epoch") o.checkpoint_every = std::stoll(text);
         },
         "Write a checkpoint each N mini-batches; one is written at the end and on a signal, too")
      ->check(CLI::IsMember({"epoch"}) | CLI::Range(1, 1000000000))
      ->default_str("epoch")
      ->type_name("N|epoch");
  sub->add_option("--keep-checkpoints", o.keep_checkpoints, "How many of the last checkpoints are kept")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str()
      ->type_name("N");
}

}  // namespace

CLI::App* add_train(CLI::App& app, TrainOptions& o) {
  CLI::App* sub = add_subcommand(app, "train", "Train a network", o.common);
  o.app = sub;
  add_training(sub, o);
  sub->add_option("--seed", o.seed, "Of the initial weights, the order of samples, and how they are augmented")
      ->check(whole_number)
      ->capture_default_str();
  add_choice(sub, "--balance", kBalances, o.balance,
             "How mini-batches are dealt: in proportion to speed, the same to each, or to whoever is free");
  add_choice(sub, "--share", kShares, o.share,
             "What is in proportion to speed: the number of mini-batches, or their size");
  sub->add_option_function<std::string>(
         "--slowdown",
         [&o](const std::string& text) {
           parse_slowdown(text);
           o.slowdown = text;
         },
         "Experiment: stretch the kernels of CPU worker W, of every rank or of rank R, to F times their duration")
      ->type_name("[R/]W:F[,...]");
  add_ranks(sub, o);
  add_run_directory(sub, o, "<model>");
  add_checkpoints(sub, o);
  sub->add_option("--progress", o.progress, "A live line: auto (on a terminal), on, off")
      ->check(CLI::IsMember({"auto", "on", "off"}))
      ->capture_default_str();
  return sub;
}

CLI::App* add_compare(CLI::App& app, CompareOptions& o) {
  CLI::App* sub = add_subcommand(app, "compare", "The same training under several rules, in turns", o.train.common);
  o.app = sub;
  add_training(sub, o.train);
  sub->add_option_function<std::vector<std::string>>(
         "--slowdown",
         [&o](const std::vector<std::string>& texts) {
           o.slowdowns.clear();
           for (const std::string& text : texts) o.slowdowns.push_back(parse_experiment(text));
         },
         "An experiment: kernels of CPU worker W take F times as long; 'none': as they are. Several: one after the "
         "other")
      ->default_str("1:4")
      ->type_name("W:F[,W:F]...");
  sub->add_option("--balances", o.balances, "Of our rules those to run; default: all")
      ->check(CLI::IsMember(or_none(labels(our_rules()))))
      ->delimiter(',')
      ->type_name("LIST");
  const std::string usual = CLI::detail::join(labels(usual_starpu_rules()), ",");
  sub->add_option("--schedulers", o.schedulers,
                  "Of StarPU's policies (STARPU_SCHED=help lists them) those to run, or none; default: " + usual)
      ->check(CLI::IsMember(or_none(labels(starpu_rules()))).description(""))
      ->delimiter(',')
      ->type_name("LIST");
  sub->add_option("--repeats", o.repeats, "Runs of each rule, with seeds from 1 on")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str()
      ->type_name("N");
  sub->add_option("--warmup", o.warmup, "Epochs of each rule's first run, which fills its models and does not count")
      ->check(CLI::Range(0, 1000))
      ->capture_default_str()
      ->type_name("N");
  sub->add_option("--timeout", o.timeout, "Seconds after which a run is ended and counts as failed")
      ->check(between(0, 1e6, true))
      ->capture_default_str()
      ->type_name("SECONDS");
  add_run_directory(sub, o.train, "compare");
  return sub;
}

std::vector<std::string> training_arguments(const CLI::App& subcommand) {
  std::vector<std::string> arguments;
  for (const CLI::Option* option : subcommand.get_options())
    if (option->get_group() == kTrainingGroup)
      for (const std::string& value : option->results())
        arguments.push_back("--" + option->get_lnames().front() + "=" + value);
  return arguments;
}

namespace {

// Of the subcommands that use a trained network.
void add_trained(CLI::App* sub, DataOptions& data, std::int32_t& batch, bool& tf32, std::filesystem::path& checkpoint) {
  add_data(sub, data);
  data.model.clear();
  sub->get_option("--model")->default_str("the checkpoint's own, or lenet5");
  sub->add_option("--batch", batch, "Samples of a mini-batch")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str()
      ->type_name("N");
  add_tf32(sub, tf32);
  sub->add_option("checkpoint,--checkpoint", checkpoint,
                  "A parameter file (safetensors), or a run directory that has one")
      ->type_name("PATH");
}

}  // namespace

CLI::App* add_eval(CLI::App& app, EvalOptions& o) {
  CLI::App* sub = add_subcommand(app, "eval", "Accuracy and loss of a checkpoint on the test set", o.common);
  add_trained(sub, o.data, o.batch, o.tf32, o.checkpoint);
  return sub;
}

CLI::App* add_predict(CLI::App& app, PredictOptions& o) {
  CLI::App* sub = add_subcommand(app, "predict", "Class and probabilities of samples, as JSON lines", o.common);
  add_trained(sub, o.data, o.batch, o.tf32, o.checkpoint);
  sub->add_option("samples,--samples", o.samples,
                  "A file of samples (IDX, may be .gz); default: the data set's test set")
      ->type_name("FILE");
  return sub;
}

CLI::App* add_calibrate(CLI::App& app, CalibrateOptions& o) {
  CLI::App* sub = add_subcommand(app, "calibrate",
                                 "Measure the performance models of a network's training on every worker", o.common);
  add_model(sub, o.model)->capture_default_str();
  add_batches(sub, o.batches, "Batch sizes to measure; default: 1 to 512, and the network's own");
  sub->add_option("--repetitions", o.repetitions, "Most measurements of each task")
      ->check(CLI::Range(10, 100000))
      ->capture_default_str()
      ->type_name("N");
  sub->add_option("--precision", o.precision, "Measure until a mini-batch's time is known to this fraction")
      ->check(between(0, 1, true))
      ->capture_default_str()
      ->type_name("X");
  sub->add_flag("--check", o.check, "Measure only the batch sizes whose models cannot be true");
  add_slowdown(sub, o.slowdown);
  add_tf32(sub, o.tf32);
  return sub;
}

CLI::App* add_devices(CLI::App& app, DevicesOptions& o) {
  CLI::App* sub =
      add_subcommand(app, "devices", "The machine, its workers, where they sit, how fast they are", o.common);
  add_model(sub, o.model);
  add_batches(sub, o.batches, "Batch sizes to show; default: those that were calibrated");
  add_slowdown(sub, o.slowdown);
  add_tf32(sub, o.tf32);
  return sub;
}

CLI::App* add_selftest(CLI::App& app, SelftestOptions& o) {
  return add_subcommand(app, "selftest", "Hold every operation, on every device here, against a reference", o.common);
}

}  // namespace prorata

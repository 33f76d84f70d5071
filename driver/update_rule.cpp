#include "driver/update_rule.h"

#include "driver/options.h"
#include "models/errors.h"

#include <string>

namespace prorata {
namespace {

void refuse(bool given, const std::string& option, const std::string& why) {
  if (given) throw InputError(option + " " + why);
}

void refuse_what_is_anothers(const TrainOptions& o, const UpdateRule& rule) {
  const std::string name = to_string(rule.optimizer.kind);
  if (is_adam(rule.optimizer.kind)) {
    const std::string why = "is for --optimizer sgd; " + name + " has ";
    refuse(o.momentum.has_value(), "--momentum", why + "--beta1");
    refuse(o.nesterov, "--nesterov", why + "none");
    for (const auto& [given, option] :
         {std::pair{o.momentum_correction, "--momentum-correction"}, std::pair{o.dana.value_or(false), "--dana"}})
      refuse(given, option, why + "no momentum that its theory is about; leave it out");
  } else {
    const std::string why = "is for --optimizer adam and adamw; sgd has --momentum";
    refuse(o.beta1.has_value(), "--beta1", why);
    refuse(o.beta2.has_value(), "--beta2", why);
    refuse(o.eps.has_value(), "--eps", why);
    refuse(o.dana.value_or(false) && rule.momentum == 0, "--dana", "needs a momentum; give --momentum above 0");
    refuse(o.nesterov && rule.momentum == 0, "--nesterov", "needs a momentum; give --momentum above 0");
  }
  if (rule.lr_schedule == LrSchedule::step) {
    if (rule.lr_step_epochs == 0)
      throw InputError("--lr-schedule step needs --lr-step-epochs: after how many epochs the rate is to fall");
  } else {
    const std::string why = "is for --lr-schedule step, not " + std::string(to_string(rule.lr_schedule));
    refuse(o.lr_step_epochs.has_value(), "--lr-step-epochs", why);
    refuse(o.lr_gamma.has_value(), "--lr-gamma", why);
  }
}

}  // namespace

UpdateRule choose_update_rule(const TrainOptions& o, const TrainingDefaults& of_file) {
  const OptimizerKind kind = o.optimizer.value_or(of_file.optimizer);
  const TrainingDefaults d = kind == of_file.optimizer ? of_file : training_defaults(kind);
  UpdateRule rule;
  const Optimizer usual;
  rule.optimizer = {.kind = kind,
                    .nesterov = o.nesterov,
                    .beta1 = o.beta1.value_or(usual.beta1),
                    .beta2 = o.beta2.value_or(usual.beta2),
                    .epsilon = o.eps.value_or(usual.epsilon),
                    .clip_norm = o.clip_norm.value_or(0)};
  rule.learning_rate = o.learning_rate.value_or(d.learning_rate);
  rule.momentum = is_adam(kind) ? 0 : o.momentum.value_or(d.momentum);
  rule.weight_decay = o.weight_decay.value_or(d.weight_decay);
  rule.lr_schedule = o.lr_schedule.value_or(of_file.lr_schedule);
  rule.lr_step_epochs = o.lr_step_epochs.value_or(of_file.lr_step_epochs);
  rule.lr_gamma = o.lr_gamma.value_or(of_file.lr_gamma);
  refuse_what_is_anothers(o, rule);
  return rule;
}

}  // namespace prorata

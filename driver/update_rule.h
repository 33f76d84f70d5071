// What a run's updates are made by: what the user said, and the network's file where the user said nothing.
#pragma once

#include "models/optimizer.h"
#include "models/specification.h"

namespace prorata {

struct TrainOptions;

struct UpdateRule {
  Optimizer optimizer;
  double learning_rate = 0;
  double momentum = 0;  // of sgd, else 0
  double weight_decay = 0;
  LrSchedule lr_schedule = LrSchedule::cosine;
  int lr_step_epochs = 0;  // of LrSchedule::step, and so
  double lr_gamma = 0;     // is this
};

// Of the file's defaults the learning rate, its weight decay and its momentum are for the optimizer that the file
// names; another one has its own (training_defaults()). InputError where options contradict each other.
UpdateRule choose_update_rule(const TrainOptions& options, const TrainingDefaults& defaults);

}  // namespace prorata

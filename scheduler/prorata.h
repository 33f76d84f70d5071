/* Prorata's scheduling policy for StarPU: the public interface, in C.
 *
 * What it does. A program marks the tasks that make one mini-batch (or any other unit of work of which it
 * has many alike) as a *group*. The policy binds each group to one worker and runs all its tasks there, in
 * the order of their positions. How many groups a worker gets is in proportion to its speed, which the
 * policy reads from StarPU's performance models of the groups' codelets and corrects by what it measures.
 *
 *   Late binding.  A group waits in a common queue, in the order of its sequence number, until a worker has
 *     finished its previous group and the ledger says that it is that worker's turn. Only then do its tasks
 *     start. Give every group a first task that touches nothing shared, and let the tasks that read shared
 *     data depend on it: StarPU grants a task its data when the task becomes ready, not when it runs.
 *   One after the other.  A worker starts a group only after it has finished the one before. So with a single
 *     worker groups never overlap, however many are submitted ahead.
 *   Fairness.  PRORATA_PRORATA never keeps a worker idle while there is a group that it would finish before
 *     the others could; PRORATA_UNIFORM does, on purpose: it is the baseline of the literature.
 *   Tasks without a group are dealt one by one, each to the worker that is expected to finish it first, the
 *     largest priority first; where no model knows, to whoever is free (scheduler/single_tasks.h). Those whose
 *     priority is above 0, StarPU's default, go before anything of a group; of the others a worker runs one
 *     between two groups. Dealt like them are those that the group's worker has no implementation for: they
 *     leave the group, which ends without them. What a
 *     program keeps in sched_data for another purpose is told apart by the tag's first member: NULL, small
 *     integers, or a pointer to at least 4 readable bytes.
 *
 * Worked example: 1000 groups of three tasks.
 *
 *     struct starpu_conf conf;
 *     starpu_conf_init(&conf);
 *     conf.sched_policy = &starpu_prorata_policy;
 *     starpu_init(&conf);
 *
 *     struct prorata_phase phase = { .groups = 1000, .balance = PRORATA_PRORATA };
 *     prorata_begin_phase(0, &phase);                         // 0: StarPU's initial context
 *     for (int g = 0; g < 1000; g++) {
 *         struct prorata_group *group = &groups[g];           // alive until its last task's callback
 *         *group = (struct prorata_group){ .sequence = g, .tasks = 3, .samples = 64 };
 *         for (int t = 0; t < 3; t++) {
 *             tags[g][t] = (struct prorata_tag)PRORATA_TAG(group, t);
 *             task[t]->sched_data = &tags[g][t];              // alive as long
 *             starpu_task_submit(task[t]);
 *         }
 *     }
 *     starpu_task_wait_for_all();
 *     // groups[g].worker_plus_1 - 1 now says who did it
 *
 * Under another policy the same program runs unchanged: sched_data means nothing to it.
 *
 * Threads. Everything may be called from any thread, callbacks included. Units: seconds, samples.
 */
#ifndef PRORATA_H
#define PRORATA_H

#include <starpu.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One unit of work. The program sets the first part before it submits the group's first task. */
struct prorata_group {
  uint64_t sequence; /* groups start in this order */
  uint32_t tasks;    /* how many tasks carry this group's tag; all are to be submitted. Less those that left it */
  uint32_t samples;  /* how much work it is: groups of equal kind and samples are taken to cost the same */
  uint32_t kind;     /* tells apart groups of different tasks, as training and evaluation */
  /* The worker that it is for, plus 1: a group whose size was made for one worker, see prorata_next_samples().
   * 0: whoever's turn it is. */
  int32_t for_worker_plus_1;

  /* The policy's own. Zero at first. */
  int32_t worker_plus_1; /* the worker that has it, plus 1; 0 while it waits; -1: no worker can run all of it */
  uint32_t finished;     /* tasks that have run */
  uint32_t priced;       /* tasks that have been priced; see scheduler/speed.h */
  double started;        /* when it was bound: starpu_timing_now(), in microseconds */
  void* ready;           /* its tasks that could run, while it is not bound */
  void* ready_tail;
};

/* What starpu_task::sched_data points to. */
struct prorata_tag {
  uint32_t magic;    /* PRORATA_TAG_MAGIC */
  uint32_t position; /* order within the group: smaller runs first */
  struct prorata_group* group;
};
#define PRORATA_TAG_MAGIC 0x9a70a7a6u
#define PRORATA_TAG(group, position) \
  { PRORATA_TAG_MAGIC, (position), (group) } /* initialises one */

enum prorata_balance {
  PRORATA_PRORATA, /* in proportion to speed */
  PRORATA_UNIFORM, /* the same number for each worker */
  PRORATA_DYNAMIC  /* whoever is free takes the next one */
};

enum prorata_share {
  PRORATA_COUNT, /* groups of one size, and their number is in proportion */
  PRORATA_SIZE   /* each worker has groups of a size of its own: prorata_next_samples() */
};

/* A phase is a stretch of work whose end matters, as an epoch: its last groups go to those who finish first. */
struct prorata_phase {
  uint64_t groups; /* how many groups will be submitted in it */
  uint32_t round;  /* how many groups the shares of one round add up to; 0: a multiple of the workers */
  uint32_t kind;   /* of its groups */
  uint32_t samples;
  uint32_t balance;  /* one of enum prorata_balance */
  uint32_t in_steps; /* not 0: the next round's groups are submitted when this round's have all finished */

  /* Share by size, under PRORATA_PRORATA only: `samples` is then the mean size. */
  uint32_t share;         /* one of enum prorata_share */
  uint64_t total_samples; /* of the phase */
  const uint32_t* most;   /* by worker id: the largest group that it may get; NULL: no bound but all together */
};

extern struct starpu_sched_policy starpu_prorata_policy; /* its name is "prorata" */

/* Starts a phase; every group of the one before must have finished.
 * -ENOSYS: the context is not scheduled by this policy. -EINVAL: an unknown balance or share, or PRORATA_SIZE under
 * another balance than PRORATA_PRORATA. */
int prorata_begin_phase(unsigned sched_ctx, const struct prorata_phase* phase);

/* Under PRORATA_SIZE: how many samples the next group for this worker is to have, which counts as dealt. Ask when the
 * worker is free or about to be (from the callback of its group's last task), and submit a group with so many samples
 * and for_worker_plus_1 set. 0: none at present, as the others will finish what is left sooner, or nothing is left; ask
 * again when another group has ended. */
uint32_t prorata_next_samples(unsigned sched_ctx, int worker);

/* Prices a group that is not submitted, as the policy prices submitted ones: `tasks` are its `count` tasks, with
 * codelet, cl_arg and handles set, which stay the caller's. So that prorata_expected_seconds() knows sizes before they
 * are used; a task that the models do not know yet for a worker leaves that worker's price unknown. -ENOSYS: the
 * context is not scheduled by this policy. */
int prorata_price(unsigned sched_ctx, uint32_t kind, uint32_t samples, struct starpu_task* const* tasks,
                  uint32_t count);

/* The seconds that `worker` is expected to take for a group of this kind, its first implementation chosen by
 * the models; 0 where nothing is known yet. NAN: the context is not scheduled by this policy. */
double prorata_expected_seconds(unsigned sched_ctx, int worker, uint32_t kind, uint32_t samples);

#ifdef __cplusplus
}
#endif
#endif

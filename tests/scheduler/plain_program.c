/* A StarPU program that has never heard of Prorata: y = 3 x + y by blocks, several times, then the sum. Prints the name
 * of the policy that scheduled it; fails where the result is wrong. Run by CTest with libstarpu_prorata.so preloaded,
 * or loaded by StarPU, which closes that library when the program names a policy that is not in it: ours must stay. */
#include <starpu.h>
#include <stdio.h>

enum { N = 4096, BLOCKS = 16, TIMES = 20 };

static void axpy(void* buffers[], void* arg) {
  const float* x = (const float*)STARPU_VECTOR_GET_PTR(buffers[0]);
  float* y = (float*)STARPU_VECTOR_GET_PTR(buffers[1]);
  (void)arg;
  for (unsigned i = 0; i < STARPU_VECTOR_GET_NX(buffers[0]); i++) y[i] += 3 * x[i];
}

static struct starpu_perfmodel model = {.type = STARPU_HISTORY_BASED, .symbol = "plain_program_axpy"};

static struct starpu_codelet codelet = {.cpu_funcs = {axpy},
                                        .cpu_funcs_name = {"axpy"},
                                        .nbuffers = 2,
                                        .modes = {STARPU_R, STARPU_RW},
                                        .model = &model,
                                        .name = "axpy"};

int main(void) {
  static float x[N], y[N];
  for (int i = 0; i < N; i++) x[i] = (float)(i % 7);
  if (starpu_init(NULL) != 0) return 77;
  printf("policy: %s\n", starpu_sched_ctx_get_sched_policy(0)->policy_name);
  int worker = 0;
  starpu_sched_ctx_delete(starpu_sched_ctx_create(&worker, 1, "other", STARPU_SCHED_CTX_POLICY_NAME, "eager", 0));

  starpu_data_handle_t hx, hy;
  starpu_vector_data_register(&hx, STARPU_MAIN_RAM, (uintptr_t)x, N, sizeof(float));
  starpu_vector_data_register(&hy, STARPU_MAIN_RAM, (uintptr_t)y, N, sizeof(float));
  struct starpu_data_filter blocks = {.filter_func = starpu_vector_filter_block, .nchildren = BLOCKS};
  starpu_data_partition(hx, &blocks);
  starpu_data_partition(hy, &blocks);
  for (int t = 0; t < TIMES; t++)
    for (int b = 0; b < BLOCKS; b++)
      if (starpu_task_insert(&codelet, STARPU_R, starpu_data_get_sub_data(hx, 1, b), STARPU_RW,
                             starpu_data_get_sub_data(hy, 1, b), STARPU_PRIORITY, b % 3, 0) != 0)
        return 1;
  starpu_data_unpartition(hx, STARPU_MAIN_RAM);
  starpu_data_unpartition(hy, STARPU_MAIN_RAM);
  starpu_data_unregister(hx);
  starpu_data_unregister(hy);
  starpu_shutdown();

  int wrong = 0;
  for (int i = 0; i < N; i++) wrong += y[i] != 3.0F * TIMES * x[i];
  printf("%d wrong\n", wrong);
  return wrong != 0;
}

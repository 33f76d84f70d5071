// For builds with sanitizers, of the tests and of the program: what is not ours to mend.
extern "C" {
const char* __asan_default_options();
const char* __lsan_default_suppressions();
const char* __tsan_default_suppressions();
}

// Whole stacks, so that a suppression names who lost the memory rather than whole libraries.
const char* __asan_default_options() { return "fast_unwind_on_malloc=0"; }

// A few bytes that StarPU 1.3.10 leaves behind where it queues for a handle, 48 at a time, and what hwloc's plug-in for
// PCI devices gets from a library that it unloads. (StarPU's symbols do not say more exactly where. So what our policy
// alone loses while a task is pushed is not seen; what it loses elsewhere, is.)
const char* __lsan_default_suppressions() {
  return "leak:_starpu_attempt_to_submit_data_request_from_apps\n"
         "leak:_starpu_enforce_deps_and_schedule\n"
         "leak:_starpu_enforce_deps_starting_from_task\n"
         "leak:_starpu_notify_data_dependencies\n"
         "leak:hwloc\n"
         "leak:<unknown module>\n";
}

// Races inside libraries that are not instrumented: the sanitizer cannot see the locks that they make of atomics. Its
// stacks hold instrumented frames only, and who called into or out of a library: our own code is not hidden by these.
const char* __tsan_default_suppressions() {
  return "race:libstarpu\n"
         "race:libdnnl\n"
         "race:libgomp\n"
         "race:libopenblas\n"
         "race:libpocl\n"
         "deadlock:libstarpu\n";
}

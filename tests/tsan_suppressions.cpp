// For ThreadSanitizer builds, of the tests and of the program: races inside libraries that are not instrumented, for
// the sanitizer cannot see the locks that they make of atomics. Stacks hold instrumented frames only, and who called
// into or out of a library: our own code is not hidden by these.
extern "C" const char* __tsan_default_suppressions();

const char* __tsan_default_suppressions() {
  return "race:libstarpu\n"
         "race:libdnnl\n"
         "race:libgomp\n"
         "race:libopenblas\n"
         "deadlock:libstarpu\n";
}

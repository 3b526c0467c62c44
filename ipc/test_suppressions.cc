// What the thread sanitizer must not report in test programs that use sockets: libzmq is not built
// with it and synchronises in ways it cannot see. Races of our own code are still found: only
// frames inside libzmq are left out.
extern "C" const char* __tsan_default_suppressions();
extern "C" const char* __tsan_default_suppressions() {
  return "called_from_lib:libzmq.so\nrace:libzmq.so\n";
}

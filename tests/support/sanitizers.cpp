// What the sanitizers' builds of all tests are told.

#ifdef __SANITIZE_ADDRESS__
// libjq 1.6 loses some messages of errors that an expression catches.
extern "C" const char* __lsan_default_suppressions() { return "leak:libjq.so"; }  // NOLINT: the name is LSan's
#endif

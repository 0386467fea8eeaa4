/* Stands for a runtime where only the cost of reaching it is measured: exits without a C library. */
void _start(void) {
#if defined(__x86_64__)
  __asm__ volatile("syscall" : : "a"(60), "D"(0));
#elif defined(__aarch64__)
  register long number __asm__("x8") = 93;
  register long status __asm__("x0") = 0;
  __asm__ volatile("svc 0" : : "r"(number), "r"(status));
#else
#error "the system call exit of this architecture is not known"
#endif
  __builtin_unreachable();
}

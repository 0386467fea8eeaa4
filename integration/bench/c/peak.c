/* peak PROGRAM ARGS...: runs a program and prints the peak of its resident memory in kilobytes.
   Memory is counted for a process from its creation on, so the process that creates it is small. */
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int argc, char **argv) {
  if (argc < 2) return 2;
  int status;
  struct rusage usage;
  pid_t pid = vfork();
  if (pid == 0) {
    execv(argv[1], argv + 1);
    _exit(127);
  }
  if (pid < 0 || wait4(pid, &status, 0, &usage) != pid || status != 0) return 1;
  printf("%ld\n", usage.ru_maxrss);
  return 0;
}

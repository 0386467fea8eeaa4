/* neighbour KIND THREADS COUNTER PREFIX: works until it is killed, and counts its work in the file
   COUNTER, which others can read at any time: a number of 64 bits for each thread, 64 bytes apart.
   COUNTER is best on a tmpfs, where writes to memory never wait for a disk. KIND is
     compute  arithmetic in registers
     memory   streams over 32 MiB of each thread, more than caches hold
     disk     writes 64 KiB to the file PREFIXn of thread n, and waits for the disk (fsync) */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { STRIDE = 64, STREAM = 32 << 20, CHUNK = 1 << 20, BLOCK = 64 << 10, FILE_SIZE = 16 << 20 };

static const char *prefix;
static char *counters;

static void fail(const char *what) {
  fprintf(stderr, "neighbour: %s: %s\n", what, strerror(errno));
  exit(1);
}

static void compute(volatile uint64_t *count, long thread) {
  for (volatile uint64_t state = thread;; ++*count) {
    uint64_t value = state;
    for (int step = 0; step < 20000; step++)
      value = value * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    state = value;
  }
}

static void memory(volatile uint64_t *count, long thread) {
  char *stream = malloc(STREAM);
  if (stream == NULL) fail("malloc");
  memset(stream, (int)thread, STREAM);
  for (size_t from = 0;; from = (from + CHUNK) % (STREAM / 2), ++*count) {
    memcpy(stream + STREAM / 2 + from, stream + from, CHUNK);
    /* The compiler must not leave out copies that nothing reads. */
    __asm__ volatile("" : : "r"(stream) : "memory");
  }
}

static void disk(volatile uint64_t *count, long thread) {
  static char block[BLOCK];
  char path[4096];
  if (snprintf(path, sizeof path, "%s%ld", prefix, thread) >= (int)sizeof path) exit(1);
  int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0) fail(path);
  for (off_t at = 0;; at = (at + BLOCK) % FILE_SIZE, ++*count)
    if (pwrite(file, block, BLOCK, at) != BLOCK || fsync(file) != 0) fail(path);
}

static void (*kind)(volatile uint64_t *, long);

static void *run(void *argument) {
  long thread = (long)argument;
  kind((volatile uint64_t *)(counters + thread * STRIDE), thread);
  return NULL;
}

int main(int argc, char **argv) {
  static const struct { const char *name; void (*run)(volatile uint64_t *, long); } kinds[] = {
    {"compute", compute}, {"memory", memory}, {"disk", disk},
  };
  for (unsigned i = 0; argc == 5 && i < sizeof kinds / sizeof *kinds; i++)
    if (strcmp(argv[1], kinds[i].name) == 0) kind = kinds[i].run;
  long threads = argc == 5 ? atol(argv[2]) : 0;
  if (kind == NULL || threads < 1)
    return fputs("neighbour compute|memory|disk THREADS COUNTER PREFIX\n", stderr), 2;
  const char *counter = argv[3];
  prefix = argv[4];
  int file = open(counter, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0 || ftruncate(file, threads * STRIDE) != 0) fail(counter);
  counters = mmap(NULL, threads * STRIDE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (counters == MAP_FAILED) fail(counter);
  for (long thread = 0; thread < threads; thread++) {
    pthread_t id;
    if ((errno = pthread_create(&id, NULL, run, (void *)thread)) != 0) fail("pthread_create");
  }
  pause();
  return 0;
}

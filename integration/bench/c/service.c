/* service calibrate             prints how many units of work take a millisecond
   service UNITS SECONDS RESULT  serves a request every 2 ms, each UNITS of work, for SECONDS
   The schedule is fixed, and so is the work of a request: a request that is served late delays the
   following ones, and each latency counts from the time at which the schedule has the request. The
   requests of the first half second fill caches and are not counted. RESULT is a file: it exists
   when all requests are served, or three times SECONDS have passed; the latency of a request that
   is not served then is the time since its schedule. RESULT.started exists when the schedule
   begins, and has the CPUs of this process. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum { INTERVAL = 2000000, WARM_UP = 250, PER_SECOND = 1000000000 / INTERVAL };

static int64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

static void sleep_until(int64_t when) {
  struct timespec time = {when / 1000000000, when % 1000000000};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL) != 0) continue;
}

/* More than a cache of level 1 and less than one of level 2: neighbours on the same CPU cost time
   after they have gone, as they cost a real service. */
static uint64_t data[32768];

static void work(long units) {
  static uint64_t state = 1;
  for (long step = units * 16; step > 0; step--) {
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    data[state >> 49] += state;
  }
}

/* The fastest of many batches is the one that nothing has interrupted. */
static int calibrate(void) {
  enum { UNITS = 10000, BATCHES = 300 };
  int64_t fastest = INT64_MAX;
  for (int batch = 0; batch < BATCHES; batch++) {
    int64_t start = now();
    work(UNITS);
    int64_t took = now() - start;
    if (took < fastest) fastest = took;
  }
  printf("%.0f\n", UNITS * 1e6 / (double)fastest);
  return 0;
}

static int compare(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

/* Time in which this process was ready to run and another one ran, in nanoseconds; 0 if the kernel
   does not count it. */
static long long waited(void) {
  long long ran, wait = 0;
  FILE *file = fopen("/proc/self/schedstat", "r");
  if (file == NULL) return 0;
  if (fscanf(file, "%lld %lld", &ran, &wait) != 2) wait = 0;
  fclose(file);
  return wait;
}

static long preempted(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_nivcsw;
}

static FILE *create(const char *path) {
  FILE *file = fopen(path, "w");
  if (file == NULL) perror(path), exit(1);
  return file;
}

/* Copies the line of the CPUs that this process may use. */
static void write_cpus(FILE *to) {
  char line[4096];
  FILE *status = fopen("/proc/self/status", "r");
  while (status != NULL && fgets(line, sizeof line, status) != NULL)
    if (strncmp(line, "Cpus_allowed_list:", 18) == 0) fputs(line, to);
  if (status != NULL) fclose(status);
  fclose(to);
}

int main(int argc, char **argv) {
  if (argc == 2 && strcmp(argv[1], "calibrate") == 0) return calibrate();
  long units = argc == 4 ? atol(argv[1]) : 0, seconds = argc == 4 ? atol(argv[2]) : 0;
  if (units < 1 || seconds < 1) return fputs("service UNITS SECONDS RESULT\n", stderr), 2;
  long count = seconds * PER_SECOND, served = 0;
  int64_t *latency = calloc(count, sizeof *latency);
  char path[4096];
  if (latency == NULL || snprintf(path, sizeof path, "%s.started", argv[3]) >= (int)sizeof path)
    return 1;
  memset(data, 1, sizeof data);
  write_cpus(create(path));

  long long waited_before = 0;
  long preempted_before = 0;
  int64_t start = now() + INTERVAL, end = start + 3 * seconds * INT64_C(1000000000), time;
  for (long request = -WARM_UP; request < count; request++) {
    int64_t due = start + (request + WARM_UP) * INTERVAL;
    if (request == 0) waited_before = waited(), preempted_before = preempted();
    time = now();
    if (time < due) sleep_until(due);
    else if (time > end) break;
    work(units);
    if (request >= 0) latency[request] = now() - due, served++;
  }
  long long wait = waited() - waited_before;
  long preemptions = preempted() - preempted_before;
  time = now();
  for (long request = served; request < count; request++)
    latency[request] = time - (start + (request + WARM_UP) * INTERVAL);

  qsort(latency, count, sizeof *latency, compare);
  snprintf(path, sizeof path, "%s.new", argv[3]);
  FILE *file = create(path);
  static const struct { const char *name; double share; } of[] = {
    {"p50", 0.5}, {"p99", 0.99}, {"p999", 0.999}, {"max", 1},
  };
  fputc('{', file);
  for (unsigned i = 0; i < sizeof of / sizeof *of; i++) {
    /* The smallest latency that is not exceeded by this share of the requests. */
    long rank = (long)(of[i].share * count + 0.999999);
    fprintf(file, "\"%s\": %.1f, ", of[i].name, latency[rank > 0 ? rank - 1 : 0] / 1e3);
  }
  fprintf(file, "\"requests\": %ld, \"unserved\": %ld, \"waited\": %.1f, \"preempted\": %ld}\n",
          count, count - served, wait / 1e3, preemptions);
  return fclose(file) != 0 || rename(path, argv[3]) != 0;
}

#!/bin/sh
# bench.sh [COUNT]
#   Runs COUNT (40) life cycles of containers (create, start, kill, delete) with the bare runtime
#   and through the wrapper, alternately. Prints the mean microseconds of each verb and the ratio.
#   Needs root and `make release`. On a busy machine compare the ratio, not the times.
set -eu
case ${1:-40} in *[!0-9]*) sed -n '2,/^[^#]/{s/^# \{0,1\}//p}' "$0" >&2; exit 2 ;; esac
count=${1:-40}
here=$(cd "$(dirname "$0")" && pwd -P)
target=${CARGO_TARGET_DIR:-$here/../target}
bin=$target/release
for p in nri-container-runtime nrid nrictl nri-oci-hook examples/adjust; do
  [ -x "$bin/$p" ] || { echo "bench.sh: $bin/$p is missing, please run: make release" >&2; exit 1; }
done
dir=$(mktemp -d)
export NRI_CONTAINER_RUNTIME_CONFIG="$dir/config.toml"
mkdir "$dir/plugins" "$dir/conf"
printf 'state_dir = "%s/s"\nplugin_path = "%s/plugins"\nplugin_config_path = "%s/conf"\n' \
  "$dir" "$dir" "$dir" >"$dir/config.toml"
finish() { "$bin/nrictl" stop || true; rm -rf "$dir"; }
trap finish EXIT
now() { date +%s%N; }

# verb NAME CALL...: adds the duration of the call in microseconds to the variable sum_NAME
verb() {
  name=$1
  shift
  start=$(now)
  "$@" </dev/null >/dev/null 2>&1
  microseconds=$((($(now) - start) / 1000))
  eval "sum_$name=\$((\${sum_$name:-0} + $microseconds))"
}

# life RUNTIME...: runs one life cycle of a container
life() {
  rm -rf "$dir/b"; "$here/bundle.sh" "$dir/b" --cgroup "/nri-bench-$$" -- /bin/sleep 1000
  verb create "$@" --root "$dir/r" create --bundle "$dir/b" --pid-file "$dir/pid" bench
  verb start "$@" --root "$dir/r" start bench
  verb kill "$@" --root "$dir/r" kill bench KILL
  pid=$(cat "$dir/pid")
  while kill -0 "$pid" 2>/dev/null && ! grep -q '^State:.*Z' "/proc/$pid/status" 2>/dev/null; do
    :
  done
  verb delete "$@" --root "$dir/r" delete bench
}

# round NAME WRAPPER...: runs life cycles with runc and with the wrapper, and prints the means
round() {
  label=$1; shift
  for v in create start kill delete; do eval "sum_$v=0 bare_$v=0"; done
  i=0
  while [ $i -lt "$count" ]; do
    life runc
    for v in create start kill delete; do
      eval "bare_$v=\$((bare_$v + sum_$v)) wrapped_$v=\${wrapped_$v:-0} sum_$v=0"
    done
    life "$@"
    for v in create start kill delete; do eval "wrapped_$v=\$((wrapped_$v + sum_$v)) sum_$v=0"; done
    i=$((i + 1))
  done
  for v in create start kill delete; do
    eval "b=\$((bare_$v / count)) w=\$((wrapped_$v / count)) wrapped_$v=0"
    # shellcheck disable=SC2154 # eval sets b and w
    printf '%-12s %-7s runc %6d us   wrapper %6d us   ratio %d.%02d\n' \
      "$label" "$v" "$b" "$w" $((w / b)) $((w * 100 / b % 100))
  done
}

echo "$count life cycles each, alternately: $(runc --version | head -1)"
"$bin/nrictl" start
round 'no plugin' "$bin/nri-container-runtime"
"$bin/nrictl" stop
cp "$bin/examples/adjust" "$dir/plugins/10-adjust"
printf '[create.resources]\npids = 77\n' >"$dir/conf/10-adjust.conf"
"$bin/nrictl" start
round 'one plugin' "$bin/nri-container-runtime"

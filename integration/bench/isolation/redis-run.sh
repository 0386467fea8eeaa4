#!/bin/sh
# redis-run.sh DIR REQUESTS RESULT: runs redis-server of DIR in the working directory, and
# redis-benchmark with one client: with more, latency would be that of the benchmark's own queue.
# RESULT.started names the CPUs half a second before the benchmark begins, as with service.c; RESULT
# is its output. Nothing is written to disk.
set -eu
"$1/redis-server" --port 0 --unixsocket redis.sock --save '' --appendonly no >/dev/null &
server=$!
trap 'kill $server' EXIT
benchmark() { "$1/redis-benchmark" -s redis.sock -c 1 -t set -d 256 -r 10000 -n "$2"; }
until "$1/redis-cli" -s redis.sock ping >/dev/null 2>&1; do sleep 0.05; done
benchmark "$1" $(($2 / 10)) >/dev/null
grep Cpus_allowed_list: /proc/self/status >"$3.started"
sleep 0.5
benchmark "$1" "$2" >"$3.new"
mv "$3.new" "$3"

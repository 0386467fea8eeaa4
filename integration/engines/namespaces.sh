# shellcheck shell=bash disable=SC2034
# namespaces.sh: functions of the scripts of Docker and Podman, which source it after lib.sh. These
# engines run in private network and mount namespaces, so that their bridges and mounts are
# separate from the host's and are removed with the namespaces. D is the directory of the engine.

# alive PID: whether the process exists and is no zombie; process 1 may reap a zombie late
alive() { grep -q '^State:[[:space:]][^ZX]' "/proc/$1/status" 2>/dev/null; }
dead() { ! alive "$1"; }
# runs NAME: whether the process with the id in D/NAME is alive
runs() { [ -s "$D/$1" ] && alive "$(cat "$D/$1")"; }

# hold: makes the namespaces and keeps them by a process that sleeps. The directories D/etc and
# D/usr, if they exist, are mounted over /etc and /usr as overlays.
hold() {
  ! runs holder || return 0
  # shellcheck disable=SC2016 # the inner shell expands
  setsid unshare -n -m --propagation private sh -c '
    ip link set lo up
    for d in etc usr; do
      [ -d "$1/$d" ] || continue
      mkdir -p "$1/$d.work" || exit 1
      mount -t overlay -o "lowerdir=/$d,upperdir=$1/$d,workdir=$1/$d.work" overlay "/$d" || exit 1
    done
    echo $$ >"$1/holder.new"
    mv "$1/holder.new" "$1/holder"
    exec sleep infinity' sh "$D" >>"$D/log" 2>&1 </dev/null &
  wait_for 5 runs holder || die "no namespaces: $(tail -3 "$D/log")"
}

# enter: sets ENTER to the command that runs its arguments in the namespaces
enter() { ENTER=(nsenter -n -m -t "$(cat "$D/holder")" --); }

# release: ends the process that keeps the namespaces, and removes the work directories of overlays
release() {
  ! runs holder || kill "$(cat "$D/holder")"
  rm -rf "$D/holder" "$D/etc.work" "$D/usr.work"
}

# shellcheck shell=bash disable=SC2034
# namespaces.sh: sourced, after lib.sh, by scripts of engines that get network and mount namespaces of their own: their bridges and mounts are not
# the machine's, and go with the namespaces. D is the engine's directory.

# alive PID: and no zombie, as which some init processes keep it for a while
alive() { grep -q '^State:[[:space:]][^ZX]' "/proc/$1/status" 2>/dev/null; }
dead() { ! alive "$1"; }
# runs NAME: whether the process whose pid is in D/NAME does
runs() { [ -s "$D/$1" ] && alive "$(cat "$D/$1")"; }

# hold: makes them, held by a process that does nothing. If there is a directory D/etc, it is laid over /etc inside; D/usr likewise.
hold() {
  ! runs holder || return 0
  # shellcheck disable=SC2016 # expanded there
  setsid unshare -n -m --propagation private sh -c '
    ip link set lo up
    for d in etc usr; do
      [ -d "$1/$d" ] || continue
      mkdir -p "$1/$d.work" && mount -t overlay -o "lowerdir=/$d,upperdir=$1/$d,workdir=$1/$d.work" overlay "/$d" || exit 1
    done
    echo $$ >"$1/holder.new"
    mv "$1/holder.new" "$1/holder"
    exec sleep infinity' sh "$D" >>"$D/log" 2>&1 </dev/null &
  wait_for 5 runs holder || die "no namespaces: $(tail -3 "$D/log")"
}

# ENTER: what runs a command inside
enter() { ENTER=(nsenter -n -m -t "$(cat "$D/holder")" --); }

release() {
  ! runs holder || kill "$(cat "$D/holder")"
  rm -rf "$D/holder" "$D/etc.work" "$D/usr.work"
}

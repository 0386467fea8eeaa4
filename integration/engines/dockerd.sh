#!/bin/bash
# dockerd.sh start DIR SUITE        starts containerd and dockerd of SUITE and loads the images
# dockerd.sh halt DIR [SIGNAL]      ends dockerd alone, with SIGNAL (default TERM)
# dockerd.sh resume DIR             starts dockerd again
# dockerd.sh reload DIR             makes dockerd read daemon.json again
# dockerd.sh client DIR ARGS...     calls docker
# dockerd.sh enter DIR CMD...       runs a command in the namespaces of dockerd
# dockerd.sh stop DIR               removes the containers, ends both daemons, deletes their state
#   As distributions have it, containerd is a daemon of its own, with CRI, and with NRI if that is
#   its default; dockerd is given its socket. (quick-start.sh has a host with a dockerd that starts a
#   containerd itself.) All files of both are below DIR: DIR/sock is dockerd's socket, DIR/log its
#   log; containerd's are DIR/containerd.sock and DIR/containerd.log, and its NRI is in DIR/nri. The
#   configuration is DIR/daemon.json or, if DIR/etc exists, /etc/docker/daemon.json with DIR/etc
#   mounted over /etc; paths are given as arguments. Containers survive `halt` if daemon.json has
#   "live-restore": true. See namespaces.sh.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/namespaces.sh"
[ $# -ge 2 ] || usage
D=$2

# docker ARGS...: calls docker with a timeout, so that a dockerd that hangs does not hang a test
docker() {
  DOCKER_CONFIG=$D/client timeout 20 "$BIN/$(cat "$D/suite")/docker" -H "unix://$D/sock" "$@"
}

# containerd_config SUITE: prints what differs from the defaults of containerd: paths
containerd_config() {
  printf 'version = 2\nroot = "%s"\nstate = "%s"\n' "$D/containerd/root" "$D/containerd/state"
  printf '[grpc]\n  address = "%s"\n' "$D/containerd.sock"
  printf '[plugins."io.containerd.internal.v1.opt"]\n  path = "%s"\n' "$D/containerd/opt"
  printf '[plugins."io.containerd.grpc.v1.cri".cni]\n'
  printf '  bin_dir = "%s"\n  conf_dir = "%s"\n' "$D/cni/bin" "$D/cni/net.d"
  [ "$1" != bookworm ] || return 0 # containerd 1.6 has no NRI
  printf '[plugins."io.containerd.nri.v1.nri"]\n  socket_path = "%s"\n' "$D/nri/nri.sock"
  printf '  plugin_path = "%s"\n  plugin_config_path = "%s"\n' "$D/nri/plugins" "$D/nri/conf.d"
}

# start_containerd SUITE
start_containerd() {
  mkdir -p "$D/nri/plugins" "$D/nri/conf.d"
  containerd_config "$1" >"$D/containerd.toml"
  enter
  daemon "$1" "$D/containerd.pid" "$D/containerd.log" "${ENTER[@]}" "$BIN/$1/containerd" \
    -c "$D/containerd.toml"
  wait_for 20 timeout 20 "$BIN/$1/ctr" --address "$D/containerd.sock" version ||
    die "containerd did not start: $(tail -3 "$D/containerd.log")"
}

resume() {
  local s file=$D/daemon.json
  s=$(cat "$D/suite")
  [ ! -d "$D/etc" ] || file=/etc/docker/daemon.json
  enter
  daemon "$s" "$D/starter" "$D/log" "${ENTER[@]}" "$BIN/$s/dockerd" --config-file "$file" \
    --data-root "$D/data" --exec-root "$D/exec" --pidfile "$D/pid" -H "unix://$D/sock" \
    --containerd "$D/containerd.sock" --storage-driver overlay2 --iptables=false --ip6tables=false
  wait_for 30 docker version || die "dockerd did not start: $(tail -3 "$D/log")"
}

# halt SIGNAL: ends dockerd and removes its pid file: a killed dockerd leaves it, and while it is a
# zombie, the next dockerd would assume that it still runs.
halt() {
  runs pid || return 0
  local p
  p=$(cat "$D/pid")
  kill -s "$1" "$p"
  wait_for 30 dead "$p" || die "process $p, dockerd, does not end"
  rm -f "$D/pid"
}

# shims: prints the ids of the shims, whose arguments contain the socket of containerd
shims() {
  grep -lzxF -- "$D/containerd.sock" /proc/[0-9]*/cmdline 2>/dev/null | cut -d/ -f3
}

stop() {
  local p t
  [ -s "$D/suite" ] || return 0
  if runs pid; then docker ps -aq | xargs -r "$0" client "$D" rm -f; fi >/dev/null 2>&1
  halt TERM
  stop_pid "$D/containerd.pid"
  # Docker 20.10 forgets a container that fails to start. Its shim and its state are removed here.
  for p in $(shims); do kill -9 "$p" 2>/dev/null; done
  for t in "$D"/exec/runtime-runc/moby/*; do
    [ ! -d "$t" ] || "$BIN/$(cat "$D/suite")/runc" --root "$D/exec/runtime-runc/moby" \
      delete --force "$(basename "$t")"
  done >/dev/null 2>&1
  release
  rm -rf "$D/data" "$D/exec" "$D/containerd" "$D"/*sock* "$D/client" "$D/starter" "$D/suite"
}

case $1 in
  start)
    [ $# -ge 3 ] || usage
    suite "$3"
    mkdir -p "$D/client"
    echo "$3" >"$D/suite"
    [ -d "$D/etc" ] || [ -e "$D/daemon.json" ] || echo '{}' >"$D/daemon.json"
    hold
    start_containerd "$3"
    resume
    docker load -q -i "$IMAGES/docker-archive.tar" >/dev/null ||
      die "images were not loaded: $(tail -3 "$D/log")"
    ;;
  halt) halt "${3:-TERM}" ;;
  resume) resume ;;
  reload) kill -s HUP "$(cat "$D/pid")" ;;
  stop) stop ;;
  client) shift 2; docker "$@" ;;
  enter) enter; shift 2; exec "${ENTER[@]}" "$@" ;;
  *) usage ;;
esac

#!/bin/bash
# dockerd.sh start DIR SUITE        starts dockerd of SUITE and loads the images
# dockerd.sh halt DIR [SIGNAL]      ends dockerd alone, with SIGNAL (default TERM)
# dockerd.sh resume DIR             starts dockerd again
# dockerd.sh reload DIR             makes dockerd read daemon.json again
# dockerd.sh client DIR ARGS...     calls docker
# dockerd.sh enter DIR CMD...       runs a command in the namespaces of dockerd
# dockerd.sh stop DIR               removes the containers, ends dockerd, deletes its state
#   All files of dockerd and of its containerd are below DIR: DIR/sock is its socket, DIR/log its
#   log. The configuration is DIR/daemon.json or, if DIR/etc exists, /etc/docker/daemon.json with
#   DIR/etc mounted over /etc; paths are given as arguments. Containers survive `halt` if
#   daemon.json has "live-restore": true. See namespaces.sh.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/namespaces.sh"
[ $# -ge 2 ] || usage
D=$2

# docker ARGS...: calls docker with a timeout, so that a dockerd that hangs does not hang a test
docker() {
  DOCKER_CONFIG=$D/client timeout 20 "$BIN/$(cat "$D/suite")/docker" -H "unix://$D/sock" "$@"
}

resume() {
  local s file=$D/daemon.json
  s=$(cat "$D/suite")
  [ ! -d "$D/etc" ] || file=/etc/docker/daemon.json
  enter
  daemon "$s" "$D/starter" "$D/log" "${ENTER[@]}" "$BIN/$s/dockerd" --config-file "$file" \
    --data-root "$D/data" --exec-root "$D/exec" --pidfile "$D/pid" -H "unix://$D/sock" \
    --storage-driver overlay2 --iptables=false --ip6tables=false
  wait_for 30 docker version || die "dockerd did not start: $(tail -3 "$D/log")"
}

# halt SIGNAL: ends dockerd and its containerd, and removes their pid files: a killed dockerd leaves
# them, and while it is a zombie, the next dockerd would assume that it still runs.
halt() {
  local p all=() f
  runs pid || return 0
  for f in pid exec/containerd/containerd.pid; do [ ! -s "$D/$f" ] || all+=("$(cat "$D/$f")"); done
  kill -s "$1" "${all[0]}"
  for p in "${all[@]}"; do wait_for 30 dead "$p" || die "process $p of dockerd does not end"; done
  rm -f "$D/pid" "$D/exec/containerd/containerd.pid"
}

# shims: prints the ids of the shims, whose arguments contain the socket of dockerd's containerd
shims() {
  grep -lzxF -- "$D/exec/containerd/containerd.sock" /proc/[0-9]*/cmdline 2>/dev/null | cut -d/ -f3
}

stop() {
  local p t
  [ -s "$D/suite" ] || return 0
  if runs pid; then docker ps -aq | xargs -r "$0" client "$D" rm -f; fi >/dev/null 2>&1
  halt TERM
  # Docker 20.10 forgets a container that fails to start. Its shim and its state are removed here.
  for p in $(shims); do kill -9 "$p" 2>/dev/null; done
  for t in "$D"/exec/runtime-runc/moby/*; do
    [ ! -d "$t" ] || "$BIN/$(cat "$D/suite")/runc" --root "$D/exec/runtime-runc/moby" \
      delete --force "$(basename "$t")"
  done >/dev/null 2>&1
  release
  rm -rf "$D/data" "$D/exec" "$D/sock" "$D/client" "$D/starter" "$D/suite"
}

case $1 in
  start)
    [ $# -ge 3 ] || usage
    suite "$3"
    mkdir -p "$D/client"
    echo "$3" >"$D/suite"
    [ -d "$D/etc" ] || [ -e "$D/daemon.json" ] || echo '{}' >"$D/daemon.json"
    hold
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

#!/bin/bash
# podman.sh start DIR SUITE        prepares podman of SUITE below DIR and loads the images
# podman.sh client DIR ARGS...     calls podman
# podman.sh enter DIR CMD...       runs a command in podman's namespaces
# podman.sh stop DIR               removes the pods and containers, deletes the state
#   All files of podman are below DIR. DIR/engine.conf, if it exists, is appended to the section
#   [engine] of containers.conf. DIR/etc, if it exists, is mounted over /etc and has
#   containers.conf. DIR/usr, if it exists, is mounted over /usr and receives catatonit of SUITE;
#   otherwise podman finds catatonit by helper_binaries_dir. See namespaces.sh.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/namespaces.sh"
[ $# -ge 2 ] || usage
D=$2

# podman ARGS...: executes podman with a minimal environment
podman() {
  local s with=(TERM="${TERM:-dumb}" TMPDIR="$D/tmp" PODMAN_IGNORE_CGROUPSV1_WARNING=1)
  s=$(cat "$D/suite")
  [ -d "$D/etc" ] || with+=(CONTAINERS_CONF="$D/all.conf")
  enter
  exec env -i PATH="$BIN/$s:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" \
    HOME=/root LANG=C.UTF-8 "${with[@]}" "${ENTER[@]}" \
    "$BIN/$s/podman" --root "$D/root" --runroot "$D/run" --tmpdir "$D/libpod" \
    --storage-driver overlay --cgroup-manager cgroupfs --events-backend file "$@"
}

# base SUITE: prints the base of containers.conf. default_ulimits replaces podman's own limits,
# which root cannot set without CAP_SYS_RESOURCE.
base() {
  local n helpers="\"$BIN/$1\""
  n=$(ulimit -Hn)
  [ -d "$D/usr" ] || helpers="$helpers, \"$NRI_ENGINES/root/$1/usr/libexec/podman\""
  cat <<C
[containers]
default_ulimits = ["nofile=$n:$n", "nproc=4096:4096"]
[network]
network_backend = "netavark"
network_config_dir = "$D/networks"
firewall_driver = "none"
[engine]
helper_binaries_dir = [$helpers]
conmon_path = ["$BIN/$1/conmon"]
C
}

stop() {
  [ -s "$D/suite" ] || return 0
  (podman pod rm -f -a -t 0) >/dev/null 2>&1
  (podman rm -f -a -t 0) >/dev/null 2>&1
  release
  rm -rf "$D/root" "$D/run" "$D/libpod" "$D/tmp" "$D/networks" "$D/suite"
}

case $1 in
  start)
    [ $# -ge 3 ] || usage
    suite "$3"
    mkdir -p "$D/tmp" "$D/networks"
    echo "$3" >"$D/suite"
    conf=$D/all.conf
    if [ -d "$D/etc" ]; then
      mkdir -p "$D/etc/containers"
      conf=$D/etc/containers/containers.conf
    fi
    { base "$3"; [ ! -e "$D/engine.conf" ] || cat "$D/engine.conf"; } >"$conf"
    if [ -d "$D/usr" ]; then
      mkdir -p "$D/usr/bin" "$D/usr/libexec/podman"
      cp "$NRI_ENGINES/root/$3/usr/bin/catatonit" "$D/usr/bin/"
      cp -P "$NRI_ENGINES/root/$3/usr/libexec/podman/catatonit" "$D/usr/libexec/podman/"
    fi
    hold
    (podman load -q -i "$IMAGES/docker-archive.tar") >/dev/null 2>>"$D/log" ||
      die "images were not loaded: $(tail -3 "$D/log")"
    ;;
  client) shift 2; podman "$@" ;;
  enter) enter; shift 2; exec "${ENTER[@]}" "$@" ;;
  stop) stop ;;
  *) usage ;;
esac

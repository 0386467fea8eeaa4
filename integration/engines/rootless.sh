#!/bin/bash
# rootless.sh start DIR SUITE PROGRAMS ENGINE
#                             makes a user with an empty home directory, who can run ENGINE (podman
#                             or docker) of SUITE without root, starts a dockerd of the user for
#                             docker, and loads the images. Copies of the files in the directory
#                             PROGRAMS are in ~/bin.
# rootless.sh as DIR CMD...   runs a command as the user
# rootless.sh reload DIR      makes dockerd read daemon.json again
# rootless.sh halt DIR        ends dockerd
# rootless.sh resume DIR      starts dockerd again
# rootless.sh stop DIR        ends the user's processes, removes the containers
#   The user exists in private network and mount namespaces only, where DIR/home is /home, and
#   DIR/etc is mounted over /etc. See namespaces.sh. dockerd has no networks, and its containers end
#   with it; `reload`, `halt` and `resume` do nothing for podman.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/namespaces.sh"
[ $# -ge 2 ] || usage
D=$2
user=nri-user
# The users of the engines have different ids, since they see each other's processes.
engine=${5:-}
[ "$1" = start ] || engine=$(cat "$D/engine" 2>/dev/null)
if [ "$engine" = docker ]; then id=15152; else id=15151; fi
# First id of the user's containers.
first=${id}00000

# as CMD...: executes a command as the user, with the environment of a login
as() {
  local s
  s=$(cat "$D/suite")
  enter
  exec "${ENTER[@]}" setpriv --reuid $id --regid $id --clear-groups env -i -C / \
    PATH="$BIN/$s:/home/$user/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin" \
    HOME=/home/$user USER=$user XDG_RUNTIME_DIR=/run/user/$id LANG=C.UTF-8 \
    PODMAN_IGNORE_CGROUPSV1_WARNING=1 DOCKER_HOST=unix:///run/user/$id/docker.sock "$@"
}

# resume: starts dockerd, if that is the engine, by the script of its package. dockerd stays in the
# network namespace of the user, which has nothing but the loopback device; the script of Docker 28
# would refuse that, but passes the flag on.
resume() {
  local s script
  [ "$engine" = docker ] || return 0
  s=$(cat "$D/suite")
  script=$(find "$NRI_ENGINES/root/$s/usr/share" -name dockerd-rootless.sh -print -quit)
  daemon "$s" "$D/pid" "$D/log" env NRI_ENGINES="$NRI_ENGINES" "$0" as "$D" \
    env DOCKERD_ROOTLESS_ROOTLESSKIT_NET=none DOCKERD_ROOTLESS_ROOTLESSKIT_FLAGS=--net=host \
    DOCKERD_ROOTLESS_ROOTLESSKIT_PORT_DRIVER=none sh "$script" \
    --storage-driver vfs --iptables=false --ip6tables=false --bridge=none --ip-forward=false
  # `docker version` gets no answer from a dockerd whose rootlesskit has no driver of networks.
  wait_for 30 "$0" as "$D" docker info || die "dockerd did not start: $(tail -3 "$D/log")"
}

# halt: ends dockerd by its rootlesskit
halt() {
  runs pid || return 0
  kill "$(cat "$D/pid")"
  wait_for 30 dead "$(cat "$D/pid")" || die "dockerd does not end: $(tail -3 "$D/log")"
}

# make_user SUITE: makes the user and its configuration of podman. The lists of default limits would
# exceed those of the user.
make_user() {
  mkdir -p "$D/etc" "$D/home/$user/bin" "$D/home/$user/.config/containers"
  { cat /etc/passwd; echo "$user:x:$id:$id::/home/$user:/bin/sh"; } >"$D/etc/passwd"
  { cat /etc/group; echo "$user:x:$id:"; } >"$D/etc/group"
  echo "$user:$first:65536" | tee "$D/etc/subuid" >"$D/etc/subgid"
  cat >"$D/home/$user/.config/containers/containers.conf" <<C
[containers]
default_ulimits = []
[network]
firewall_driver = "none"
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
helper_binaries_dir = ["$BIN/$1", "$NRI_ENGINES/root/$1/usr/libexec/podman"]
conmon_path = ["$BIN/$1/conmon"]
runtime = "runc"
[engine.runtimes]
runc = ["$BIN/$1/runc"]
C
  printf '[storage]\ndriver = "vfs"\n' >"$D/home/$user/.config/containers/storage.conf"
  chown -R $id:$id "$D/home/$user"
}

# ends the processes of the user in the namespaces of D
end_processes() {
  local ns p
  ns=$(readlink "/proc/$(cat "$D/holder")/ns/net")
  for p in /proc/[0-9]*; do
    [ "$(readlink "$p/ns/net" 2>/dev/null)" = "$ns" ] || continue
    [ "${p#/proc/}" = "$(cat "$D/holder")" ] || kill -9 "${p#/proc/}" 2>/dev/null
  done
  return 0
}

case $1 in
  start)
    [ $# -ge 5 ] || usage
    suite "$3"
    mkdir -p "$D"
    echo "$3" >"$D/suite"
    echo "$engine" >"$D/engine"
    make_user "$3"
    install -o $id -g $id -m 755 "$4"/* "$D/home/$user/bin"
    hold
    enter
    # Paths in DIR would not be trusted: other users may not even enter the directory of a test.
    # shellcheck disable=SC2016 # the inner shell expands
    "${ENTER[@]}" sh -c '
      set -e
      mount --bind "$1/home" /home
      mount -t tmpfs -o mode=755 tmpfs /run/user
      mount -t tmpfs -o mode=1777 tmpfs /dev/shm # locks of podman
      mkdir -m 700 "/run/user/$2"
      chown "$2:$2" "/run/user/$2"
      mount --make-rshared /' sh "$D" $id >>"$D/log" 2>&1 || die "no user: $(tail -3 "$D/log")"
    resume
    (as "$engine" load -q -i "$IMAGES/docker-archive.tar") >/dev/null 2>>"$D/log" ||
      die "images were not loaded: $(tail -3 "$D/log")"
    ;;
  as) shift 2; as "$@" ;;
  halt) halt ;;
  resume) resume ;;
  reload) ! runs pid || kill -s HUP "$(cat "$D/pid")" ;;
  stop)
    [ -s "$D/suite" ] || exit 0
    # shellcheck disable=SC2016 # the inner shell expands
    (as sh -c '"$1" ps -aq | xargs -r "$1" rm -f' sh "$engine") >/dev/null 2>&1
    (halt)
    (as nrictl stop) >/dev/null 2>&1
    end_processes
    release
    rm -rf "${D:?}/home" "${D:?}/etc" "$D/suite"
    ;;
  *) usage ;;
esac

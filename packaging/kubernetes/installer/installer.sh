#!/bin/sh
# installer.sh install|uninstall|wait
#   Installs the programs on the node and configures its engine, or undoes both. It is the entry
#   point of the installer's image, and accesses the node through process 1: files by /proc/1/root,
#   programs in the namespaces of that process. It can be repeated.
#   install    copies the programs, runs `nrictl install` and starts nrid for the plugins
#   uninstall  runs `nrictl uninstall`, waits until no container uses the wrapper any more, and
#              removes the programs
#   wait       sleeps until SIGTERM
# Environment:
#   ENGINE           name of the engine for nrictl: containerd, crio, docker
#   HANDLER          name of the runtime in the engine (nri)
#   DEFAULT_RUNTIME  true: makes it the default runtime of the engine
#   RESTART_ENGINE   true: restarts the engine when its configuration has changed. Otherwise
#                    the operator restarts it, and `uninstall` keeps the programs, which the engine
#                    calls until then.
#   ENGINE_SERVICE   name of the service, where it differs from ENGINE: k3s, rke2-agent
#   INSTALL_OPTIONS  more options of `nrictl install`
#   PROGRAMS, HOST_PID, POLL  for tests: directory of the programs, process of the node, interval of
#                    the check for containers (s)
set -eu

engine=${ENGINE:-}
handler=${HANDLER:-nri}
service=${ENGINE_SERVICE:-$engine}
programs=${PROGRAMS:-/usr/local/lib/nri-container-runtime}
host_pid=${HOST_PID:-1}
poll=${POLL:-10}
# The programs find each other in one directory, which is not in /usr, since that may be read-only.
dir=/opt/nri-container-runtime/bin
host=/proc/$host_pid/root
# File that exists while a restart of the engine is pending. It is below /run, since a boot restarts
# the engine anyway.
pending=/run/nri-container-runtime-restart

say() { echo "installer: $*"; }
fail() { say "$*" >&2; exit 1; }

# Runs a program of the node in all namespaces of the node's process 1: nrid outlives the pod of the
# installer, so it must not use a namespace of the pod.
on_host() { nsenter --target "$host_pid" --mount --uts --ipc --net --cgroup --root --wd -- "$@"; }

nrictl() { on_host "$dir/nrictl" "$@"; }

copy() {
  mkdir -p "$host$dir"
  new=
  # nrictl is replaced last: the previous nrictl has the protocol of the running nrid, and stops it.
  for program in nrid nri-oci-hook nri-container-runtime nrictl; do
    [ -f "$programs/$program" ] || fail "$program is not in this image"
    cmp -s "$programs/$program" "$host$dir/$program" || new=yes
    if [ $program = nrictl ] && [ -n "$new" ] && [ -x "$host$dir/nrictl" ]; then
      nrictl stop || say 'the previous nrid did not stop'
    fi
    if cmp -s "$programs/$program" "$host$dir/$program"; then continue; fi
    # The file is replaced by a rename: a running program cannot be written to, and the engine may
    # call it at any moment.
    cp "$programs/$program" "$host$dir/.$program.new"
    chmod 755 "$host$dir/.$program.new"
    mv -f "$host$dir/.$program.new" "$host$dir/$program"
    say "$dir/$program is new"
  done
}

# Changes the engine's configuration, if needed. The pending restart is recorded before the change,
# since the installer may be killed at any moment.
change() {
  if nrictl "$@" --dry-run --json | grep -q '"reload":'; then : >"$host$pending"; fi
  nrictl "$@"
}

restart() {
  [ -e "$host$pending" ] || return 0
  if [ "${RESTART_ENGINE:-}" != true ]; then
    say "the configuration of $engine has changed: it takes effect when $service is restarted"
    return 0
  fi
  say "restarting $service"
  on_host systemctl restart "$service"
  rm -f "$host$pending"
}

# Whether a container of the node needs the wrapper for its deletion: containerd's shims and conmon
# keep the path of the wrapper.
in_use() {
  # The options of containerd's shims.
  if find "$host/run" -path '*io.containerd.runtime.v2.task*' \
    \( -name options.json -o -name runtime \) -type f \
    -exec grep -l "$dir/" {} + 2>/dev/null | grep -q .; then
    return 0
  fi
  # The arguments of conmon.
  grep -la conmon "$host"/proc/[0-9]*/cmdline 2>/dev/null | while read -r process; do
    if tr '\0' '\n' <"$process" | grep -q "^$dir/"; then echo yes; fi
  done 2>/dev/null | grep -q yes
}

install() {
  copy
  set -- install "$engine" --name "$handler" --wrapper "$dir/nri-container-runtime"
  [ "${DEFAULT_RUNTIME:-}" != true ] || set -- "$@" --default
  # shellcheck disable=SC2086 # options are words
  change "$@" ${INSTALL_OPTIONS:-}
  restart
  nrictl start
  say "installed for $engine"
}

uninstall() {
  if [ ! -x "$host$dir/nrictl" ]; then
    say 'nothing is installed'
    return 0
  fi
  # Containers that run are waited for below. An older nrictl does not know --force.
  set -- uninstall "$engine"
  if nrictl uninstall --help | grep -q -e --force; then set -- "$@" --force; fi
  change "$@"
  restart
  if [ -e "$host$pending" ]; then
    say "the programs stay in $dir"
    return 0
  fi
  while in_use; do
    say "waiting for containers that run through the wrapper"
    sleep "$poll"
  done
  nrictl stop
  rm -rf "${host:?}$dir"
  rmdir "$host${dir%/*}" 2>/dev/null || true
  say 'uninstalled'
}

case ${1:-} in
  install | uninstall)
    [ -n "$engine" ] || fail 'ENGINE is not set'
    "$1"
    ;;
  wait)
    # The shell is process 1 of the container: without a trap it ignores the signal, and it runs the
    # trap only while it waits.
    trap 'exit 0' TERM INT
    while :; do
      sleep 3600 &
      wait $!
    done
    ;;
  *)
    sed -n '2,/^[^#]/{s/^# \{0,1\}//p}' "$0" >&2
    exit 2
    ;;
esac

#!/bin/sh
# installer.sh install|uninstall|wait
#   Installs the programs on the node and configures its engine, or undoes both. It is the entry
#   point of the installer's image, and accesses the node through process 1: files by /proc/1/root,
#   programs in the namespaces of that process. It can be repeated.
#   install    copies the programs, runs `nrictl install` and starts nrid for the plugins; where
#              systemd runs, as a unit
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
#   PROGRAMS, UNITS, HOST_PID, POLL  for tests: directory of the programs, of the units, process of
#                    the node, interval of the check for containers (s)
set -eu

engine=${ENGINE:-}
handler=${HANDLER:-nri}
service=${ENGINE_SERVICE:-$engine}
programs=${PROGRAMS:-/usr/local/lib/nri-container-runtime}
unit_sources=${UNITS:-$programs/systemd}
host_pid=${HOST_PID:-1}
poll=${POLL:-10}
# The programs find each other in one directory, which is not in /usr, since that may be read-only.
dir=/opt/nri-container-runtime/bin
host=/proc/$host_pid/root
# File that exists while a restart of the engine is pending. It is below /run, since a boot restarts
# the engine anyway.
pending=/run/nri-container-runtime-restart
# File that exists while the running nrid may be an earlier program.
outdated=$dir/.outdated
# Link by which administrators of the node find nrictl.
link=/usr/local/bin/nrictl
unit=nri-container-runtime
units=/etc/systemd/system

say() { echo "installer: $*"; }
fail() { say "$*" >&2; exit 1; }

# Runs a program of the node in all namespaces of the node's process 1: nrid outlives the pod of the
# installer, so it must not use a namespace of the pod.
on_host() { nsenter --target "$host_pid" --mount --uts --ipc --net --cgroup --root --wd -- "$@"; }

nrictl() { on_host "$dir/nrictl" "$@"; }

copy() {
  mkdir -p "$host$dir"
  # nrictl is replaced last: the previous nrictl has the protocol of the running nrid.
  for program in nrid nri-oci-hook nri-wasm-host nri-container-runtime nrictl; do
    [ -f "$programs/$program" ] || fail "$program is not in this image"
    cmp -s "$programs/$program" "$host$dir/$program" || : >"$host$outdated"
    if [ $program = nrictl ] && [ -e "$host$outdated" ] && [ -x "$host$dir/nrictl" ]; then
      upgrade
    fi
    if cmp -s "$programs/$program" "$host$dir/$program"; then continue; fi
    # The file is replaced by a rename: a running program cannot be written to, and the engine may
    # call it at any moment.
    cp "$programs/$program" "$host$dir/.$program.new"
    chmod 755 "$host$dir/.$program.new"
    mv -f "$host$dir/.$program.new" "$host$dir/$program"
    say "$dir/$program is new"
  done
  rm -f "$host$outdated"
}

# Replaces the running nrid, if any, by the new program. The process stays the same, and wrappers
# wait instead of failing.
upgrade() {
  nrictl status >/dev/null 2>&1 || [ $? != 3 ] || return 0
  nrictl restart || fail 'the previous nrid keeps running, see above'
}

# Makes nrictl a command of the node.
publish() {
  [ "$(readlink "$host$link")" != "$dir/nrictl" ] || return 0
  if [ -e "$host$link" ] || [ -L "$host$link" ]; then
    say "$link is another file: ours is $dir/nrictl"
  # /usr is read-only on some nodes.
  elif ! { mkdir -p "$host${link%/*}" && ln -s "$dir/nrictl" "$host$link"; } 2>/dev/null; then
    say "$link cannot be created: nrictl is $dir/nrictl"
  fi
}

# Whether systemd runs on the node, and has no units of a package or of the administrator.
has_systemd() {
  [ -d "$host/run/systemd/system" ] || return 1
  for place in $units /usr/local/lib/systemd/system /usr/lib/systemd/system /lib/systemd/system; do
    service=$host$place/$unit.service
    if [ -e "$service" ] && ! grep -qF "=$dir/nrid" "$service"; then
      say "the node keeps its $place/$unit.service"
      return 1
    fi
  done
}

# Installs and enables the units, so that nrid runs after a boot before the first container, and is
# started again after a crash. The units are for packages, with other paths.
enable_units() {
  has_systemd || return 0
  changed=
  for name in $unit.service $unit.socket; do
    [ -f "$unit_sources/$name" ] || fail "$name is not in this image"
    sed -e "s,/usr/libexec/nri-container-runtime/,$dir/,g" \
      -e "s|^\(Exec[A-Za-z]*=-\{0,1\}\)nrictl |\1$dir/nrictl |" \
      "$unit_sources/$name" >"$host$dir/.$name"
    if ! cmp -s "$host$dir/.$name" "$host$units/$name"; then
      mkdir -p "$host$units"
      cp "$host$dir/.$name" "$host$units/$name"
      changed=yes
    fi
    rm "$host$dir/.$name"
  done
  [ -z "$changed" ] || on_host systemctl daemon-reload
  on_host systemctl enable --quiet $unit.service $unit.socket
  # This stops an nrid that a wrapper has started. Containers are not affected.
  on_host systemctl start $unit.socket
  on_host systemctl start $unit.service
}

disable_units() {
  has_systemd && [ -e "$host$units/$unit.service" ] || return 0
  on_host systemctl disable --quiet --now $unit.socket $unit.service
  rm -f "$host$units/$unit.socket" "$host$units/$unit.service"
  on_host systemctl daemon-reload
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
  publish
  enable_units
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
  disable_units
  nrictl stop
  [ "$(readlink "$host$link")" != "$dir/nrictl" ] || rm -f "$host$link"
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

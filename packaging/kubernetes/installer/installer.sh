#!/bin/sh
# installer.sh install|uninstall|wait
#   Puts the programs on the node and makes them known to its engine, or takes both back. It is the entry point of the installer's image, and works
#   on the node through its first process: files through /proc/1/root, programs in that process's namespaces. Safe to repeat.
#   install    copies the programs, runs `nrictl install` and starts nrid, so that plugins can connect
#   uninstall  runs `nrictl uninstall`, waits until no container runs through the wrapper any more, and removes the programs
#   wait       does nothing, for ever
# Environment:
#   ENGINE           containerd, crio, docker: as nrictl calls it
#   HANDLER          the runtime's name in the engine (nri)
#   DEFAULT_RUNTIME  true: containers that ask for no runtime get it, too
#   RESTART_ENGINE   true: the engine's service is restarted when its configuration has changed. Else that is left to others, and so are the
#                    programs at an uninstallation: the engine calls them until it is restarted.
#   ENGINE_SERVICE   the service, where it is not called like the engine: k3s, rke2-agent
#   INSTALL_OPTIONS  more options of `nrictl install`
#   PROGRAMS, HOST_PID, POLL  for tests: where the programs are, whose machine is meant, how often is looked (s)
set -eu

engine=${ENGINE:-}
handler=${HANDLER:-nri}
service=${ENGINE_SERVICE:-$engine}
programs=${PROGRAMS:-/usr/local/lib/nri-container-runtime}
host_pid=${HOST_PID:-1}
poll=${POLL:-10}
# Beside each other they find each other. /usr may be read-only.
dir=/opt/nri-container-runtime/bin
host=/proc/$host_pid/root
# Until the next boot, which starts the engine anyway.
pending=/run/nri-container-runtime-restart

say() { echo "installer: $*"; }
fail() { say "$*" >&2; exit 1; }

# Runs a program of the node as if the node's first process had. All namespaces: nrid stays, and must not depend on this pod's.
on_host() { nsenter --target "$host_pid" --mount --uts --ipc --net --cgroup --root --wd -- "$@"; }

nrictl() { on_host "$dir/nrictl" "$@"; }

copy() {
  mkdir -p "$host$dir"
  new=
  # The old nrictl still speaks the language of the nrid that runs.
  for program in nrid nri-oci-hook nri-container-runtime nrictl; do
    [ -f "$programs/$program" ] || fail "$program is not in this image"
    cmp -s "$programs/$program" "$host$dir/$program" || new=yes
    if [ $program = nrictl ] && [ -n "$new" ] && [ -x "$host$dir/nrictl" ]; then
      nrictl stop || say 'the nrid of before did not end'
    fi
    if cmp -s "$programs/$program" "$host$dir/$program"; then continue; fi
    # A running program cannot be written to, and must be whole at every moment.
    cp "$programs/$program" "$host$dir/.$program.new"
    chmod 755 "$host$dir/.$program.new"
    mv -f "$host$dir/.$program.new" "$host$dir/$program"
    say "$dir/$program is new"
  done
}

# Changes the engine's configuration, if need be. That it is to be restarted is noted before: this may be killed at any moment.
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

# Whether a container of the node still needs the wrapper for its end: shims and monitors keep its path.
in_use() {
  # containerd's shim, with the options that it was given
  if find "$host/run" -path '*io.containerd.runtime.v2.task*' \( -name options.json -o -name runtime \) -type f \
    -exec grep -l "$dir/" {} + 2>/dev/null | grep -q .; then return 0; fi
  # conmon, which has it in its arguments
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
  change uninstall "$engine"
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
    # The shell would be the first process of the container, which no signal ends unless it is waited for.
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

#!/bin/bash
# rootless.sh SUITE [PROGRAMS]
#   Runs rootless Podman, Docker and nerdctl with containerd of SUITE (integration/engines/setup.sh)
#   in a guest with cgroup v2 and systemd, with crun and with runc: the service manager of a user has
#   the controllers cpu, memory and pids, so that plugins of the user can set resources. dockerd and
#   containerd are services of the user. They have no networks. PROGRAMS: directory of the built
#   programs (default: target/debug). nerdctl is that of integration/engines/extra/build.sh; without
#   it, its checks are skipped.
set -uo pipefail
. "$(dirname "$0")/lib.sh"
suite=${1:-} engines=${NRI_ENGINES:-/var/tmp/nri-engines}
case $suite in '' | -*) usage ;; esac

if [ "$suite" != inside ]; then
  target=$(cd "$HERE/../../target" && pwd -P)
  programs=${2:-$target/debug}
  [ -x "$engines/bin/$suite/podman" ] ||
    die "not installed: integration/engines/setup.sh --suites $suite"
  stage=$(mktemp -d "$NRI_GUESTS/programs.XXXXXX")
  trap 'rm -rf "$stage"' EXIT
  for name in nrid nrictl nri-container-runtime nri-oci-hook examples/adjust; do
    cp "$programs/$name" "$stage/" || exit
  done
  if [ -x "$target/engines-extra/nerdctl" ]; then
    cp "$target/engines-extra/nerdctl" "$stage/" || exit
  else
    echo 'SKIPPED rootless nerdctl: not built; integration/engines/extra/build.sh builds it' |
      tee -a "$target/skipped.txt"
  fi
  OUT=$stage TIMEOUT=${TIMEOUT:-1800} "$HERE/uml.sh" --systemd "$0" inside "$suite" "$engines"
  exit
fi

# In the guest, whose /out has the programs.
suite=$2 engines=$3 user=nri-user id=15151 failed=0
home=/home/$user
bin=$engines/bin/$suite
manager=/sys/fs/cgroup/user.slice/user-$id.slice/user@$id.service
echo "$user:x:$id:$id::$home:/bin/sh" >>/etc/passwd
echo "$user:x:$id:" >>/etc/group
echo "$user:*:19000:0:99999:7:::" >>/etc/shadow
echo "$user:1515100000:65536" | tee -a /etc/subuid >>/etc/subgid
mkdir -p $home/{bin,.config/containers,.config/nri/conf.d,.local/share/nri/plugins}
mkdir -p $home/.config/nri-container-runtime
cp /out/{nrid,nrictl,nri-container-runtime,nri-oci-hook} $home/bin/
[ ! -e /out/nerdctl ] || cp /out/nerdctl $home/bin/
cp /out/adjust $home/.local/share/nri/plugins/10-adjust
cat >$home/.config/containers/containers.conf <<C
[containers]
default_ulimits = []
[network]
firewall_driver = "none"
[engine]
cgroup_manager = "systemd"
events_logger = "file"
helper_binaries_dir = ["$bin", "$engines/root/$suite/usr/libexec/podman"]
conmon_path = ["$bin/conmon"]
runtime = "crun"
[engine.runtimes]
crun = ["$bin/crun"]
runc = ["$bin/runc"]
C
printf '[storage]\ndriver = "vfs"\n' >$home/.config/containers/storage.conf
cat >$home/containerd.toml <<'T'
version = 2
disabled_plugins = [
  "io.containerd.grpc.v1.cri", "io.containerd.internal.v1.opt", "io.containerd.nri.v1.nri",
]
T
# As containerd-rootless.sh of nerdctl does, but in the network namespace of the user, which has
# nothing but the loopback device.
cat >$home/bin/start-containerd <<'C'
#!/bin/sh
export data="$HOME/.local/share/containerd"
mkdir -p "$XDG_RUNTIME_DIR/containerd" "$data"
exec rootlesskit --state-dir="$XDG_RUNTIME_DIR/containerd-rootless" --net=host \
  --copy-up=/etc --copy-up=/run --copy-up=/var/lib --propagation=rslave sh -c '
    rm -f /run/containerd /run/nri /var/lib/containerd /etc/containerd
    mkdir -p /run/containerd /var/lib/containerd /etc/containerd
    mount --bind "$XDG_RUNTIME_DIR/containerd" /run/containerd
    mount --bind "$data" /var/lib/containerd
    exec containerd --config "$HOME/containerd.toml"'
C
# nerdctl would enter a network of rootlesskit's, which does not exist.
cat >$home/bin/n <<'N'
#!/bin/sh
state=$XDG_RUNTIME_DIR/containerd-rootless
exec nsenter -t "$(cat "$state/child_pid")" -U --preserve-credentials -m \
  env ROOTLESSKIT_STATE_DIR="$state" nerdctl --snapshotter native --cgroup-manager systemd "$@"
N
chmod 755 $home/bin/*
chown -R $id:$id $home
mount --make-rshared /
systemctl start user@$id.service || die "the user's service manager does not start"

# The environment of a login of the user
login=(
  "PATH=$bin:$home/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin" "HOME=$home" "USER=$user"
  "XDG_RUNTIME_DIR=/run/user/$id" "DBUS_SESSION_BUS_ADDRESS=unix:path=/run/user/$id/bus"
  "DOCKER_HOST=unix:///run/user/$id/docker.sock"
)

# as CMD...: runs a command as the user
as() { setpriv --reuid $id --regid $id --clear-groups env -i -C / "${login[@]}" "$@"; }

# service NAME CMD...: starts CMD as a service of the user that manages cgroups
service() {
  local name=$1
  shift
  as systemd-run --user --quiet --unit="$name" -p Delegate=yes \
    -p "StandardOutput=append:$home/$name.log" -p "StandardError=append:$home/$name.log" \
    "${login[@]/#/--setenv=}" "$@"
}

# within SECONDS CMD...: repeats CMD until it succeeds
within() {
  local end=$((SECONDS + $1))
  shift
  until "$@" >/dev/null 2>&1; do [ $SECONDS -lt $end ] || return 1; sleep 0.2; done
}

# plugin TEXT: makes the plugin change containers so
plugin() {
  printf '%s\n' "$1" >$home/.config/nri/conf.d/10-adjust.conf
  chown $id:$id $home/.config/nri/conf.d/10-adjust.conf
  as nrictl reload >/dev/null 2>&1 || as nrictl start || die 'nrid does not start'
}

# check TEXT EXPECTED GOT: prints a line with the result, ok or FAILED
check() {
  case $3 in
    *"$2"*) echo "ok      $1" ;;
    *) printf 'FAILED  %s\n  expected: %s\n  in:       %s\n' "$1" "$2" "$3"; failed=1 ;;
  esac
}

# checks ENGINE CLIENT: containers of the engine. The options of `run` are in the array `run`, which
# selects the wrapper if it is not the default runtime.
checks() {
  local engine=$1 client=$2 runtime refused
  for runtime in crun runc; do
    as nrictl stop >/dev/null
    printf '[runtime]\npath = "%s"\n' "$bin/$runtime" \
      >$home/.config/nri-container-runtime/config.toml
    chown $id:$id $home/.config/nri-container-runtime/config.toml
    plugin '[create]
env = { set = { ADDED = "by a plugin" } }
[create.resources]
pids = 77
memory = 100663296
[update]
pids = 88'
    # shellcheck disable=SC2016 # the shell of the container expands
    check "$engine, $runtime: the variable and the limits of the plugin are the container's" \
      'by a plugin 77 100663296' "$(as "$client" run --rm "${run[@]}" $image \
        sh -c 'echo $ADDED $(cat /sys/fs/cgroup/pids.max /sys/fs/cgroup/memory.max)' 2>&1)"
    as "$client" run -d --name kept "${run[@]}" $image sleep 1000 >/dev/null
    check "$engine, $runtime: the limits are those of the cgroup" '0 differ' \
      "$(as nrictl verify kept 2>&1)"
    check "$engine, $runtime: nrictl stats reads the cgroup" 77 "$(as nrictl stats kept 2>&1)"
    as "$client" update --pids-limit 60 kept >/dev/null 2>&1
    check "$engine, $runtime: the plugin changes an update of the engine" 88 \
      "$(as "$client" exec kept cat /sys/fs/cgroup/pids.max 2>&1)"
    as "$client" kill kept >/dev/null
    as "$client" rm -f kept >/dev/null
    plugin '[create.resources.unified]
"io.weight" = "50"'
    refused=$(as "$client" run --rm "${run[@]}" $image true 2>&1)
    check "$engine, $runtime: what needs a controller that is not delegated fails" 'controller' \
      "$refused"
    check "$engine, $runtime: the error names plugin and field" \
      'set by plugins: 10-adjust: unified[io.weight]=' "$refused"
  done
}

# bare ENGINE CLIENT: checks that containers have limits without the wrapper
bare() {
  check "$1 runs without the wrapper" 50 \
    "$(as "$2" run --rm "${run[@]}" --pids-limit 50 $image cat /sys/fs/cgroup/pids.max 2>&1)"
}

image=localhost/busybox:local archive=$engines/img/docker-archive.tar
check 'the user has controllers' 'cpu memory pids' "$(cat $manager/cgroup.controllers)"

run=(--network=none)
as podman load -q -i "$archive" >/dev/null || die 'the image is not loaded'
bare podman podman
as nrictl install podman --user --default >/dev/null || die 'the wrapper is not installed'
checks podman podman
doctor=$(as nrictl doctor 2>&1)
check 'doctor names the controllers that are missing' '[rootless-cgroups]' "$doctor"
as nrictl uninstall podman --user >/dev/null || die 'the wrapper is not uninstalled'

script=$(find "$engines/root/$suite/usr/share" -name dockerd-rootless.sh -print -quit)
service docker env DOCKERD_ROOTLESS_ROOTLESSKIT_NET=none \
  DOCKERD_ROOTLESS_ROOTLESSKIT_FLAGS=--net=host DOCKERD_ROOTLESS_ROOTLESSKIT_PORT_DRIVER=none \
  sh "$script" --storage-driver vfs --iptables=false --ip6tables=false --bridge=none \
  --ip-forward=false
within 60 as docker info || die "dockerd does not start: $(tail -3 $home/docker.log)"
as docker load -q -i "$archive" >/dev/null || die 'the image is not loaded'
check 'docker uses the service manager of the user' 'systemd 2' \
  "$(as docker info --format '{{.CgroupDriver}} {{.CgroupVersion}}' 2>&1)"
bare docker docker
as nrictl install docker --user --default >/dev/null || die 'the wrapper is not installed'
as systemctl --user kill -s HUP --kill-whom=main docker.service
# shellcheck disable=SC2317 # called by within
is_default() { as docker info --format '{{.DefaultRuntime}}' | grep -qx nri; }
within 60 is_default || die 'dockerd does not reload its configuration'
checks docker docker
as nrictl uninstall docker --user >/dev/null || die 'the wrapper is not uninstalled'
as systemctl --user stop docker.service

if [ -e $home/bin/nerdctl ]; then
  run=(--pull=never --net=none)
  service containerd start-containerd
  within 60 as n version || die "containerd does not start: $(tail -3 $home/containerd.log)"
  as n load -i "$archive" >/dev/null || die 'the image is not loaded'
  bare nerdctl n
  run+=(--runtime "$home/bin/nri-container-runtime")
  checks nerdctl n
fi
exit $failed

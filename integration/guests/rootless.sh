#!/bin/bash
# rootless.sh SUITE [PROGRAMS]
#   Runs rootless Podman of SUITE (integration/engines/setup.sh) in a guest with cgroup v2 and
#   systemd, with crun and with runc: the service manager of a user has the controllers cpu, memory
#   and pids, so that plugins of the user can set resources. PROGRAMS: directory of the built
#   programs (default: target/debug).
set -uo pipefail
. "$(dirname "$0")/lib.sh"
suite=${1:-} engines=${NRI_ENGINES:-/var/tmp/nri-engines}
case $suite in '' | -*) usage ;; esac

if [ "$suite" != inside ]; then
  programs=${2:-$HERE/../../target/debug}
  [ -x "$engines/bin/$suite/podman" ] ||
    die "not installed: integration/engines/setup.sh --suites $suite"
  stage=$(mktemp -d "$NRI_GUESTS/programs.XXXXXX")
  trap 'rm -rf "$stage"' EXIT
  for name in nrid nrictl nri-container-runtime nri-oci-hook examples/adjust; do
    cp "$programs/$name" "$stage/" || exit
  done
  OUT=$stage TIMEOUT=${TIMEOUT:-900} "$HERE/uml.sh" --systemd "$0" inside "$suite" "$engines"
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
chown -R $id:$id $home
mount --make-rshared /
systemctl start user@$id.service || die "the user's service manager does not start"

# as CMD...: runs a command as the user, with the environment of a login
as() {
  setpriv --reuid $id --regid $id --clear-groups env -i -C / \
    PATH="$bin:$home/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin" HOME=$home USER=$user \
    XDG_RUNTIME_DIR=/run/user/$id DBUS_SESSION_BUS_ADDRESS=unix:path=/run/user/$id/bus "$@"
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

run() { as podman run --rm --network=none "$@" 2>&1; }
image=localhost/busybox:local
as podman load -q -i "$engines/img/docker-archive.tar" >/dev/null || die 'the image is not loaded'
check 'the user has controllers' 'cpu memory pids' "$(cat $manager/cgroup.controllers)"
check 'podman runs without the wrapper' 50 \
  "$(run --pids-limit 50 $image cat /sys/fs/cgroup/pids.max)"
as nrictl install podman --user --default >/dev/null || die 'the wrapper is not installed'
for runtime in crun runc; do
  as nrictl stop >/dev/null
  printf '[runtime]\npath = "%s"\n' "$bin/$runtime" >$home/.config/nri-container-runtime/config.toml
  chown $id:$id $home/.config/nri-container-runtime/config.toml
  plugin '[create]
env = { set = { ADDED = "by a plugin" } }
[create.resources]
pids = 77
memory = 100663296
[update]
pids = 88'
  # shellcheck disable=SC2016 # the shell of the container expands
  check "$runtime: the variable and the limits of the plugin are those of the container" \
    'by a plugin 77 100663296' \
    "$(run $image sh -c 'echo $ADDED $(cat /sys/fs/cgroup/pids.max /sys/fs/cgroup/memory.max)')"
  as podman run -d --name kept --network=none $image sleep 1000 >/dev/null
  check "$runtime: the limits are those of the cgroup" '0 differ' "$(as nrictl verify kept 2>&1)"
  check "$runtime: nrictl stats reads the cgroup" 77 "$(as nrictl stats kept 2>&1)"
  as podman update --pids-limit 60 kept >/dev/null 2>&1
  check "$runtime: the plugin changes an update of the engine" 88 \
    "$(as podman exec kept cat /sys/fs/cgroup/pids.max 2>&1)"
  as podman rm -f -t 0 kept >/dev/null
  plugin '[create.resources.unified]
"io.weight" = "50"'
  refused=$(run $image true)
  check "$runtime: what needs a controller that is not delegated fails" 'controller' "$refused"
  check "$runtime: the error names plugin and field" \
    'set by plugins: 10-adjust: unified[io.weight]="50"' "$refused"
done
doctor=$(as nrictl doctor 2>&1)
check 'doctor names the controllers that are missing' '[rootless-cgroups]' "$doctor"
as nrictl uninstall podman --user >/dev/null || die 'the wrapper is not uninstalled'
exit $failed

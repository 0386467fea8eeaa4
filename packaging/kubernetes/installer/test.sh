#!/bin/bash
# test.sh PROGRAMS
#   Tries the installer on a node that is not there: a process in namespaces of its own, whose root directory has what a node has. The programs of
#   the folder PROGRAMS (target/debug) are real, the engines' are stand-ins that tell their versions, and systemctl notes what it is asked for.
#   Root. Needs nsenter and a static busybox.
set -euo pipefail
[ $# -eq 1 ] || { sed -n '2,/^[^#]/{s/^# \{0,1\}//p}' "$0" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd -P)
bin=/opt/nri-container-runtime/bin
work=$(mktemp -d)
node=
fail() { echo "FAILED: $*" >&2; cat "$work/said" >&2; exit 1; }
step() { echo "-- $*"; }
until_true() { local n; for n in $(seq 200); do ! "$@" || return 0; sleep 0.05; done; fail "waited in vain (${n}th time): $*"; }

# The node's file system. Programs that are linked dynamically find their libraries.
root=$work/root
mkdir -p "$work/programs" "$root"/{bin,etc/containerd,etc/crio,usr/bin,dev,opt,proc,run,tmp,old,lib,lib64}
chmod 755 "$work" "$root"
cp "$1"/{nrid,nri-oci-hook,nri-container-runtime,nrictl} "$work/programs"
cp "$(command -v busybox)" "$root/bin"
for applet in sh sleep; do ln -s busybox "$root/bin/$applet"; done
ldd "$work"/programs/* | grep -o '/[^ ]*\.so[^ ]*' | sort -u | while read -r library; do install -D "$library" "$root$library"; done
program() { printf '#!/bin/sh\n%s\n' "$2" >"$root/usr/bin/$1"; chmod 755 "$root/usr/bin/$1"; }
# shellcheck disable=SC2016 # it is to be evaluated there
program systemctl 'echo "$*" >>/asked'
program containerd 'echo containerd example.org/containerd v1.7.24 0'
program crio 'echo crio version 1.30.0'
program runc 'echo runc version 1.1.15'
printf 'version = 2\n\n# as the administrator wrote it\n[plugins."io.containerd.grpc.v1.cri"]\n  sandbox_image = "pause"\n' >"$root/etc/containerd/config.toml"
: >"$root/asked"

# shellcheck disable=SC2016
unshare --mount --uts --ipc --net --cgroup --propagation private sh -c '
  mount --bind "$1" "$1" && cd "$1" && mount -t proc proc proc && : >dev/null && mount --bind /dev/null dev/null && pivot_root . old || exit 1
  exec /bin/busybox chroot . /bin/sh -c "busybox umount -l /old && exec sleep 1000"' sh "$root" &
node=$!
on_node() { nsenter --target "$node" --mount --root -- "$@"; }
trap 'on_node $bin/nrictl stop >/dev/null 2>&1 || true; kill $node || true; wait $node 2>/dev/null || true; rm -rf "$work"' EXIT
: >"$work/said"
is_up() { [ "$(tr '\0' ' ' <"/proc/$node/cmdline")" = 'sleep 1000 ' ]; }
until_true is_up

installer() { env PROGRAMS="$work/programs" HOST_PID=$node POLL=0.1 PATH="$PATH" ENGINE=containerd "$@" >"$work/said" 2>&1; }
run() { installer "$@" || fail "$*"; }
nrid() { on_node $bin/nrictl status --json | grep -o '"pid":[0-9]\+' | sed -n '1s,.*:,,p'; }
tree() { (cd "$root" && find etc opt -type f -exec sha256sum {} + 2>/dev/null | sort -k2; find opt ! -type f 2>/dev/null | sort); }
asked() { [ "$(cat "$root/asked")" = "$1" ] || fail "the service manager was asked for: $(cat "$root/asked")"; }
before=$(tree)

step 'installation: programs, configuration, nrid; nothing is restarted'
run "$here/installer.sh" install
for program in nrid nri-oci-hook nri-container-runtime nrictl; do
  cmp "$work/programs/$program" "$root$bin/$program" || fail "$program"
  [ -x "$root$bin/$program" ] || fail "$program"
done
configured() { grep -rqs "$1" "$root/etc/containerd"; }
configured "BinaryName = [\"']$bin/nri-container-runtime[\"']" || fail "$(cat "$root/etc/containerd/config.toml")"
configured 'default_runtime_name' && fail 'default runtime'
asked ''
grep -q 'takes effect when containerd is restarted' "$work/said" || fail 'it does not say so'
first=$(nrid)
for namespace in mnt net uts ipc cgroup; do
  [ "$(readlink "/proc/$first/ns/$namespace")" = "$(readlink "/proc/$node/ns/$namespace")" ] || fail "nrid is in a $namespace namespace of the pod"
done

step 'once more: nothing changes'
installed=$(tree)
run "$here/installer.sh" install
[ "$(tree)" = "$installed" ] || fail "$(diff <(tree) <(echo "$installed"))"
[ "$(nrid)" = "$first" ] || fail 'nrid was restarted'
asked ''

step 'restarts are made up for, and made once'
run RESTART_ENGINE=true "$here/installer.sh" install
asked 'restart containerd'
run RESTART_ENGINE=true "$here/installer.sh" install
asked 'restart containerd'
run RESTART_ENGINE=true DEFAULT_RUNTIME=true ENGINE_SERVICE=k3s "$here/installer.sh" install
configured 'default_runtime_name = ["'\'']nri["'\'']' || fail 'no default runtime'
asked $'restart containerd\nrestart k3s'
: >"$root/asked"

step 'an upgrade: the new nrid runs'
echo >>"$work/programs/nrid"
run "$here/installer.sh" install
second=$(nrid)
[ ! -e "/proc/$first/exe" ] || fail 'the old nrid'
cmp "$work/programs/nrid" "/proc/$second/exe" || fail 'not the new one'

step 'another engine on the same node'
run ENGINE=crio HANDLER=other "$here/installer.sh" install
grep -rqs "runtime_path = [\"']$bin/" "$root/etc/crio" || fail "$(cat "$root"/etc/crio/*)"
run ENGINE=crio RESTART_ENGINE=false "$here/installer.sh" uninstall
grep -q 'the programs stay' "$work/said" || fail 'programs of a configuration that is in effect'
rm "$root/run/nri-container-runtime-restart"

step 'what nrictl refuses fails'
installer INSTALL_OPTIONS='--nri nonsense' "$here/installer.sh" install && fail 'success'
grep -q nonsense "$work/said" || fail 'it does not say why'
installer ENGINE= "$here/installer.sh" install && fail 'no engine'
installer "$here/installer.sh" nonsense && fail 'no verb'

step 'uninstallation, not restarted: the configuration is as before, the programs stay'
run "$here/installer.sh" uninstall
[ "$(tree | grep -v opt)" = "$(grep -v opt <<<"$before")" ] || fail "$(diff <(tree) <(echo "$before"))"
[ -x "$root$bin/nri-container-runtime" ] || fail 'a wrapper that the engine calls is gone'
asked ''

step 'uninstallation, restarted: it waits for the last containers'
shim=$root/run/containerd/io.containerd.runtime.v2.task/k8s.io/c
mkdir -p "$shim"
echo "{\"binary_name\":\"$bin/nri-container-runtime\"}" >"$shim/options.json"
sh -c 'sleep 1000; exit' conmon --runtime $bin/nri-container-runtime 2>/dev/null &
monitor=$!
RESTART_ENGINE=true installer "$here/installer.sh" uninstall &
uninstaller=$!
waits() { [ "$(grep -c 'waiting for' "$work/said")" -gt "$1" ]; }
until_true waits 2
asked 'restart containerd'
rm -r "$shim"
until_true waits $(($(grep -c 'waiting for' "$work/said") + 2))
[ -x "$root$bin/nri-container-runtime" ] || fail 'a container cannot be deleted any more'
[ "$(nrid)" = "$second" ] || fail 'nobody hears of its end'
pkill -P $monitor
{ wait $monitor; } 2>/dev/null || true
wait $uninstaller || fail 'uninstall'
[ ! -e "/proc/$second/exe" ] || fail 'nrid is there'
[ "$(tree)" = "$before" ] || fail "$(diff <(tree) <(echo "$before"))"
[ ! -e "$root/opt/nri-container-runtime" ] || fail 'a directory is left'
run RESTART_ENGINE=true "$here/installer.sh" uninstall
asked 'restart containerd'

step 'the pod that waits ends when it is told to'
"$here/installer.sh" wait &
waiting=$!
sleep_of() { pgrep -P $waiting >/dev/null; }
until_true sleep_of
child=$(pgrep -P $waiting)
kill -TERM $waiting
wait $waiting || fail 'wait'
kill "$child" 2>/dev/null || true
echo 'passed'

#!/bin/bash
# test.sh PROGRAMS
#   Tests the installer on a fake node: a process in private namespaces with a root directory like a
#   node's. The programs of the directory PROGRAMS (target/debug) are real; the engines are fakes
#   that print their versions, and the fake systemctl records its arguments. Needs root, nsenter and
#   a static busybox.
set -euo pipefail
[ $# -eq 1 ] || { sed -n '2,/^[^#]/{s/^# \{0,1\}//p}' "$0" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd -P)
bin=/opt/nri-container-runtime/bin
work=$(mktemp -d)
node=
fail() { echo "FAILED: $*" >&2; cat "$work/output" >&2; exit 1; }
step() { echo "-- $*"; }
wait_until() {
  for _ in $(seq 200); do
    ! "$@" || return 0
    sleep 0.05
  done
  fail "not true within 10 s: $*"
}

# The node's file system, with the libraries of the programs.
root=$work/root
mkdir -p "$work/programs" "$root"/{bin,dev,opt,proc,run,tmp,old,lib,lib64}
mkdir -p "$root"/{etc/containerd,etc/crio,usr/bin,usr/local}
chmod 755 "$work" "$root"
programs=(nrid nri-oci-hook nri-wasm-host nri-container-runtime nrictl)
cp "${programs[@]/#/$1/}" "$work/programs"
cp "$(command -v busybox)" "$root/bin"
for applet in sh sleep; do ln -s busybox "$root/bin/$applet"; done
# ldd fails on the programs that are linked statically.
{ ldd "$work"/programs/* || true; } | grep -o '/[^ ]*\.so[^ ]*' | sort -u |
  while read -r library; do install -D "$library" "$root$library"; done
program() { printf '#!/bin/sh\n%s\n' "$2" >"$root/usr/bin/$1"; chmod 755 "$root/usr/bin/$1"; }
# shellcheck disable=SC2016 # the program expands it
program systemctl 'echo "$*" >>/systemctl-calls'
program containerd 'echo containerd example.org/containerd v1.7.24 0'
program crio 'echo crio version 1.30.0'
program runc 'echo runc version 1.1.15'
cat >"$root/etc/containerd/config.toml" <<'T'
version = 2

# as the administrator wrote it
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "pause"
T
: >"$root/systemctl-calls"

# shellcheck disable=SC2016
unshare --mount --uts --ipc --net --cgroup --propagation private sh -c '
  mount --bind "$1" "$1" && cd "$1" && mount -t proc proc proc && : >dev/null &&
    mount --bind /dev/null dev/null && pivot_root . old || exit 1
  exec /bin/busybox chroot . /bin/sh -c "busybox umount -l /old && exec sleep 1000"' sh "$root" &
node=$!
on_node() { nsenter --target "$node" --mount --root -- "$@"; }
clean() {
  on_node $bin/nrictl stop >/dev/null 2>&1 || true
  kill $node || true
  wait $node 2>/dev/null || true
  rm -rf "$work"
}
trap clean EXIT
: >"$work/output"
is_up() { [ "$(tr '\0' ' ' <"/proc/$node/cmdline")" = 'sleep 1000 ' ]; }
wait_until is_up

installer() {
  env PROGRAMS="$work/programs" UNITS="$here/../../systemd" HOST_PID=$node POLL=0.1 \
    PATH="$PATH" ENGINE=containerd "$@" >"$work/output" 2>&1
}
run() { installer "$@" || fail "$*"; }
nrid() { on_node $bin/nrictl status --json | grep -o '"pid":[0-9]\+' | sed -n '1s,.*:,,p'; }
tree() {
  cd "$root"
  find etc opt usr/local -type f -exec sha256sum {} + 2>/dev/null | sort -k2
  find opt usr/local ! -type f -printf '%p %l\n' 2>/dev/null | sort
}
called() {
  [ "$(cat "$root/systemctl-calls")" = "$1" ] ||
    fail "calls of systemctl: $(cat "$root/systemctl-calls")"
}
before=$(tree)

step 'installation: programs, configuration, nrid; nothing is restarted'
run "$here/installer.sh" install
for program in "${programs[@]}"; do
  cmp "$work/programs/$program" "$root$bin/$program" || fail "$program"
  [ -x "$root$bin/$program" ] || fail "$program"
done
configured() { grep -rqs "$1" "$root/etc/containerd"; }
configured "BinaryName = [\"']$bin/nri-container-runtime[\"']" ||
  fail "$(cat "$root/etc/containerd/config.toml")"
configured 'default_runtime_name' && fail 'nri is the default runtime'
called ''
grep -q 'takes effect when containerd is restarted' "$work/output" ||
  fail 'no message on the pending restart'
[ "$(readlink "$root/usr/local/bin/nrictl")" = $bin/nrictl ] || fail 'nrictl is not in PATH'
[ ! -e "$root/etc/systemd" ] || fail 'units were installed without systemd'
first=$(nrid)
for namespace in mnt net uts ipc cgroup; do
  [ "$(readlink "/proc/$first/ns/$namespace")" = "$(readlink "/proc/$node/ns/$namespace")" ] ||
    fail "nrid is in the $namespace namespace of the pod"
done

step 'plugins on the node can be WebAssembly modules'
mkdir -p "$root/opt/nri/plugins"
printf '\0asm\1\0\0\0' >"$root/opt/nri/plugins/10-module"
chmod 755 "$root/opt/nri/plugins/10-module"
on_node $bin/nrictl validate >"$work/output" 2>&1 || fail 'a module is not accepted'
rm -r "$root/opt/nri"

step 'a second installation changes nothing'
installed=$(tree)
run "$here/installer.sh" install
[ "$(tree)" = "$installed" ] || fail "$(diff <(tree) <(echo "$installed"))"
[ "$(nrid)" = "$first" ] || fail 'nrid was restarted'
called ''

step 'a pending restart is made once'
run RESTART_ENGINE=true "$here/installer.sh" install
called 'restart containerd'
run RESTART_ENGINE=true "$here/installer.sh" install
called 'restart containerd'
run RESTART_ENGINE=true DEFAULT_RUNTIME=true ENGINE_SERVICE=k3s "$here/installer.sh" install
configured 'default_runtime_name = ["'\'']nri["'\'']' || fail 'no default runtime'
called $'restart containerd\nrestart k3s'
: >"$root/systemctl-calls"

step 'an upgrade starts the new nrid'
echo >>"$work/programs/nrid"
run "$here/installer.sh" install
second=$(nrid)
[ "$second" = "$first" ] || fail 'nrid is another process'
cmp "$work/programs/nrid" "/proc/$second/exe" || fail 'the running nrid is not the new program'

step 'an upgrade to an nrid that does not run fails, and the previous nrid continues'
cp "$work/programs/nrid" "$work/nrid"
printf '#!/bin/sh\nexit 1\n' >"$work/programs/nrid"
for _ in first second; do
  installer "$here/installer.sh" install && fail 'an nrid that does not run was installed'
  grep -q 'the previous nrid keeps running' "$work/output" || fail 'no message on the failure'
  cmp "$work/nrid" "/proc/$(nrid)/exe" || fail 'the previous nrid does not run'
done
cp "$work/nrid" "$work/programs/nrid"
run "$here/installer.sh" install
[ "$(nrid)" = "$first" ] || fail 'nrid is another process'

step 'a file of the administrator in the place of nrictl stays'
rm "$root/usr/local/bin/nrictl"
echo mine >"$root/usr/local/bin/nrictl"
run "$here/installer.sh" install
[ "$(cat "$root/usr/local/bin/nrictl")" = mine ] || fail 'the file was replaced'
grep -q "ours is $bin/nrictl" "$work/output" || fail 'the path of nrictl is not in the output'
rm "$root/usr/local/bin/nrictl"
run "$here/installer.sh" install

step 'where systemd runs, nrid is a unit'
mkdir -p "$root/run/systemd/system"
run "$here/installer.sh" install
units=$root/etc/systemd/system
grep -qx "ExecStart=$bin/nrid" "$units/nri-container-runtime.service" || fail 'ExecStart'
grep -qx "ExecReload=$bin/nrictl reload" "$units/nri-container-runtime.service" ||
  fail 'ExecReload'
grep -qx "ExecStartPre=-$bin/nrictl stop" "$units/nri-container-runtime.socket" ||
  fail 'ExecStartPre'
called 'daemon-reload
enable --quiet nri-container-runtime.service nri-container-runtime.socket
start nri-container-runtime.socket
start nri-container-runtime.service'
: >"$root/systemctl-calls"
run "$here/installer.sh" install
called 'enable --quiet nri-container-runtime.service nri-container-runtime.socket
start nri-container-runtime.socket
start nri-container-runtime.service'
: >"$root/systemctl-calls"

step 'units of a package or of the administrator stay'
for place in usr/lib/systemd/system etc/systemd/system; do
  mkdir -p "$root/$place"
  echo 'ExecStart=/usr/libexec/nri-container-runtime/nrid' \
    >"$root/$place/nri-container-runtime.service"
  run "$here/installer.sh" install
  grep -q "keeps its /$place/nri" "$work/output" || fail 'no message on the unit'
  called ''
  rm "$root/$place/nri-container-runtime.service"
done
run "$here/installer.sh" install
: >"$root/systemctl-calls"

step 'another engine on the same node'
run ENGINE=crio HANDLER=other "$here/installer.sh" install
grep -rqs "runtime_path = [\"']$bin/" "$root/etc/crio" || fail "$(cat "$root"/etc/crio/*)"
run ENGINE=crio RESTART_ENGINE=false "$here/installer.sh" uninstall
grep -q 'the programs stay' "$work/output" ||
  fail 'programs of an effective configuration were removed'
rm "$root/run/nri-container-runtime-restart"
: >"$root/systemctl-calls"

step 'the installer fails if its arguments are invalid'
installer INSTALL_OPTIONS='--nri nonsense' "$here/installer.sh" install &&
  fail 'the installer succeeds with an invalid option'
grep -q nonsense "$work/output" || fail 'the output does not name the invalid option'
installer ENGINE= "$here/installer.sh" install && fail 'the installer succeeds without an engine'
installer "$here/installer.sh" nonsense && fail 'the installer succeeds with an unknown verb'

step 'uninstallation without a restart restores the configuration and keeps the programs'
run "$here/installer.sh" uninstall
engines() { grep 'etc/c'; }
[ "$(tree | engines)" = "$(engines <<<"$before")" ] || fail "$(diff <(tree) <(echo "$before"))"
[ -L "$root/usr/local/bin/nrictl" ] || fail 'nrictl was removed while nrid runs'
[ -x "$root$bin/nri-container-runtime" ] || fail 'the wrapper of a running engine was removed'
called ''

step 'uninstallation with a restart waits for the last containers'
shim=$root/run/containerd/io.containerd.runtime.v2.task/k8s.io/c
mkdir -p "$shim"
echo "{\"binary_name\":\"$bin/nri-container-runtime\"}" >"$shim/options.json"
sh -c 'sleep 1000; exit' conmon --runtime $bin/nri-container-runtime 2>/dev/null &
monitor=$!
RESTART_ENGINE=true installer "$here/installer.sh" uninstall &
uninstaller=$!
waits() { [ "$(grep -c 'waiting for' "$work/output")" -gt "$1" ]; }
wait_until waits 2
called 'restart containerd'
: >"$root/systemctl-calls"
rm -r "$shim"
wait_until waits $(($(grep -c 'waiting for' "$work/output") + 2))
[ -x "$root$bin/nri-container-runtime" ] || fail 'the wrapper of a container was removed'
[ "$(nrid)" = "$second" ] || fail 'nrid was stopped while a container runs'
pkill -P $monitor
{ wait $monitor; } 2>/dev/null || true
wait $uninstaller || fail 'the uninstallation failed'
[ ! -e "/proc/$second/exe" ] || fail 'nrid still runs'
called 'disable --quiet --now nri-container-runtime.socket nri-container-runtime.service
daemon-reload'
rmdir -p --ignore-fail-on-non-empty "$root/etc/systemd/system" "$root/usr/local/bin"
mkdir -p "$root/usr/local"
[ "$(tree)" = "$before" ] || fail "$(diff <(tree) <(echo "$before"))"
[ ! -e "$root/opt/nri-container-runtime" ] || fail 'a directory is left'
: >"$root/systemctl-calls"
run RESTART_ENGINE=true "$here/installer.sh" uninstall
called ''

step 'the pod that waits exits at SIGTERM'
"$here/installer.sh" wait &
waiting=$!
sleep_of() { pgrep -P $waiting >/dev/null; }
wait_until sleep_of
child=$(pgrep -P $waiting)
kill -TERM $waiting
wait $waiting || fail 'the exit code is not 0'
kill "$child" 2>/dev/null || true
echo 'passed'

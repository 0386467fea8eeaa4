#!/bin/sh
# bundle.sh DIR [OPTIONS] [-- ARGS...]
#   Makes an OCI bundle in DIR, as an engine does: a busybox root file system and a config.json that
#   runc and crun accept on cgroup v1 and v2.
#   --cgroup PATH       cgroupsPath, absolute (default /nri-integration-<name of DIR>)
#   --resources JSON    object for linux.resources (a rule that denies all devices is added)
#   --hooks JSON        object for hooks
#   --env K=V           adds a variable; may be repeated
#   --annotation K=V    may be repeated
#   --root DIR          root file system, which several bundles may share; made if missing
#                       (default: rootfs in the bundle)
#   --terminal          sets process.terminal to true
#   ARGS                default: /probe, which reports the container's properties (see probe.sh)
# The script is plain sh, so it needs neither Python nor jq.
set -eu
PATH=${PATH:-}:/usr/sbin:/usr/bin:/sbin:/bin
here=$(cd "$(dirname "$0")" && pwd -P)
usage() { sed -n '2,/^[^#]/{s/^# \{0,1\}//p}' "$0" >&2; exit 2; }

# string TEXT: prints the text as a JSON string
string() {
  printf '%s' "$1" |
    sed -e 's/[\\"]/\\&/g' -e 's/	/\\t/g' -e '1s/^/"/' -e '$!s/$/\\n/' -e '$s/$/"/' | tr -d '\n'
  [ -n "$1" ] || printf '""'
}

[ $# -ge 1 ] || usage
dir=$1 root=rootfs cgroup=/nri-integration-$(basename "$1") resources='{}' hooks=''
env='"PATH=/bin", "TERM=xterm"' annotations='' terminal=false
shift
while [ $# -gt 0 ]; do
  case $1 in
    --terminal) terminal=true; shift; continue ;;
    --) shift; break ;;
    -*) [ $# -ge 2 ] || usage ;;
    *) usage ;;
  esac
  case $1 in
    --cgroup) cgroup=$2 ;;
    --root) root=$2 ;;
    --resources) resources=$2 ;;
    --hooks) hooks="\"hooks\": $2," ;;
    --env) env="$env, $(string "$2")" ;;
    --annotation)
      annotations="$annotations${annotations:+, }$(string "${2%%=*}"): $(string "${2#*=}")"
      ;;
    *) usage ;;
  esac
  shift 2
done
[ $# -gt 0 ] || set -- /probe
args=
for a in "$@"; do args="$args${args:+, }$(string "$a")"; done
rest=$(printf '%s' "$resources" | sed -e '1s/^[[:space:]]*{[[:space:]]*//')
[ "${rest#\}}" != "$rest" ] || rest=", $rest"

mkdir -p "$dir"
case $root in /*) rootfs=$root ;; *) rootfs=$dir/$root ;; esac
if [ ! -e "$rootfs/probe" ]; then
  busybox=$(command -v busybox) || { echo 'bundle.sh: no busybox, run setup.sh' >&2; exit 1; }
  for d in bin dev proc sys tmp etc root; do mkdir -p "$rootfs/$d"; done
  cp "$busybox" "$rootfs/bin/busybox"
  chroot "$rootfs" /bin/busybox --install -s /bin || {
    echo 'bundle.sh: busybox is not static, or the user is not root: run setup.sh as root' >&2
    exit 1
  }
  echo root:x:0:0:root:/root:/bin/sh >"$rootfs/etc/passwd"
  echo root:x:0: >"$rootfs/etc/group"
  cp "$here/probe.sh" "$rootfs/probe.new"
  chmod 755 "$rootfs/probe.new"
  mv "$rootfs/probe.new" "$rootfs/probe"
fi

caps='"CAP_AUDIT_WRITE", "CAP_KILL", "CAP_NET_BIND_SERVICE"'
cat >"$dir/config.json" <<J
{
  "ociVersion": "1.0.2",
  "process": {
    "terminal": $terminal, "user": {"uid": 0, "gid": 0}, "args": [$args], "env": [$env], "cwd": "/",
    "capabilities": {"bounding": [$caps], "effective": [$caps], "permitted": [$caps]},
    "noNewPrivileges": true
  },
  "root": {"path": $(string "$root"), "readonly": true},
  "hostname": "integration",
  "mounts": [
    {"destination": "/proc", "type": "proc", "source": "proc"},
    {"destination": "/dev", "type": "tmpfs", "source": "tmpfs",
     "options": ["nosuid", "strictatime", "mode=755", "size=65536k"]},
    {"destination": "/dev/pts", "type": "devpts", "source": "devpts",
     "options": ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"]},
    {"destination": "/dev/shm", "type": "tmpfs", "source": "shm",
     "options": ["nosuid", "noexec", "nodev", "mode=1777", "size=65536k"]},
    {"destination": "/sys", "type": "sysfs", "source": "sysfs",
     "options": ["nosuid", "noexec", "nodev", "ro"]},
    {"destination": "/sys/fs/cgroup", "type": "cgroup", "source": "cgroup",
     "options": ["nosuid", "noexec", "nodev", "relatime", "ro"]},
    {"destination": "/tmp", "type": "tmpfs", "source": "tmpfs",
     "options": ["nosuid", "nodev", "mode=1777", "size=16384k"]}
  ],
  "annotations": {$annotations}, $hooks
  "linux": {
    "cgroupsPath": $(string "$cgroup"),
    "resources": {"devices": [{"allow": false, "access": "rwm"}]$rest,
    "namespaces": [{"type": "pid"}, {"type": "network"}, {"type": "ipc"}, {"type": "uts"},
                   {"type": "mount"}, {"type": "cgroup"}],
    "maskedPaths": ["/proc/kcore", "/proc/keys", "/proc/timer_list"],
    "readonlyPaths": ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys"]
  }
}
J

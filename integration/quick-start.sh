#!/bin/bash
# quick-start.sh [--programs DIR | --package DEB] [--suite SUITE] [--then SCRIPT] [QUICK_START]...
#   QUICK_START: docker, containerd, podman, readme, migrating, rules, topology; default all.
#   Follows docs/quick-start.md (README.md for `readme`, docs/migrating.md for `migrating`,
#   docs/rules.md for `rules`, docs/topology.md for `topology`) as a new user would: runs each
#   block marked `sh` as it is written, and compares its output with the block `text` after it,
#   whose lines must be in the output in this order; `…` stands for any text. Each engine gets
#   namespaces in which /etc, /opt, /run, /usr and /var are private, and an engine of a Debian
#   suite is installed (integration/engines/setup.sh; default trixie). What differs from such a
#   machine: `systemctl` is a script that restarts the engine or sends it SIGHUP, the image busybox
#   (for ctr, $IMAGE) is there already, and the engines' firewall rules are switched off, since not
#   every kernel has them.
#   --programs DIR (target/debug): `make` does nothing, and DIR stands in for target/release.
#   --package DEB: DEB is installed, and what installs from sources is left out. For rules and
#     topology (the default then), whose quick starts say what a package needs.
#   --then SCRIPT: runs this script, too, where the engine and the programs are installed.
set -euo pipefail
# shellcheck source=engines/lib.sh
. "$(dirname "$0")/engines/lib.sh"
root=$(cd "$HERE/../.." && pwd -P)

if [ "${1:-}" != --inside ]; then
  programs='' package='' suite=trixie script=
  while [ $# -gt 0 ]; do
    case $1 in
      --programs) [ $# -ge 2 ] || usage; programs=$(cd "$2" && pwd -P); shift 2 ;;
      --package) [ $# -ge 2 ] || usage; package=$(realpath "$2"); shift 2 ;;
      --suite) [ $# -ge 2 ] || usage; suite=$2; shift 2 ;;
      --then) [ $# -ge 2 ] || usage; script=$(realpath "$2"); shift 2 ;;
      -*) usage ;;
      *) break ;;
    esac
  done
  suite "$suite"
  [ -z "$package" ] || [ $# -gt 0 ] || set -- rules topology
  [ $# -gt 0 ] || set -- docker readme containerd podman migrating rules topology
  for quick_start; do
    work=$(mktemp -d)
    # All processes end with process 1 of the namespace.
    "$root/integration/cgroups.sh" unshare --mount --pid --net --uts --ipc --fork --kill-child \
      --mount-proc --propagation private \
      "$(realpath "$0")" --inside "$work" "$suite" "$quick_start" "$programs" "$package" \
      "$script" &&
      status=0 || status=$?
    rm -rf "$work"
    [ "$status" = 0 ] || exit "$status"
  done
  exit
fi

work=$2 suite=$3 quick_start=$4 programs=$5 package=$6 script=$7
page=docs/quick-start.md engine=$quick_start
sections=("$page:Install" "$page:A first plugin")
case $quick_start in
  docker) sections+=("$page:Docker") ;;
  containerd) sections+=("$page:containerd") ;;
  podman) sections+=("$page:Podman") ;;
  readme) engine=docker sections=('README.md:Install it for Docker' 'README.md:A first plugin') ;;
  rules) engine=docker sections=("$page:Install" 'docs/rules.md:Quick start') ;;
  topology) engine=docker sections=("$page:Install" 'docs/topology.md:Quick start on Docker') ;;
  migrating) engine=containerd sections+=('docs/migrating.md:Steps for containerd') ;;
  *) usage ;;
esac

# A machine with the engine
mount -t tmpfs quick-start "$work"
mkdir "$work/engines"
mount --bind "$NRI_ENGINES" "$work/engines"
for dir in etc opt usr var; do
  mkdir "$work/$dir.upper" "$work/$dir.work"
  mount -t overlay quick-start "/$dir" \
    -o "lowerdir=/$dir,upperdir=$work/$dir.upper,workdir=$work/$dir.work"
done
mkdir -p "$NRI_ENGINES"
mount --bind "$work/engines" "$NRI_ENGINES"
mount -t tmpfs run /run
mount -t tmpfs shm /dev/shm # has locks of Podman
# Engines cannot make overlays whose upper directories are on an overlay.
for dir in docker containerd containers; do
  mkdir -p "/var/lib/$dir"
  mount -t tmpfs "$dir" "/var/lib/$dir"
done
rm -rf /etc/{nri,docker,containerd,nri-container-runtime} /etc/containers/containers.conf* \
  /usr/local/bin/{nri-container-runtime,nrictl} /usr/{libexec,lib}/nri-container-runtime \
  /opt/nri /usr/bin/{runc,crun}
for program in "$BIN/$suite"/*; do ln -sfn "$program" "/usr/sbin/${program##*/}"; done
mkdir -p /etc/containers
cat >/etc/containers/containers.conf <<END
[network]
firewall_driver = "none"
[engine]
helper_binaries_dir = ["/usr/sbin"]
runtime = "runc"
END
ip link set lo up
unset NRI_CONTAINER_RUNTIME_CONFIG NRI_CONTAINER_RUNTIME_PATH NRI_CONTAINER_RUNTIME_BYPASS
export HOME=/root LANG=C.UTF-8 PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin

systemctl() { # restart|reload docker|containerd
  local pid=$work/$2.pid
  case $1 in
    reload) kill -HUP "$(cat "$pid")"; sleep 1 ;;
    restart)
      stop_pid "$pid"
      start "$2"
      ;;
    *) die "systemctl $1" ;;
  esac
}
start() { # docker|containerd
  local command=(containerd) client=ctr
  [ "$1" = containerd ] || command=(dockerd --iptables=false --ip6tables=false) client=docker
  setsid "${command[@]}" >>"$work/$1.log" 2>&1 </dev/null &
  echo $! >"$work/$1.pid"
  wait_for 30 $client version || die "no $1: $(tail -3 "$work/$1.log")"
}
export work
export -f systemctl start die wait_for stop_pid has_ended
case $engine in
  docker)
    start docker
    # shellcheck disable=SC2153 # IMAGES is of lib.sh
    docker load -q -i "$IMAGES/docker-archive.tar" >/dev/null
    docker tag localhost/busybox:local busybox
    ;;
  containerd)
    if [ "$quick_start" = migrating ]; then # NRI is on since containerd 2.0
      mkdir /etc/containerd
      printf 'version = 2\n[plugins."io.containerd.nri.v1.nri"]\n  disable = false\n' \
        >/etc/containerd/config.toml
    fi
    start containerd
    ctr images import "$IMAGES/oci.tar" >/dev/null
    export IMAGE=localhost/busybox:local
    ;;
  podman)
    rm -rf /etc/containers/registries.conf.d # has a registry for the name busybox
    podman load -q -i "$IMAGES/docker-archive.tar" >/dev/null
    podman tag localhost/busybox:local busybox
    ;;
esac
if [ -n "$programs" ]; then
  mkdir -p "$work/checkout/target"
  ln -s "$programs" "$work/checkout/target/release"
  cd "$work/checkout"
  make() { :; }
  export -f make
elif [ -n "$package" ]; then
  cd "$work"
else
  cd "$root"
fi

# Writes the blocks of the sections, in this order, to NN.sh and NN.text.
mkdir "$work/blocks"
n=0
for section in "${sections[@]}"; do
  n=$(awk -v heading="## ${section#*:}" -v n="$n" -v dir="$work/blocks" '
    /^## / { inside = $0 == heading; found = found || inside }
    !inside { next }
    /^```(sh|text)$/ {
      kind = substr($0, 4)
      if (kind == "sh") n++
      file = sprintf("%s/%02d.%s", dir, n, kind)
      next
    }
    /^```/ { file = ""; next }
    file { print >file }
    END { print n; exit !found }' "$root/${section%:*}") || die "no section $section"
done
[ "$n" -gt 0 ] || die "no commands in ${sections[*]}"
if [ -n "$package" ]; then
  dpkg -i "$package" >"$work/output" 2>&1 || die "dpkg: $(cat "$work/output")"
  grep -lE '^make |target/release' "$work/blocks"/*.sh | xargs rm
fi

# missing OUTPUT TEXT: prints the first line of TEXT that is not in OUTPUT after the lines before it
missing() {
  awk -v output="$1" '
    {
      pattern = $0
      gsub(/[][\\.^$*+?(){}|]/, "\\\\&", pattern)
      gsub(/…/, ".*", pattern)
      gsub(/ +/, " +", pattern)
      found = 0
      while (!found && (getline line <output) > 0) found = line ~ "^" pattern "$"
      if (!found) { print; exit }
    }' "$2"
}

[ -z "$script" ] || cp "$script" "$work/blocks/then.sh"
for block in "$work/blocks"/*.sh; do
  echo "-- $quick_start:"
  sed 's/^/   /' "$block"
  set +e
  timeout 300 bash -e "$block" >"$work/output" 2>&1 </dev/null
  status=$?
  set -e
  sed 's/^/   | /' "$work/output"
  [ $status = 0 ] || die "the commands above failed with status $status"
  [ ! -e "${block%.sh}.text" ] || line=$(missing "$work/output" "${block%.sh}.text")
  [ -z "${line:-}" ] || die "$quick_start: the output above has no line '$line'"
done

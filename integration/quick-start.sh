#!/bin/bash
# quick-start.sh [--host HOST]... [--programs DIR | --package DEB] [--then SCRIPT | --shell]
#     [QUICK_START]...
#   Follows documents as a new user would on hosts as people have them: runs each block marked `sh`
#   as it is written, and compares its output with the block `text` after it, whose lines must be in
#   the output in this order; `…` stands for any text. A block after a paragraph that begins with
#   the name of a file in backticks and ends with a colon is the content of this file.
#   HOST (default all):
#     docker28        Docker beside the containerd of Debian sid, which has NRI on by default
#     docker28-no-cri the same with CRI off, as Docker's own packages configure containerd
#     docker26        Docker beside the containerd 1.7 of Debian trixie, which has NRI off
#     docker26-nri    the same with NRI switched on
#     docker-alone    Docker that starts a containerd of its own
#     podman          Podman 5
#     upgrade         docker26, which becomes docker28 while containers run (hosts/upgrade.sh)
#   QUICK_START (default all that the host has): readme, docker, containerd, podman, pods (a node of
#     Kubernetes by hand), migrating, rules, topology, tutorial. On the host podman, commands are
#     those of Podman, as these documents say: `podman` for `docker`, no `systemctl`.
#   Each quick start gets a host of its own: namespaces in which /etc, /opt, /run, /usr and /var are
#   private, with engines of a Debian suite (integration/engines/setup.sh). What differs from such a
#   machine: `systemctl` is a function that starts and stops engines and sends them SIGHUP, the
#   image busybox (for ctr, $IMAGE) is there already, there is no network, and the engines' firewall
#   rules are switched off, since not every kernel has them.
#   --programs DIR (target/debug): `make` does nothing, and DIR stands in for target/release.
#   --package DEB: DEB is installed, and what installs from sources is left out. For rules and
#     topology (the default then), whose quick starts say what a package needs.
#   --then SCRIPT: runs this script, too, where the engine and the programs are installed.
#   --shell: begins a shell on the host (one HOST), and follows nothing but the given QUICK_START.
set -euo pipefail
# shellcheck source=engines/lib.sh
. "$(dirname "$0")/engines/lib.sh"
root=$(cd "$HERE/../.." && pwd -P)
all_hosts='docker28 docker28-no-cri docker26 docker26-nri docker-alone podman upgrade'

# host NAME: sets suite, engines, nri (what containerd's configuration adds) and quick_starts
host() {
  suite=trixie engines='containerd docker' nri='' quick_starts='readme docker containerd'
  case $1 in
    docker28) suite=sid quick_starts+=' pods migrating' ;;
    docker28-no-cri) suite=sid ;;
    docker26) quick_starts+=' pods' ;;
    docker26-nri) quick_starts+=' pods migrating' ;;
    docker-alone) engines=docker quick_starts='readme docker' ;;
    podman) engines=podman quick_starts='readme podman' ;;
    upgrade) quick_starts=upgrade; return ;;
    *) die "no host '$1'; there are: $all_hosts" ;;
  esac
  quick_starts+=' rules topology tutorial'
}

if [ "${1:-}" != --inside ]; then
  programs='' package='' script='' hosts=()
  while [ $# -gt 0 ]; do
    case $1 in
      --host) [ $# -ge 2 ] || usage; hosts+=("$2"); shift 2 ;;
      --programs) [ $# -ge 2 ] || usage; programs=$(cd "$2" && pwd -P); shift 2 ;;
      --package) [ $# -ge 2 ] || usage; package=$(realpath "$2"); shift 2 ;;
      --then) [ $# -ge 2 ] || usage; script=$(realpath "$2"); shift 2 ;;
      --shell) script=--shell; shift ;;
      -*) usage ;;
      *) break ;;
    esac
  done
  [ -z "$package" ] || [ $# -gt 0 ] || set -- rules topology
  [ "$script" != --shell ] || [ $# -gt 0 ] || set -- nothing
  [ ${#hosts[@]} -gt 0 ] || read -ra hosts <<<"$all_hosts"
  followed=
  for name in "${hosts[@]}"; do
    host "$name"
    suite "$suite"
    [ "$name" != upgrade ] || suite sid
    for quick_start in ${*:-$quick_starts}; do
      case " $quick_starts nothing " in *" $quick_start "*) ;; *) continue ;; esac
      followed=1
      work=$(mktemp -d)
      # All processes end with process 1 of the namespace.
      "$root/integration/cgroups.sh" unshare --mount --pid --net --uts --ipc --fork --kill-child \
        --mount-proc --propagation private \
        "$(realpath "$0")" --inside "$work" "$name" "$quick_start" "$programs" "$package" \
        "$script" &&
        status=0 || status=$?
      rm -rf "$work"
      [ "$status" = 0 ] || exit "$status"
    done
  done
  [ -n "$followed" ] || die "the hosts ${hosts[*]} have no quick start $*"
  exit
fi

work=$2 name=$3 quick_start=$4 programs=$5 package=$6 script=$7
host "$name"
page=docs/quick-start.md
sections=("$page:Install" "$page:A first plugin")
case $quick_start in
  docker) sections+=("$page:Docker") ;;
  containerd) sections+=("$page:containerd") ;;
  podman) sections+=("$page:Podman") ;;
  readme) sections=('README.md:Install it for Docker' README.md:Rules
    'README.md:A plugin of your own' 'docs/plugin-tutorial.md:A plugin'
    'docs/plugin-tutorial.md:Try it' 'README.md:What becomes of my containers'
    'README.md:Remove it') ;;
  rules) sections=("$page:Install" 'docs/rules.md:Quick start') ;;
  topology) sections=("$page:Install" 'docs/topology.md:Quick start') ;;
  tutorial) sections=("$page:Install" 'docs/plugin-tutorial.md:A plugin'
    'docs/plugin-tutorial.md:Try it') ;;
  pods) sections+=('docs/reference/kubernetes.md:One node by hand') ;;
  migrating) sections+=('docs/reference/migrating.md:Steps for containerd') ;;
  upgrade) sections=("$page:Install") script=$root/integration/hosts/upgrade.sh ;;
  nothing) sections=() ;;
  *) usage ;;
esac

# shellcheck source=hosts/machine.sh
. "$root/integration/hosts/machine.sh"
machine

if [ -n "$package" ]; then
  cd "$work"
else
  cd /usr/local/src/nri-container-runtime
fi
if [ -n "$programs" ]; then
  mount -t tmpfs target target
  ln -s "$programs" target/release
  make() { :; }
  export -f make
  # Plugins that documents build are built once for all hosts.
  export CARGO_BUILD_BUILD_DIR=/usr/local/src/built
fi

# Writes the blocks of the sections, in this order, to NN.sh and NN.text.
mkdir "$work/blocks"
n=0
for section in "${sections[@]}"; do
  n=$(awk -v heading="## ${section#*:}" -v n="$n" -v dir="$work/blocks" '
    /^## / { inside = $0 == heading; found = found || inside }
    !inside { next }
    /^```/ && code { if (is_file) print "END_OF_FILE" >file; code = file = is_file = ""; next }
    /^```/ {
      code = 1
      is_file = !/^```(sh|text)$/ && first ~ /^`[A-Za-z0-9.\/_-]+`/ && last ~ /:$/
      if ($0 ~ /^```sh$/ || is_file) n++
      if ($0 ~ /^```(sh|text)$/) file = sprintf("%s/%02d.%s", dir, n, substr($0, 4))
      else if (is_file) {
        file = sprintf("%s/%02d.sh", dir, n)
        split(first, part, "`")
        printf "cat >%s <<\047END_OF_FILE\047\n", part[2] >file
      }
      next
    }
    code { if (file) print >file; next }
    /^$/ { blank = 1; next }
    { if (blank) first = $0; blank = ""; last = $0 }
    END { print n; exit !found }' "$root/${section%:*}") || die "no section $section"
done
[ "$n" -gt 0 ] || [ ${#sections[@]} = 0 ] || die "no commands in ${sections[*]}"
if [ -n "$package" ]; then
  dpkg -i "$package" >"$work/output" 2>&1 || die "dpkg: $(cat "$work/output")"
  grep -lE '^make |target/release' "$work/blocks"/*.sh | xargs rm
fi
if [ "$engines" = podman ] && [ "$quick_start" != podman ]; then
  sed -i '/^systemctl /d; s/\bdocker\b/podman/g' "$work/blocks"/*
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

case $script in '' | --shell) ;; *) cp "$script" "$work/blocks/then.sh" ;; esac
pwd >"$work/directory"
for block in "$work/blocks"/*.sh; do
  [ -e "$block" ] || continue
  echo "-- $name, $quick_start:"
  sed 's/^/   /' "$block"
  set +e
  # The next block begins in the directory where this one ends, as in a terminal.
  # shellcheck disable=SC2016 # the inner shell expands
  timeout 1800 bash -ec 'cd "$(cat "$work/directory")"; . "$1"; pwd >"$work/directory"' bash \
    "$block" >"$work/output" 2>&1 </dev/null
  status=$?
  set -e
  sed 's/^/   | /' "$work/output"
  [ $status = 0 ] || die "$name, $quick_start: the commands above failed with status $status"
  [ ! -e "${block%.sh}.text" ] || line=$(missing "$work/output" "${block%.sh}.text")
  [ -z "${line:-}" ] || die "$name, $quick_start: the output above has no line '$line'"
done
[ "$quick_start" != readme ] || [ -z "$(left)" ] || die "$name: after README.md are left: $(left)"
[ "$script" != --shell ] || bash -i

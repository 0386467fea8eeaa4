#!/bin/sh
# run.sh [ENGINE...]: tests engines that build.sh has built, with the wrapper as their OCI runtime
# and real plugins: buildkit, nerdctl, rootless-nerdctl, crio, cri-dockerd, docker29, or only the
# named ones. Prints a line `ok` or `FAILED` for each check, and exits with 1 if one failed. Each
# engine has its state in a private directory, which is removed afterwards. Needs root, and the
# built programs and examples of the workspace (or PROGRAMS=DIR).
#   KEEP=1      keeps the directory of an engine if a check failed
#   RECORD=DIR  keeps each engine's command lines and config.json files
#   CONTAINERD=DIR, DOCKER=DIR  directories of nerdctl's containerd and cri-dockerd's dockerd (PATH)
#   DOCKER29=DIR  directory of docker, containerd and runc for docker29 (PATH)
#   SUITE=sid   suite of the programs of rootless-nerdctl
#   REAL=crun   low-level runtime of the wrapper (runc)
set -u
here=$(cd "$(dirname "$0")" && pwd -P)
top=$(cd "$here/../../.." && pwd -P)
[ "$(id -u)" = 0 ] || { echo 'run.sh: engines need root' >&2; exit 2; }
target=${CARGO_TARGET_DIR:-$top/target}
PROGRAMS=${PROGRAMS:-$target/debug}
ENGINES=${ENGINES:-$target/engines-extra}
export PROGRAMS ENGINES
for program in nri-container-runtime nri-oci-hook nrid nrictl examples/adjust; do
  [ -x "$PROGRAMS/$program" ] || {
    echo "run.sh: no $PROGRAMS/$program, please build the workspace and its examples" >&2
    exit 2
  }
done
[ -x "$target/integration/gostub" ] ||
  "$top/integration/plugins/build.sh" "$target/integration" gostub || exit 2
[ $# -gt 0 ] || set -- buildkit nerdctl rootless-nerdctl crio cri-dockerd docker29
failed=0
for engine in "$@"; do
  echo "== $engine"
  "$here/$engine.sh" || failed=1
done
exit $failed

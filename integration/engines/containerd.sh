#!/bin/bash
# containerd.sh start DIR SUITE RUNTIME [--nri]   starts containerd of SUITE and imports the images
# containerd.sh halt DIR                          ends containerd; containers continue to run
# containerd.sh resume DIR                        starts containerd again
# containerd.sh stop DIR                          ends containers and containerd, deletes its state
#   The files of containerd are below DIR: DIR/sock is its socket, DIR/log its log, DIR/pid its
#   process id. Two directories are outside: /run/containerd/runc/NAMESPACE (state of runc) and
#   /run/containerd/s (sockets of shims, whose names are hashes of DIR).
#   RUNTIME (absolute) is the program of the default CRI handler. ctr uses it with
#   ctr --address DIR/sock run --runc-binary RUNTIME ...
#   --nri: enables containerd's own NRI, with its socket and plugins below DIR.
#   The CRI passes annotations of pods and containers to the runtime, as on nodes with NRI plugins.
. "$(dirname "$0")/lib.sh"
[ $# -ge 2 ] || usage
D=$2

# version SUITE: prints MAJOR.MINOR of containerd
version() {
  "$BIN/$1/containerd" --version | sed -n 's/.* v\{0,1\}\([0-9]*\)\.\([0-9]*\)\..*/\1.\2/p'
}

# config SUITE RUNTIME NRI: prints the configuration; NRI is empty or --nri
config() {
  local cri=io.containerd.grpc.v1.cri file=2 bins="bin_dir = \"$D/cni/bin\"" v
  v=$(version "$1")
  case $v in 1.*) ;; *) file=3 cri=io.containerd.cri.v1.runtime ;; esac
  case $v in 1.* | 2.0) ;; *) bins="bin_dirs = [\"$D/cni/bin\"]" ;; esac
  printf 'version = %s\nroot = "%s"\nstate = "%s"\n' "$file" "$D/root" "$D/state"
  printf 'disabled_plugins = ["io.containerd.internal.v1.opt"]\n'
  printf '[grpc]\n  address = "%s"\n' "$D/sock"
  [ $file = 2 ] || printf "[plugins.'%s'.pinned_images]\n  sandbox = \"localhost/pause:local\"\n" \
    io.containerd.cri.v1.images
  # Where root cannot lower an oom_score_adj, no sandbox starts without restrict_oom_score_adj.
  printf "[plugins.'%s']\n  restrict_oom_score_adj = true\n" $cri
  [ $file = 3 ] || printf '  sandbox_image = "localhost/pause:local"\n'
  printf "[plugins.'%s'.containerd]\n  default_runtime_name = \"nri\"\n" $cri
  printf "[plugins.'%s'.containerd.runtimes.nri]\n" $cri
  # The pattern `*` does not match a key with a slash.
  printf '  runtime_type = "io.containerd.runc.v2"\n'
  printf '  pod_annotations = ["*", "*/*"]\n  container_annotations = ["*", "*/*"]\n'
  printf "  [plugins.'%s'.containerd.runtimes.nri.options]\n    BinaryName = \"%s\"\n" $cri "$2"
  printf "[plugins.'%s'.cni]\n  %s\n  conf_dir = \"%s\"\n" $cri "$bins" "$D/cni/net.d"
  [ "$v" != 1.6 ] || return 0
  printf "[plugins.'io.containerd.nri.v1.nri']\n  disable = %s\n  socket_path = \"%s\"\n" \
    "$([ -n "$3" ] && echo false || echo true)" "$D/nri.sock"
  printf '  plugin_path = "%s"\n  plugin_config_path = "%s"\n' "$D/nri/plugins" "$D/nri/conf.d"
}

# network: configures cni.sh, which gives pods outside of the host network an address
network() {
  mkdir -p "$D/cni/bin" "$D/cni/net.d"
  ln -sfn "$HERE/cni.sh" "$D/cni/bin/nri-test"
  ln -sfn "$HERE/cni.sh" "$D/cni/bin/loopback"
  echo '{"cniVersion":"0.4.0","name":"nri-test","plugins":[{"type":"nri-test"}]}' \
    >"$D/cni/net.d/10-nri-test.conflist"
}

# ctr ARGS...: calls ctr with a timeout, so that a containerd that hangs does not hang a test
ctr() { timeout 20 "$BIN/$(cat "$D/suite")/ctr" --address "$D/sock" "$@"; }

resume() {
  local s
  s=$(cat "$D/suite")
  daemon "$s" "$D/pid" "$D/log" "$BIN/$s/containerd" -c "$D/config.toml"
  wait_for 20 ctr version || die "containerd did not start: $(tail -3 "$D/log")"
  # The CRI plugin is ready later than containerd: it restores its pods before.
  [ ! -x "$BIN/cri" ] || wait_for 20 "$BIN/cri" "$D/sock" ListPodSandbox ||
    die "containerd's CRI did not start: $(tail -3 "$D/log")"
}

# shims: prints the ids of the shims, which have the socket of this containerd in their arguments
shims() { grep -lzxF -- "$D/sock" /proc/[0-9]*/cmdline 2>/dev/null | cut -d/ -f3; }

# delete_container STATE-DIRECTORY: deletes a container after the exit of its shim, and the socket
# of the shim
delete_container() {
  local id namespace
  grep -hos '/run/containerd/s/[0-9a-f]*' "$1/address" "$1/bootstrap.json" |
    while read -r id; do rm -f "$id"; done
  id=$(basename "$1") namespace=$(basename "$(dirname "$1")")
  "$BIN/$(cat "$D/suite")/runc" --root "/run/containerd/runc/$namespace" delete --force "$id"
}

stop() {
  local p t
  [ -s "$D/suite" ] || return 0
  stop_pid "$D/pid"
  for p in $(shims); do kill -9 "$p" 2>/dev/null; done
  for t in "$D"/state/io.containerd.runtime.v2.task/*/*; do
    [ ! -d "$t" ] || delete_container "$t"
  done >/dev/null 2>&1
  umount_below "$D"
  rm -rf "$D/state" "$D/root" "$D"/*sock* "$D/suite"
}

case $1 in
  start)
    [ $# -ge 4 ] || usage
    suite "$3"
    [ -x "$4" ] || die "$4 is not executable"
    mkdir -p "$D/nri/plugins" "$D/nri/conf.d"
    echo "$3" >"$D/suite"
    config "$3" "$4" "${5:-}" >"$D/config.toml"
    network
    resume
    for n in default k8s.io; do
      ctr -n $n images import "$IMAGES/oci.tar" >/dev/null ||
        die "images were not imported: $(tail -3 "$D/log")"
    done
    ;;
  halt) stop_pid "$D/pid" ;;
  resume) resume ;;
  stop) stop ;;
  *) usage ;;
esac

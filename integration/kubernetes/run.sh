#!/bin/bash
# run.sh [PROGRAMS]
#   Tests the Kubernetes packaging on a real node: etcd, API server, controller manager, scheduler,
#   kubelet and containerd in private namespaces of this machine (node.sh), without a network. The
#   DaemonSet installs the programs of the directory PROGRAMS (target/debug), pods run with and
#   without the RuntimeClass, and a plugin of upstream runs as a pod. Then the programs are upgraded
#   and uninstalled under running pods, with kustomize, and with Helm. Prints a line `ok` or
#   `FAILED` for each check, and exits with 1 if one failed. Takes 4 minutes. Needs root, setup.sh
#   and the engines of trixie (integration/engines/setup.sh).
#   KUBERNETES=DIR  what setup.sh has built (target/integration/kubernetes)
#   PLUGIN=FILE     upstream's ulimit-adjuster, which plugins/samples.sh builds of a checkout
#                   (target/integration/samples). Without it, gostub, our plugin on upstream's stub,
#                   sets the same limit.
#   KEEP=1          keeps the node and its directory if a check failed; the last line ends them
set -u
here=$(cd "$(dirname "$0")" && pwd -P)
top=$(cd "$here/../.." && pwd -P)
target=${CARGO_TARGET_DIR:-$top/target}
programs=$(cd "${1:-$target/debug}" && pwd -P) || exit 2
kubernetes=${KUBERNETES:-$target/integration/kubernetes}/bin
engines=${NRI_ENGINES:-/var/tmp/nri-engines}
engine=$engines/bin/trixie
plugin=${PLUGIN:-$target/integration/samples/ulimit-adjuster}
bin=/opt/nri-container-runtime/bin
[ "$(id -u)" = 0 ] || { echo 'run.sh: a node needs root' >&2; exit 2; }
[ -x "$engine/containerd" ] || { echo "run.sh: no $engine/containerd" >&2; exit 2; }
for p in etcd kube-apiserver kubelet kube-controller-manager kube-scheduler kubectl helm; do
  [ -x "$kubernetes/$p" ] || { echo "run.sh: no $kubernetes/$p, call setup.sh" >&2; exit 2; }
done
dir=$(mktemp -d /tmp/nri-kube.XXXXXX)
mkdir -p "$dir"/{log,memory,programs,images}
cp "$top/integration/engines/cni.sh" "$dir"
failed=0
cgroup=${dir##*/}

check() {
  local text=$1 start=$SECONDS
  shift
  if "$@"; then
    echo "ok      $text ($((SECONDS - start)) s)"
  else
    echo "FAILED  $text"
    failed=$((failed + 1))
  fi
}
# need TEXT COMMAND...: as check; without it the other checks say nothing
need() {
  check "$@"
  [ $failed = 0 ] || exit 1
}
equal() { [ "$1" = "$2" ] || { printf '  expected: %s\n  got:      %s\n' "$1" "$2"; false; }; }
not() { ! "$@"; }
quiet() { "$@" >/dev/null 2>&1; }
# within SECONDS COMMAND...: repeats the command until it succeeds
within() {
  local end=$((SECONDS + $1))
  shift
  until "$@" >/dev/null 2>&1; do
    [ $SECONDS -lt $end ] || { "$@"; return; }
    sleep 0.5
  done
}
step() { echo "-- $*"; }

# The node.

cgroups() { find /sys/fs/cgroup -depth -type d -path "*/$cgroup*" 2>/dev/null; }
start_node() {
  # A cgroup of its own in each hierarchy; the node cannot see the others.
  for hierarchy in /sys/fs/cgroup /sys/fs/cgroup/*; do
    [ -e "$hierarchy/cgroup.procs" ] || continue
    mkdir "$hierarchy/$cgroup" || exit 1
    for file in cpuset.cpus cpuset.mems; do
      [ ! -e "$hierarchy/$cgroup/$file" ] || cat "$hierarchy/$file" >"$hierarchy/$cgroup/$file"
    done
  done
  (
    for hierarchy in /sys/fs/cgroup/"$cgroup" /sys/fs/cgroup/*/"$cgroup"; do
      [ ! -e "$hierarchy/cgroup.procs" ] || echo "$BASHPID" >"$hierarchy/cgroup.procs"
    done
    exec setsid unshare --mount --pid --net --uts --ipc --cgroup --fork --kill-child \
      "$here/node.sh" "$dir" "$kubernetes" "$engine"
  ) >"$dir/log/node" 2>&1 </dev/null &
  starter=$!
  within 20 test -e "$dir/log/started" || { cat "$dir/log/node"; exit 1; }
  node=$(pgrep -P $starter)
}
stop_node() {
  trap - EXIT
  [ $failed = 0 ] || describe
  if [ $failed -gt 0 ] && [ -n "${KEEP:-}" ]; then
    echo "kept: nsenter -a -t $node; kill -9 $node; rm -rf $dir"
    exit 1
  fi
  # The kernel ends all processes of the node with its process 1.
  [ -z "${node:-}" ] || kill -9 "$node"
  wait "${starter:-}" 2>/dev/null
  for _ in $(seq 50); do
    cgroups | while read -r place; do rmdir "$place" 2>/dev/null; done
    [ -n "$(cgroups)" ] || break
    sleep 0.1
  done
  check 'no cgroup is left' equal '' "$(cgroups)"
  rm -rf "$dir"
  # Without an argument, exit would return the status from before the trap.
  [ $failed = 0 ] || exit 1
}
trap stop_node EXIT
trap 'exit 1' INT TERM
on_node() { nsenter -a -t "$node" -- "$@"; }
file_of_node() { on_node cat "$1" 2>/dev/null; }
kubectl() {
  on_node env PATH=/opt/kubernetes:/usr/bin:/bin HOME=/root KUBECONFIG=/etc/kubernetes/config \
    kubectl "$@"
}
helm() {
  on_node env PATH=/opt/kubernetes:/usr/bin:/bin HOME=/root KUBECONFIG=/etc/kubernetes/config \
    helm -n nri-container-runtime "$@"
}

# Images.

# base: makes the base of the installer's image of programs of this machine, with their libraries,
# which the programs under test were linked with
base() {
  local p libraries
  mkdir -p "$dir"/base/{bin,usr/bin,tmp,proc,sys,dev,etc,run}
  for p in cat chmod cmp cp find grep ln ls mkdir mv nsenter readlink rm rmdir sed sh sleep tr; do
    cp -L "$(command -v $p)" "$dir/base/usr/bin/$p"
  done
  ln -s ../usr/bin/sh "$dir/base/bin/sh"
  libraries=$(ldd "$dir"/base/usr/bin/* "$dir"/programs/* 2>/dev/null | grep -o '/[^ ]*\.so[^ ]*')
  for p in $libraries; do install -D "$p" "$dir/base$p"; done
}
# installer_image TAG: builds the installer's image of $dir/programs, and gives it to containerd
installer_image() {
  BUILDER=$here/image.sh BASE_ROOT=$dir/base OUT=$dir/images/$1.tar \
    "$top/packaging/kubernetes/installer/build.sh" "$dir/programs" "localhost/installer:$1" &&
    import "$dir/images/$1.tar"
}
import() { on_node ctr -n k8s.io images import - <"$1" >/dev/null; }
plugin_image() {
  mkdir -p "$dir/plugin"
  if [ -x "$plugin" ]; then
    cp "$plugin" "$dir/plugin/plugin"
    arguments='["-name", "ulimits", "-idx", "10"]'
  else
    cp "$target/integration/gostub" "$dir/plugin/plugin"
    cat >"$dir/plugin/config" <<'J'
{"Rules": [{"Name": "adjusted",
  "Adjust": {"rlimits": [{"type": "RLIMIT_NOFILE", "soft": 512, "hard": 512}]}}]}
J
    arguments='["-name", "ulimits", "-idx", "10", "-config", "/config"]'
  fi
  printf 'COPY plugin /\nENTRYPOINT ["/plugin"]\n' >"$dir/Dockerfile.plugin"
  [ ! -e "$dir/plugin/config" ] || sed -i '1iCOPY config /' "$dir/Dockerfile.plugin"
  OUT=$dir/images/plugin.tar "$here/image.sh" build --tag localhost/plugin:1 \
    --file "$dir/Dockerfile.plugin" "$dir/plugin" && import "$dir/images/plugin.tar"
}

# Pods.

# pod NAME CLASS: creates a pod with the container `adjusted`, for which the plugin has a limit
pod() {
  kubectl apply -f - >/dev/null <<Y
apiVersion: v1
kind: Pod
metadata:
  name: $1
  annotations:
    ulimits.nri.containerd.io/container.adjusted: "[{type: nofile, hard: 512, soft: 512}]"
spec:
  ${2:+runtimeClassName: $2}
  automountServiceAccountToken: false
  terminationGracePeriodSeconds: 1
  containers:
  - name: adjusted
    image: localhost/busybox:local
    imagePullPolicy: Never
    command: [sleep, "100000"]
Y
}
# plugin_pod: creates the pod of the plugin
plugin_pod() {
  kubectl apply -f - >/dev/null <<Y
apiVersion: v1
kind: Pod
metadata: {name: plugin}
spec:
  automountServiceAccountToken: false
  terminationGracePeriodSeconds: 1
  containers:
  - name: plugin
    image: localhost/plugin:1
    imagePullPolicy: Never
    args: $arguments
    volumeMounts: [{name: sockets, mountPath: /var/run/nri}]
  volumes: [{name: sockets, hostPath: {path: /run/nri-container-runtime/plugins}}]
Y
}
is_ready() { kubectl wait --for=condition=Ready --timeout="${2:-60}s" "pod/$1" >/dev/null; }
limit() { kubectl exec "$1" -- sh -c 'ulimit -n'; }
# container POD: prints the id of its container and how often it was restarted
container() {
  local status='.status.containerStatuses[0]'
  kubectl get pod "$1" -o "jsonpath={$status.containerID} {$status.restartCount}"
}
# installer_ready BOOL: whether the pod of the installer has this readiness
installer_ready() {
  [ "$(kubectl -n nri-container-runtime get pods -l app.kubernetes.io/component=installer \
    -o 'jsonpath={.items[*].status.containerStatuses[0].ready}')" = "$1" ]
}
rolled_out() {
  kubectl -n nri-container-runtime rollout status daemonset/installer --timeout="${1:-120}s" \
    >/dev/null
}
# overlay NAME TAG: applies an overlay with the image, as an administrator does
overlay() {
  mkdir -p "$dir/apply"
  cp -r "$top/packaging/kubernetes" "$dir/apply/"
  cat >"$dir/apply/kustomization.yaml" <<Y
resources: [kubernetes/overlays/$1]
components: [kubernetes/components/restart-engine]
images: [{name: nri-container-runtime-installer, newName: localhost/installer, newTag: "$2"}]
Y
  "$kubernetes/kubectl" kustomize "$dir/apply" | kubectl apply -f - >/dev/null
}
# describe: prints what is needed to understand a failure
describe() {
  kubectl get pods -A
  tail -3 "$dir/log/kubelet"
  kubectl -n nri-container-runtime describe pods | tail -30
  kubectl -n nri-container-runtime logs daemonset/installer -c install | tail -20
}
nrid() { on_node $bin/nrictl status --json | grep -o '"pid":[0-9]*' | sed -n '1s/.*://p'; }
nodes_files() {
  on_node find /etc/containerd /opt /usr/local/bin /etc/nri-container-runtime -xdev \
    \( -type f -o -type l \) 2>/dev/null | sort
}

for p in nrid nrictl nri-oci-hook nri-wasm-host nri-container-runtime; do
  strip -o "$dir/programs/$p" "$programs/$p"
done
base
start_node
step 'the node'
need 'the API server serves' within 60 kubectl get --raw /readyz
need 'the node is registered' within 60 kubectl get node node1
need 'the node is ready' quiet kubectl wait --for=condition=Ready --timeout=90s node/node1
need 'the default service account exists' within 60 kubectl get serviceaccount default
import "$engines/img/oci.tar"
need 'the image of the installer is built' installer_image 1
need 'the image of the plugin is built' plugin_image
before=$(nodes_files) configuration=$(file_of_node /etc/containerd/config.toml)
pod plain
need 'a pod runs before the installation' is_ready plain

step 'installation'
overlay containerd 1
need 'the pod of the installer becomes ready' rolled_out
check 'nrictl is in PATH' on_node sh -c 'nrictl status >/dev/null'
check 'containerd was restarted once' equal 'restart containerd' \
  "$(file_of_node /var/log/node/systemctl)"
check 'the state directory is that of root only' equal '700 755' \
  "$(on_node stat -c %a /run/nri-container-runtime /run/nri-container-runtime/plugins | xargs)"
check 'nrid is in the namespaces of the node' equal \
  "$(on_node readlink /proc/1/ns/mnt /proc/1/ns/net /proc/1/ns/cgroup)" \
  "$(on_node readlink "/proc/$(nrid)/ns/mnt" "/proc/$(nrid)/ns/net" "/proc/$(nrid)/ns/cgroup")"
check 'nrid is in no cgroup of a pod' equal '' \
  "$(on_node cat "/proc/$(nrid)/cgroup" | grep kubepods)"
check 'the class exists' quiet kubectl get runtimeclass nri

step 'a plugin as a pod'
plugin_pod
check 'the plugin runs' is_ready plugin
registered() { on_node $bin/nrictl status | grep -q 'ulimits .*active'; }
check 'the plugin is registered' within 20 registered
pod web nri
check 'a pod of the class runs' is_ready web
check 'the plugin has adjusted it' equal 512 "$(limit web)"
pod other
check 'a pod without the class runs' is_ready other
check 'the plugin has not adjusted it' test "$(limit other)" != 512
check 'nrid knows one container' equal 1 "$(on_node $bin/nrictl status --json |
  sed -n 's/.*"containers":\([0-9]*\).*/\1/p')"

step 'readiness'
on_node $bin/nrictl stop
check 'without nrid the pod of the installer is not ready' within 60 installer_ready false
on_node $bin/nrictl start
check 'with nrid it is ready again' within 60 installer_ready true
pid=$(nrid)
on_node kill -STOP "$pid"
check 'with an nrid that does not answer it is not ready' within 60 installer_ready false
on_node kill -CONT "$pid"
check 'it is ready when nrid goes on' within 60 installer_ready true
check 'the plugin is registered again' within 90 registered

step 'an upgrade under running pods'
containers="$(container web); $(container other); $(container plain)"
pid=$(nrid)
echo >>"$dir/programs/nrid"
installer_image 2
overlay containerd 2
check 'the pod of the upgrade becomes ready' rolled_out
check 'nrid is the same process' equal "$pid" "$(nrid)"
check 'nrid is the new program' cmp -s "$dir/programs/nrid" "/proc/$node/root$bin/nrid"
check 'the process runs the new program' equal "$(sha256sum <"$dir/programs/nrid")" \
  "$(on_node sha256sum "/proc/$(nrid)/exe" | sed 's/ .*/  -/')"
check 'the plugin connects again' within 120 registered
pod late nri
check 'a pod of the class runs' is_ready late
check 'the plugin has adjusted it' equal 512 "$(limit late)"
check 'commands run in a pod of before' equal 512 "$(limit web)"
check 'no container was restarted' equal "$containers" \
  "$(container web); $(container other); $(container plain)"

step 'an upgrade to programs that do not run'
cp "$dir/programs/nrid" "$dir/nrid"
printf '#!/bin/sh\nexit 1\n' >"$dir/programs/nrid"
installer_image 3
overlay containerd 3
reason() {
  kubectl -n nri-container-runtime logs -l app.kubernetes.io/component=installer -c install \
    --tail=5 | grep 'the previous nrid keeps running'
}
check 'the log of the installer has the reason' within 60 reason
check 'the pod of the installer is not ready' installer_ready false
check 'the previous nrid still runs' equal "$pid" "$(nrid)"
pod during nri
check 'a pod of the class runs meanwhile' is_ready during
cp "$dir/nrid" "$dir/programs/nrid"
overlay containerd 2
check 'the previous image is rolled out again' rolled_out

step 'uninstallation under running pods'
kubectl delete runtimeclass nri >/dev/null
overlay containerd-uninstall 2
waiting() {
  kubectl -n nri-container-runtime logs -l app.kubernetes.io/component=installer -c install |
    grep 'waiting for containers'
}
check 'the installer waits for the pods of the class' within 90 waiting
check 'the configuration of containerd is as before' equal "$configuration" \
  "$(file_of_node /etc/containerd/config.toml)"
pod afterwards
check 'a new pod runs' is_ready afterwards
check 'commands run in a pod of the class' equal 512 "$(limit web)"
kubectl delete pod web late during --wait >/dev/null
check 'the pods of the class are removed' equal '' \
  "$(kubectl get pods -o name | grep -E 'web|late|during')"
check 'the rollout of the uninstallation ends' rolled_out
check 'nothing is left on the node' equal "$before" "$(nodes_files)"
check 'no nrid runs' not on_node sh -c 'grep -qsx nrid /proc/[0-9]*/comm'
check 'the other pods were not restarted' equal "${containers#*; }" \
  "$(container other); $(container plain)"
kubectl delete namespace nri-container-runtime --wait >/dev/null

step 'Helm'
cp -r "$top/packaging/helm/nri-container-runtime" "$dir/chart"
on_node mkdir -p /tmp/chart
tar -C "$dir/chart" -c . | on_node tar -C /tmp/chart -x
kubectl create namespace nri-container-runtime >/dev/null
kubectl label namespace nri-container-runtime \
  pod-security.kubernetes.io/enforce=privileged >/dev/null
check 'helm install waits until the installer is ready' quiet helm install nri /tmp/chart --wait \
  --timeout 120s --set image.repository=localhost/installer --set-string image.tag=2 \
  --set restartEngine=true
# The pauses of the kubelet between restarts have become long.
kubectl delete pod plugin --wait >/dev/null
plugin_pod
check 'the plugin connects' within 60 registered
pod web nri
check 'a pod of the class runs' is_ready web
check 'the plugin has adjusted it' equal 512 "$(limit web)"
check 'helm upgrade succeeds' quiet helm upgrade nri /tmp/chart --reuse-values \
  --set uninstall=true
check 'the class is removed' not quiet kubectl get runtimeclass nri
check 'the installer waits for the pod of the class' within 90 waiting
kubectl delete pod web --wait >/dev/null
check 'the rollout of the uninstallation ends' rolled_out
check 'nothing is left on the node' equal "$before" "$(nodes_files)"
check 'helm uninstall succeeds' quiet helm uninstall nri --wait

#!/bin/bash
# node.sh DIR PROGRAMS ENGINE
#   Process 1 of the node, in namespaces of its own, which run.sh makes. The node has the file
#   system of the machine below an overlay in memory, its own /run, /tmp, /proc, cgroups and
#   network, and runs etcd, the control plane, containerd and a kubelet. PROGRAMS and ENGINE are the
#   directories of Kubernetes and of containerd. Logs are in DIR/log, which the machine sees.
set -u
dir=$1 programs=$2 engine=$3
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
die() { echo "node.sh: $*" >&2; exit 1; }

# The file system: of the machine, with changes in memory.
root=$dir/root
mount --make-rprivate / || die mount
mount -t tmpfs -o size=6g,mode=755 node "$dir/memory" || die 'no tmpfs'
mkdir -p "$dir/memory"/{upper,work,containerd,kubelet,etcd} "$root"
mount -t overlay -o "lowerdir=/,upperdir=$dir/memory/upper,workdir=$dir/memory/work" overlay \
  "$root" || die 'no overlay'
mkdir -p "$root"/opt/kubernetes "$root"/opt/engine "$root"/var/lib/{containerd,kubelet,etcd} \
  "$root/var/log/node" "$root/old"
mount --bind "$programs" "$root/opt/kubernetes" || die programs
# The engine's programs have paths to their libraries.
mkdir -p "$root$engine"
mount --rbind "${engine%/bin/*}" "$root${engine%/bin/*}" || die engine
for d in containerd kubelet etcd; do mount --bind "$dir/memory/$d" "$root/var/lib/$d"; done
install -D "$dir/cni.sh" "$root/usr/lib/cni/nri-test"
mount --bind "$dir/log" "$root/var/log/node"
mount --rbind /dev "$root/dev" || die dev
mount -t proc proc "$root/proc" || die proc
# The kubelet and containers of the node cannot change settings of the machine.
mount --bind "$root/proc/sys" "$root/proc/sys"
mount -o remount,bind,ro "$root/proc/sys" || die 'proc/sys'
mount -t sysfs sysfs "$root/sys" || die sys
mount -t tmpfs -o mode=755 cgroup "$root/sys/fs/cgroup" || die cgroup
if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
  mount -t cgroup2 cgroup "$root/sys/fs/cgroup" || die cgroup2
else
  # Exactly the hierarchies of the machine; each is that of the node's cgroup namespace.
  while read -r _ _ _ _ place _; do
    case $place in /sys/fs/cgroup/?*) ;; *) continue ;; esac
    name=${place##*/}
    mkdir -p "$root$place"
    case $name in
      unified) mount -t cgroup2 cgroup "$root$place" ;;
      systemd) mount -t cgroup -o none,name=systemd cgroup "$root$place" ;;
      *) mount -t cgroup -o "$name" cgroup "$root$place" ;;
    esac || die "cgroup $name"
  done </proc/self/mountinfo
fi
for d in run tmp; do mount -t tmpfs -o mode=1777 tmpfs "$root/$d"; done
chmod 755 "$root/run"
# The kubelet ends if it cannot give these settings their values, so it finds them.
for setting in vm/overcommit_memory=1 kernel/panic=10 kernel/panic_on_oops=1; do
  file=$root/proc/sys/${setting%=*} copy=$root/run/sysctl.$(basename "${setting%=*}")
  echo "${setting#*=}" >"$copy"
  mount --bind "$copy" "$file" || die "$file"
done
cd "$root" || die "$root"
pivot_root . old || die pivot_root
cd / || die /
# The kubelet needs a root whose mounts propagate.
mount --make-rslave /old && umount -l /old && rmdir /old
mount --make-rshared /

# The network: nothing but addresses of the node.
hostname node1
echo 10.88.0.1 node1 >>/etc/hosts
ip link set lo up
ip link add node0 type veth peer name node1
ip addr add 10.88.0.1/24 dev node0
ip link set node0 up
ip link set node1 up

# containerd, as an administrator has configured it, and a service manager that restarts it.
for p in containerd containerd-shim-runc-v2 ctr runc; do ln -sf "$engine/$p" "/usr/bin/$p"; done
mkdir -p /etc/containerd /etc/cni/net.d /run/pid
cat >/etc/containerd/config.toml <<'T'
version = 2

# as the administrator wrote it
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/pause:local"
  # Where root cannot lower an oom_score_adj, no sandbox starts without this.
  restrict_oom_score_adj = true
T
ln -s nri-test /usr/lib/cni/loopback
echo '{"cniVersion":"0.4.0","name":"nri-test","plugins":[{"type":"nri-test"}]}' \
  >/etc/cni/net.d/10-nri-test.conflist
cat >/usr/bin/systemctl <<'S'
#!/bin/sh
# The node's service manager, of which the installer needs `restart containerd` only.
echo "$*" >>/var/log/node/systemctl
[ "$*" = 'restart containerd' ] || exit 1
old=$(cat /run/pid/containerd)
kill "$old"
n=200
until [ "$(cat /run/pid/containerd)" != "$old" ] && ctr version >/dev/null 2>&1; do
  n=$((n - 1))
  [ $n -gt 0 ] || exit 1
  sleep 0.1
done
S
chmod 755 /usr/bin/systemctl

# service NAME COMMAND...: runs a command again and again
service() {
  local name=$1
  shift
  while :; do
    "$@" >>"/var/log/node/$name" 2>&1 </dev/null &
    echo $! >"/run/pid/$name.new"
    mv "/run/pid/$name.new" "/run/pid/$name"
    wait $!
    sleep 0.5
  done &
}
export PATH=/opt/kubernetes:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
mkdir -p /etc/kubernetes
cd /etc/kubernetes || die etc
openssl genrsa -out accounts.key 2048 2>/dev/null
token=$(openssl rand -hex 16)
echo "$token,admin,admin,system:masters" >tokens
cat >config <<Y
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:6443", insecure-skip-tls-verify: true}}]
users: [{name: u, user: {token: "$token"}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
Y
# failCgroupV1: the kubelet runs on cgroup v1 only with this override.
cat >kubelet.yaml <<'Y'
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
failCgroupV1: false
cgroupDriver: cgroupfs
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
failSwapOn: false
localStorageCapacityIsolation: false
imageGCHighThresholdPercent: 100
evictionHard: {memory.available: 1Mi}
resolvConf: ""
oomScoreAdj: 0
nodeStatusUpdateFrequency: 2s
syncFrequency: 5s
clusterDNS: [10.96.0.10]
registerNode: true
Y
service etcd etcd --data-dir /var/lib/etcd --listen-client-urls http://127.0.0.1:2379 \
  --advertise-client-urls http://127.0.0.1:2379 --listen-peer-urls http://127.0.0.1:2380 \
  --log-level warn
service kube-apiserver kube-apiserver --etcd-servers http://127.0.0.1:2379 \
  --service-cluster-ip-range 10.96.0.0/24 --service-account-key-file accounts.key \
  --service-account-signing-key-file accounts.key \
  --service-account-issuer https://kubernetes.default.svc --token-auth-file tokens \
  --authorization-mode AlwaysAllow --cert-dir /run/kubernetes --allow-privileged=true \
  --bind-address 127.0.0.1 --advertise-address 10.88.0.1
service kube-controller-manager kube-controller-manager --kubeconfig config --leader-elect=false \
  --service-account-private-key-file accounts.key --bind-address 127.0.0.1
service kube-scheduler kube-scheduler --kubeconfig config --leader-elect=false \
  --bind-address 127.0.0.1
service containerd containerd
service kubelet kubelet --kubeconfig config --config kubelet.yaml --node-ip 10.88.0.1 \
  --hostname-override node1
touch /var/log/node/started
while :; do wait; sleep 1; done

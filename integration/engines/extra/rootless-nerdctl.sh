#!/bin/sh
# rootless-nerdctl.sh: tests nerdctl on the containerd of a user without root, with plugins, a
# configuration and an nrid of the user. SUITE=sid is the suite of integration/engines/setup.sh
# whose containerd, rootlesskit and runc are used; nerdctl is that of build.sh.
# rootlesskit gets no driver of networks, so that its namespaces share the network of the user, and
# nerdctl is called in these namespaces: it would want to enter a network of rootlesskit's.
. "$(dirname "$0")/lib.sh"
suite=${SUITE:-sid}
engines=${NRI_ENGINES:-/var/tmp/nri-engines}
PATH=$ENGINES:$PATH
need nerdctl newuidmap
[ -x "$engines/bin/$suite/rootlesskit" ] || skipped "no rootlesskit in the suite $suite"
dir=$WORK/rootless home=/home/nri-user
rootless() { verb=$1; shift; "$here/../rootless.sh" "$verb" "$dir" "$@"; }
as() { rootless as "$@"; }
stop() {
  as nrictl stop >/dev/null 2>&1
  rootless stop
  finish
}
trap stop EXIT

mkdir "$WORK/programs"
for program in nrid nrictl nri-container-runtime nri-oci-hook; do
  cp "$PROGRAMS/$program" "$WORK/programs/"
done
cp "$(command -v nerdctl)" "$WORK/programs/"
cat >"$WORK/programs/start-containerd" <<'C'
#!/bin/sh
# As nerdctl's containerd-rootless.sh does
data=$HOME/.local/share/containerd
export data
mkdir -p "$XDG_RUNTIME_DIR/containerd" "$data"
exec rootlesskit --state-dir="$XDG_RUNTIME_DIR/containerd-rootless" --net=host \
  --copy-up=/etc --copy-up=/run --copy-up=/var/lib --propagation=rslave sh -c '
    rm -f /run/containerd /run/nri /var/lib/containerd /etc/containerd
    mkdir -p /run/containerd /var/lib/containerd /etc/containerd
    mount --bind "$XDG_RUNTIME_DIR/containerd" /run/containerd
    mount --bind "$data" /var/lib/containerd
    exec containerd --config "$HOME/containerd.toml"'
C
cat >"$WORK/programs/n" <<'N'
#!/bin/sh
state=$XDG_RUNTIME_DIR/containerd-rootless
exec nsenter -t "$(cat "$state/child_pid")" -U --preserve-credentials -m \
  env ROOTLESSKIT_STATE_DIR="$state" nerdctl --snapshotter native --cgroup-manager none "$@"
N
chmod 755 "$WORK"/programs/*
# The engine of the user is nerdctl; rootless.sh loads images with podman.
rootless start "$suite" "$WORK/programs" podman || { check 'the user exists' false; exit; }

# user_file PATH: writes stdin to a file in the home directory
user_file() {
  file=$dir/$home/$1
  mkdir -p "${file%/*}"
  cat >"$file"
}
user_file .local/share/nri/plugins/10-adjust <"$PROGRAMS/examples/adjust"
chmod 755 "$dir/$home/.local/share/nri/plugins/10-adjust"
printf '[create]\nenv = { set = { ADDED = "10-adjust" } }\n' |
  user_file .config/nri/conf.d/10-adjust.conf
printf '[runtime]\npath = "%s"\n' "$engines/bin/$suite/runc" |
  user_file .config/nri-container-runtime/config.toml
user_file containerd.toml <<'T'
version = 2
disabled_plugins = [
  "io.containerd.grpc.v1.cri", "io.containerd.internal.v1.opt", "io.containerd.nri.v1.nri",
]
T
chown -R "$(stat -c %u:%g "$dir/$home")" "$dir/$home/.local" "$dir/$home/.config" \
  "$dir/$home/containerd.toml"

background "$here/../rootless.sh" as "$dir" start-containerd
within 20 as n version || { tail -5 "$LOG"; check 'containerd starts' false; exit; }
image "$WORK/layout"
tar -C "$WORK/layout" -cf "$dir/$home/image.tar" .
chmod 644 "$dir/$home/image.tar"
check 'the image is loaded' quiet as n load -i "$home/image.tar"
image=localhost/busybox:local runtime=$home/bin/nri-container-runtime
run() { as n run --pull never --net none "$@"; }
# shellcheck disable=SC2016 # the shell of the container expands
{
  check 'a container without the wrapper is not adjusted' equal - \
    "$(run --rm $image sh -c 'echo ${ADDED:--}')"
  check 'the container has the variable of the plugin' equal 10-adjust \
    "$(run --rm --runtime $runtime $image sh -c 'echo ${ADDED:--}')"
}
check 'a container stays' quiet run -d --name web --runtime $runtime $image sleep 1000
check 'the nrid of the user knows its name and engine' contains \
  "$(as nrictl containers | tr -s ' ')" 'web - nerdctl running'
check 'exec has the variable of the plugin' contains "$(as n exec web env)" ADDED=10-adjust
check 'the container is removed' quiet as n rm -f web
check 'explain knows it afterwards' contains "$(as nrictl explain web)" 'env[ADDED]'
check 'events have its end' contains "$(as nrictl events --container web)" removed

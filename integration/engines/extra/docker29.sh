#!/bin/sh
# docker29.sh: tests which NRI adapts the containers of Docker 29, which has NRI of its own: the
# wrapper's, unless the configuration leaves them to Docker. dockerd is private; DOCKER29=DIR is the
# directory of its docker, containerd and runc (default: PATH).
# shellcheck disable=SC2016 # the shells of containers expand the single-quoted text
[ -z "${DOCKER29:-}" ] || PATH=$DOCKER29:$PATH
# shellcheck source=integration/engines/extra/lib.sh
. "$(dirname "$0")/lib.sh"
PATH=$ENGINES/docker29:$PATH
need dockerd docker containerd busybox
"$REAL" features 2>/dev/null | grep -q '"time"' || {
  trap - EXIT
  rm -rf "$WORK"
  limitation "$REAL has no time namespaces, which Docker 29 uses (runc has them since 1.2)"
  exit 0
}
echo "$(dockerd --version), $(containerd --version | cut -d' ' -f3), $("$REAL" --version | head -1)"
image "$WORK/layout"
tar -C "$WORK/layout" -cf "$WORK/image.tar" .
private_docker() { docker -H "unix://$WORK/docker.sock" "$@"; }
ctl() { "$PROGRAMS/nrictl" --config "$WORK/config.toml" "$@"; }

# start_docker [JSON]: starts dockerd with these further members of daemon.json
start_docker() {
  cat >"$WORK/daemon.json" <<J
{
  "data-root": "$WORK/data", "exec-root": "$WORK/exec", "pidfile": "$WORK/dockerd.pid",
  "hosts": ["unix://$WORK/docker.sock"], "storage-driver": "vfs",
  "features": {"containerd-snapshotter": false},
  "runtimes": {"wrap": {"path": "$RUNTIME"}}, "default-runtime": "wrap",
  "iptables": false, "ip6tables": false, "bridge": "none",
  "exec-opts": ["native.cgroupdriver=cgroupfs"]${1:+, $1}
}
J
  background dockerd --config-file "$WORK/daemon.json"
  docker_pid=${started%% *}
  within 30 private_docker version || { tail -5 "$LOG"; check 'dockerd starts' false; exit; }
}
stop_docker() {
  kill "$docker_pid"
  within 30 has_ended "$docker_pid" || check 'dockerd ends' false
}
# run: runs a container that prints the variables that plugins have set
run() { private_docker run --rm --network none localhost/busybox:local sh -c 'echo $OURS $THEIRS'; }
# in_charge SEVERITY TEXT: whether doctor has this finding about dockerd
in_charge() {
  contains "$(ctl doctor | grep "in charge .*dockerd .*(process $docker_pid)")" "$1 " &&
    contains "$(ctl doctor | grep "(process $docker_pid)")" "$2"
}

life='RunPodSandbox CreateContainer ValidateContainerAdjustment PostCreateContainer'
life="$life StartContainer PostStartContainer"
end='StopContainer StopPodSandbox RemoveContainer RemovePodSandbox'
plugins '[create.env.set]
OURS = "ours"
'
start_docker
check 'the image is loaded' quiet private_docker load -q -i "$WORK/image.tar"
check 'a container is adjusted' equal ours "$(run)"
check 'the plugin is called once for each event' has_events 10 "$life $end"
check 'doctor says that ours adapts' in_charge ok 'ours adapts the containers'
stop_docker

# A plugin that Docker launches, whose adjustment shows that Docker's NRI is on.
mkdir -p "$WORK/docker-plugins" "$WORK/docker-conf"
cp "$PROGRAMS/examples/adjust" "$WORK/docker-plugins/10-theirs"
printf 'log = "%s"\n[create.env.set]\nTHEIRS = "theirs"\n' "$WORK/docker-journal" \
  >"$WORK/docker-conf/10-theirs.conf"
paths="\"plugin-path\": \"$WORK/docker-plugins\", \"plugin-config-path\": \"$WORK/docker-conf\""
# The standard socket, from which other engines' own NRI is detected.
socket=/var/run/nri/nri.sock
if grep -q "/run/nri/nri.sock$" /proc/net/unix; then
  limitation "$socket is in use, another socket is tested"
  socket=$WORK/docker-nri.sock
fi
clear_records
start_docker "\"nri-opts\": {\"enable\": true, \"socket-path\": \"$socket\", $paths}"
check 'with that NRI on, a container is adjusted by both' equal 'ours theirs' "$(run)"
check 'the plugin is still called once for each event' has_events 10 "$life $end"
check 'doctor notes that both adapt' in_charge warning 'both ours and its own NRI adapt'
check 'doctor names the socket and the directory of Docker' contains "$(ctl doctor)" \
  "Plugins connected to $socket or launched from $WORK/docker-plugins are called by Docker itself"

clear_records
printf '[engines]\ndocker = "engine"\n' >>"$WORK/config.toml"
check 'the configuration is reloaded' quiet ctl reload
check 'the configuration can leave the containers to Docker' equal theirs "$(run)"
check 'the plugin is not called for them' equal '' "$(events)"
check 'doctor says that Docker adapts' in_charge info 'its own NRI adapts its containers'
stop_docker

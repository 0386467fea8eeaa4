# shellcheck shell=sh
# kube.sh: functions for the container runtime interface on $SOCKET, sourced after lib.sh. The
# cgroup of a container is $CGROUP and its id. $share is the pid namespace mode: 0 for the pod, 1
# for the container.
share=0
# call METHOD [REQUEST]: calls a method of the engine
call() { cri "$SOCKET" "$@"; }
# id: prints the id of the container or pod in a response
id() { sed -n 's/.*"\(pod_sandbox_id\|container_id\)":"\([^"]*\)".*/\2/p'; }
# pod NAME: prints the configuration of a pod
pod() {
  cat <<J
{
  "metadata": {"name": "$1", "namespace": "space", "uid": "uid-$1"}, "labels": {"app": "$1"},
  "annotations": {"example.org/pod": "yes"}, "log_directory": "$WORK/logs",
  "linux": {
    "cgroup_parent": "/nri-extra",
    "security_context": {"namespace_options": {"network": 2, "pid": $share}}
  }
}
J
}
# create POD NAME COMMAND [TTY]: creates a container and prints its id
create() {
  image='localhost/busybox:local'
  request=$(
    cat <<J
{
  "pod_sandbox_id": "$1", "sandbox_config": $(pod one),
  "config": {
    "metadata": {"name": "$2"}, "labels": {"tier": "front"},
    "image": {"image": "$image", "user_specified_image": "$image"},
    "command": ["sh", "-c", "$3"], "log_path": "$2.log", "tty": ${4:-false},
    "linux": {
      "resources": {"memory_limit_in_bytes": 33554432},
      "security_context": {"namespace_options": {"network": 2, "pid": $share}}
    }
  }
}
J
  )
  call CreateContainer "$request" | id
}
# environment ID: prints the environment of a process that is executed in a container
environment() {
  call ExecSync "{\"container_id\":\"$1\",\"cmd\":[\"env\"]}" |
    sed 's/.*"stdout":"\([^"]*\)".*/\1/' | base64 -d
}
status() { call ContainerStatus "{\"container_id\":\"$1\"}"; }
exited_with_17() { status "$1" | grep -q '"exit_code":17\|"exit_code": 17'; }
# limit ID V1-CONTROLLER V1-FILE V2-FILE: prints the value of a cgroup file of a container
limit() {
  for file in "/sys/fs/cgroup/$2/nri-extra/$CGROUP$1/$3" "/sys/fs/cgroup/nri-extra/$CGROUP$1/$4"; do
    [ ! -e "$file" ] || cat "$file"
  done
}

mkdir -p "$WORK/cni" "$WORK/cni-bin" "$WORK/hooks.d" "$WORK/none"

# test_pod: tests a pod with containers that are adjusted, updated and removed; then a pod with a
# container that a plugin refuses
test_pod() {
  clear_records
  plugins '[filter]
name = "web"
annotations = { "example.org/pod" = "yes" }
[create.env.set]
ADDED = "for web"
[create.resources]
memory = 100663296
pids = 77
[update]
pids = 88
' "{\"Log\": \"$WORK/go-journal\"}"
  rm -f "$WORK/go-journal"
  p=$(call RunPodSandbox "{\"config\":$(pod one)}" | id)
  web=$(create "$p" web 'exec sleep 100')
  other=$(create "$p" other 'exit 17')
  check 'a container starts' quiet call StartContainer "{\"container_id\":\"$web\"}"
  check 'a second container starts' quiet call StartContainer "{\"container_id\":\"$other\"}"
  check 'the exit code of the second container is reported' within 10 exited_with_17 "$other"
  check 'the container is selected by its name and its pod' \
    contains "$(environment "$web")" 'ADDED=for web'
  check 'a plugin receives the name of the pod' \
    grep -q '"pod":{[^}]*"name":"one"' "$WORK/go-journal"
  check 'a plugin receives the labels of the pod' grep -q '"app":"one"' "$WORK/go-journal"
  check 'a plugin receives the labels of the container' grep -q '"tier":"front"' "$WORK/go-journal"
  check 'the memory limit is that of the plugin' equal 100663296 \
    "$(limit "$web" memory memory.limit_in_bytes memory.max)"
  check 'the pids limit is that of the plugin' equal 77 "$(limit "$web" pids pids.max pids.max)"
  check 'an update succeeds' quiet call UpdateContainerResources \
    "{\"container_id\":\"$web\",\"linux\":{\"memory_limit_in_bytes\":67108864}}"
  check 'the memory limit is that of the update' equal 67108864 \
    "$(limit "$web" memory memory.limit_in_bytes memory.max)"
  check 'the pids limit is the one that the plugin adds to an update' equal 88 \
    "$(limit "$web" pids pids.max pids.max)"
  tty=$(create "$p" tty 'tty; exit 3' true)
  call StartContainer "{\"container_id\":\"$tty\"}" >/dev/null
  check 'a container can have a terminal' within 10 grep -q '/dev/pts/' "$WORK/logs/tty.log"
  check 'the container with a terminal is removed' \
    quiet call RemoveContainer "{\"container_id\":\"$tty\"}"
  check 'the first container is stopped' \
    quiet call StopContainer "{\"container_id\":\"$web\",\"timeout\":1}"
  check 'the first container is removed' quiet call RemoveContainer "{\"container_id\":\"$web\"}"
  check 'the second container is removed' quiet call RemoveContainer "{\"container_id\":\"$other\"}"
  check 'the pod is stopped' quiet call StopPodSandbox "{\"pod_sandbox_id\":\"$p\"}"
  check 'the pod is removed' quiet call RemovePodSandbox "{\"pod_sandbox_id\":\"$p\"}"
  life='CreateContainer ValidateContainerAdjustment PostCreateContainer'
  life="$life StartContainer PostStartContainer"
  check 'the first container has all events' has_events 10 \
    "$life UpdateContainer PostUpdateContainer StopContainer RemoveContainer" "$web"
  check 'the second container has all events' has_events 10 \
    "$life StopContainer RemoveContainer" "$other"
  check 'the pod has each event once' has_events 10 \
    'RunPodSandbox StopPodSandbox RemovePodSandbox' '"event":"[A-Za-z]*PodSandbox"'
  check 'RunPodSandbox is the first event' contains "^$(events)$" '^RunPodSandbox CreateContainer'
  check 'RemovePodSandbox is the last event' contains "^$(events)$" ' RemovePodSandbox$'

  clear_records
  plugins '' '{"Rules": [{"Error": "no room on this node"}]}'
  p=$(call RunPodSandbox "{\"config\":$(pod one)}" | id)
  # cri-dockerd calls the runtime at the start of a container, CRI-O at its creation.
  refused=$(create "$p" web 'echo ran' 2>"$WORK/output")
  check 'a refused container is not created, or not started' equal '' \
    "${refused:+$(call StartContainer "{\"container_id\":\"$refused\"}" 2>"$WORK/output")}"
  check 'the message has the reason' contains "$(cat "$WORK/output")" 'no room on this node'
  check 'the pod of the refused container is stopped' \
    quiet call StopPodSandbox "{\"pod_sandbox_id\":\"$p\"}"
  check 'the pod of the refused container is removed' \
    quiet call RemovePodSandbox "{\"pod_sandbox_id\":\"$p\"}"
  check 'the refused container has its final events' has_events 10 \
    'RunPodSandbox CreateContainer StopContainer RemoveContainer StopPodSandbox RemovePodSandbox'
  [ -z "$refused" ] ||
    check 'the refused container is removed with its pod' not status "$refused" 2>/dev/null
  check 'nothing is left in the engine' equal '{}{}' "$(call ListContainers)$(call ListPodSandbox)"
}
mkdir -p "$WORK/logs"

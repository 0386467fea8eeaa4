# shellcheck shell=sh
# kube.sh: functions for the container runtime interface on $SOCKET, sourced after lib.sh. The
# cgroup of a container is $CGROUP and its id. $share is the pid namespace mode: 0 for the pod, 1
# for the container.
share=0
c() { cri "$SOCKET" "$@"; }
id() { sed -n 's/.*"\(pod_sandbox_id\|container_id\)":"\([^"]*\)".*/\2/p'; }
# pod NAME: prints the configuration of a pod
pod() {
  printf '{"metadata":{"name":"%s","namespace":"space","uid":"uid-%s"},"labels":{"app":"%s"},"annotations":{"example.org/pod":"yes"},
    "log_directory":"%s","linux":{"cgroup_parent":"/nri-extra","security_context":{"namespace_options":{"network":2,"pid":%s}}}}' "$1" "$1" "$1" "$WORK/logs" "$share"
}
# create POD NAME COMMAND [TTY]: creates a container and prints its id
create() {
  c CreateContainer "$(printf '{"pod_sandbox_id":"%s","sandbox_config":%s,"config":{"metadata":{"name":"%s"},"labels":{"tier":"front"},
    "image":{"image":"localhost/busybox:local","user_specified_image":"localhost/busybox:local"},"command":["sh","-c","%s"],"log_path":"%s.log","tty":%s,
    "linux":{"resources":{"memory_limit_in_bytes":33554432},"security_context":{"namespace_options":{"network":2,"pid":%s}}}}}' \
    "$1" "$(pod one)" "$2" "$3" "$2" "${4:-false}" "$share")" | id
}
inside() { c ExecSync "{\"container_id\":\"$1\",\"cmd\":[\"env\"]}" | sed 's/.*"stdout":"\([^"]*\)".*/\1/' | base64 -d; }
status() { c ContainerStatus "{\"container_id\":\"$1\"}"; }
has_exited() { status "$1" | grep -q '"exit_code":17\|"exit_code": 17'; }
# limit ID V1-CONTROLLER V1-FILE V2-FILE: prints the value of a cgroup file of a container
limit() {
  for file in "/sys/fs/cgroup/$2/nri-extra/$CGROUP$1/$3" "/sys/fs/cgroup/nri-extra/$CGROUP$1/$4"; do
    [ ! -e "$file" ] || cat "$file"
  done
}

mkdir -p "$WORK/cni" "$WORK/cni-bin" "$WORK/hooks.d" "$WORK/none"

# whole_pod: tests a pod with containers that are adjusted, updated and removed; then a pod with a
# container that a plugin refuses
whole_pod() {
  forget
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
  p=$(c RunPodSandbox "{\"config\":$(pod one)}" | id)
  web=$(create "$p" web 'exec sleep 100')
  other=$(create "$p" other 'exit 17')
  ok 'a container starts' quiet c StartContainer "{\"container_id\":\"$web\"}"
  ok 'another starts' quiet c StartContainer "{\"container_id\":\"$other\"}"
  ok 'its exit code arrives' within 10 has_exited "$other"
  ok 'a plugin knows name and pod' holds "$(inside "$web")" 'ADDED=for web'
  ok 'a plugin receives the name of the pod' grep -q '"pod":{[^}]*"name":"one"' "$WORK/go-journal"
  ok 'a plugin receives the labels of the pod' grep -q '"app":"one"' "$WORK/go-journal"
  ok 'a plugin receives the labels of the container' grep -q '"tier":"front"' "$WORK/go-journal"
  ok 'memory is what the plugin says' same 100663296 "$(limit "$web" memory memory.limit_in_bytes memory.max)"
  ok 'pids too' same 77 "$(limit "$web" pids pids.max pids.max)"
  ok 'an update' quiet c UpdateContainerResources "{\"container_id\":\"$web\",\"linux\":{\"memory_limit_in_bytes\":67108864}}"
  ok 'memory is what the engine says now' same 67108864 "$(limit "$web" memory memory.limit_in_bytes memory.max)"
  ok 'pids is what the plugin adds to an update' same 88 "$(limit "$web" pids pids.max pids.max)"
  tty=$(create "$p" tty 'tty; exit 3' true)
  c StartContainer "{\"container_id\":\"$tty\"}" >/dev/null
  ok 'a container with a terminal' within 10 grep -q '/dev/pts/' "$WORK/logs/tty.log"
  ok 'it goes' quiet c RemoveContainer "{\"container_id\":\"$tty\"}"
  ok 'stopped' quiet c StopContainer "{\"container_id\":\"$web\",\"timeout\":1}"
  ok 'removed' quiet c RemoveContainer "{\"container_id\":\"$web\"}"
  ok 'the other removed' quiet c RemoveContainer "{\"container_id\":\"$other\"}"
  ok 'the pod stopped' quiet c StopPodSandbox "{\"pod_sandbox_id\":\"$p\"}"
  ok 'the pod removed' quiet c RemovePodSandbox "{\"pod_sandbox_id\":\"$p\"}"
  one="CreateContainer ValidateContainerAdjustment PostCreateContainer StartContainer PostStartContainer"
  ok 'the first container has all events' hears 10 "$one UpdateContainer PostUpdateContainer StopContainer RemoveContainer" "$web"
  ok 'the other container has all events' hears 10 "$one StopContainer RemoveContainer" "$other"
  ok 'the pod has each event once' hears 10 "RunPodSandbox StopPodSandbox RemovePodSandbox" "\"event\":\"[A-Za-z]*PodSandbox\""
  ok 'around its containers' holds "x$(heard)x" "xRunPodSandbox CreateContainer"
  ok 'its end is the last' holds "x$(heard)x" " RemovePodSandboxx"

  forget
  plugins '' '{"Rules": [{"Error": "no room on this node"}]}'
  p=$(c RunPodSandbox "{\"config\":$(pod one)}" | id)
  # Where creating it calls no runtime, starting it does.
  refused=$(create "$p" web 'echo ran' 2>"$WORK/said")
  ok 'a refused container is not created, or not started' same '' "${refused:+$(c StartContainer "{\"container_id\":\"$refused\"}" 2>"$WORK/said")}"
  ok 'the message has the reason' holds "$(cat "$WORK/said")" 'no room on this node'
  ok 'the pod can go' quiet c StopPodSandbox "{\"pod_sandbox_id\":\"$p\"}"
  ok 'and goes' quiet c RemovePodSandbox "{\"pod_sandbox_id\":\"$p\"}"
  ok 'the refused container has its final events' hears 10 'RunPodSandbox CreateContainer StopContainer RemoveContainer StopPodSandbox RemovePodSandbox'
  [ -z "$refused" ] || ok 'the container is gone with it' not status "$refused" 2>/dev/null
  ok 'nothing is left in the engine' same '{}{}' "$(c ListContainers)$(c ListPodSandbox)"
}
mkdir -p "$WORK/logs"

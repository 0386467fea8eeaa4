package main

import (
	"fmt"

	"github.com/containerd/nri/pkg/api"
)

const (
	podUID      = "0e5ab56c-7a2f-4f3b-9d3f-2a4f0a3a9f11"
	podID       = "4b2e4e4c5f7f4a7d9c1f5b8a3e2d1c0b9a8f7e6d5c4b3a291807f6e5d4c3b2a1"
	containerID = "9a8f7e6d5c4b3a291807f6e5d4c3b2a14b2e4e4c5f7f4a7d9c1f5b8a3e2d1c0b"
	cgroup      = "/kubepods/burstable/pod" + podUID
)

// entries returns labels or annotations as Kubernetes has them.
func entries(kind string, count int) map[string]string {
	all := map[string]string{}
	for i := range count {
		all[fmt.Sprintf("%s.kubernetes.io/key-%d", kind, i)] = fmt.Sprintf("value-of-%s-%d", kind, i)
	}
	return all
}

// request returns a container of the size that a service in Kubernetes has: 25 variables, 14
// mounts.
func request() *api.CreateContainerRequest {
	pod := &api.PodSandbox{
		Id: podID, Name: "web-7d9c8b6f5-x2x9z", Uid: podUID, Namespace: "default",
		Labels: entries("label", 8), Annotations: entries("annotation", 6),
		RuntimeHandler: "runc", Pid: 4242, Ips: []string{"10.244.1.17"},
		Linux: &api.LinuxPodSandbox{CgroupParent: cgroup, CgroupsPath: cgroup},
	}
	c := &api.Container{
		Id: containerID, PodSandboxId: podID, Name: "web",
		State:  api.ContainerState_CONTAINER_CREATED,
		Labels: entries("label", 6), Annotations: entries("annotation", 8),
		Args: []string{"/usr/bin/nginx", "-g", "daemon off;"},
		Linux: &api.LinuxContainer{
			Namespaces: []*api.LinuxNamespace{
				{Type: "pid"}, {Type: "mount"}, {Type: "ipc", Path: "/proc/4242/ns/ipc"},
				{Type: "uts", Path: "/proc/4242/ns/uts"}, {Type: "network", Path: "/proc/4242/ns/net"},
			},
			Resources: &api.LinuxResources{
				Memory: &api.LinuxMemory{Limit: api.Int64(int64(512 << 20))},
				Cpu: &api.LinuxCPU{
					Shares: api.UInt64(uint64(512)), Quota: api.Int64(int64(100000)),
					Period: api.UInt64(uint64(100000)),
				},
			},
			OomScoreAdj: api.Int(990),
			CgroupsPath: cgroup + "/9a8f7e6d",
		},
	}
	for i := range 25 {
		c.Env = append(c.Env, fmt.Sprintf("SERVICE_%d_PORT_TCP_ADDR=10.96.0.%d", i, i))
	}
	volumes := "/var/lib/kubelet/pods/" + podUID + "/volumes/kubernetes.io~configmap/volume-"
	for i := range 14 {
		c.Mounts = append(c.Mounts, &api.Mount{
			Destination: fmt.Sprintf("/etc/volume-%d", i), Source: fmt.Sprintf("%s%d", volumes, i),
			Type: "bind", Options: []string{"rbind", "rprivate", "rw"},
		})
	}
	return &api.CreateContainerRequest{Pod: pod, Container: c}
}

// gostub-v0.3.0 is a test plugin with upstream's stub v0.3.0, whose handlers have no context and
// whose UpdateContainer does not have the requested resources.
package main

import (
	"versions/common"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"
)

type handlers struct{ *common.Plugin }

func main() {
	common.Main(func(p *common.Plugin) (any, []stub.Option) { return handlers{p}, nil })
}

func (h handlers) Configure(text, runtime, version string) (api.EventMask, error) {
	return h.Configured(text, runtime, version)
}

func (h handlers) Synchronize(
	pods []*api.PodSandbox, containers []*api.Container,
) ([]*api.ContainerUpdate, error) {
	h.Synchronized(pods, containers)
	return nil, nil
}

func (h handlers) Shutdown(*api.ShutdownRequest) { h.Record(common.Entry{Event: "Shutdown"}) }

func (h handlers) RunPodSandbox(pod *api.PodSandbox) error {
	return h.event("RunPodSandbox", pod, nil)
}

func (h handlers) StopPodSandbox(pod *api.PodSandbox) error {
	return h.event("StopPodSandbox", pod, nil)
}

func (h handlers) RemovePodSandbox(pod *api.PodSandbox) error {
	return h.event("RemovePodSandbox", pod, nil)
}

func (h handlers) CreateContainer(
	pod *api.PodSandbox, c *api.Container,
) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	return h.Create(pod, c)
}

func (h handlers) PostCreateContainer(pod *api.PodSandbox, c *api.Container) error {
	return h.event("PostCreateContainer", pod, c)
}

func (h handlers) StartContainer(pod *api.PodSandbox, c *api.Container) error {
	return h.event("StartContainer", pod, c)
}

func (h handlers) PostStartContainer(pod *api.PodSandbox, c *api.Container) error {
	return h.event("PostStartContainer", pod, c)
}

func (h handlers) UpdateContainer(
	pod *api.PodSandbox, c *api.Container,
) ([]*api.ContainerUpdate, error) {
	return nil, h.event("UpdateContainer", pod, c)
}

func (h handlers) PostUpdateContainer(pod *api.PodSandbox, c *api.Container) error {
	return h.event("PostUpdateContainer", pod, c)
}

func (h handlers) StopContainer(
	pod *api.PodSandbox, c *api.Container,
) ([]*api.ContainerUpdate, error) {
	return nil, h.event("StopContainer", pod, c)
}

func (h handlers) RemoveContainer(pod *api.PodSandbox, c *api.Container) error {
	return h.event("RemoveContainer", pod, c)
}

func (h handlers) event(name string, pod *api.PodSandbox, c *api.Container) error {
	h.Record(common.Received(name, pod, c))
	return nil
}

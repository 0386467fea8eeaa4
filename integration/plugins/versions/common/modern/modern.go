// Package modern has the handlers of the stub since v0.6: they have a context, and UpdateContainer
// has the requested resources.
package modern

import (
	"context"
	"sync"

	"versions/common"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"
	"github.com/containerd/ttrpc"
	"google.golang.org/protobuf/proto"
)

// Handlers of a plugin. Versions with more events embed them and add handlers.
type Handlers struct{ *common.Plugin }

// New sets the function that requests evictions. The protocol has a field for them in all versions,
// but the stub has no function that sets it: an interceptor adds the field to a request without
// updates.
func New(p *common.Plugin) (Handlers, []stub.Option) {
	var mutex sync.Mutex
	var pending []*api.ContainerEviction
	p.Evict = func(list []*api.ContainerEviction) error {
		mutex.Lock()
		pending = list
		mutex.Unlock()
		_, err := p.UpdateContainers(nil)
		return err
	}
	intercept := func(
		ctx context.Context, request *ttrpc.Request, response *ttrpc.Response,
		_ *ttrpc.UnaryClientInfo, call ttrpc.Invoker,
	) error {
		mutex.Lock()
		evict := pending
		pending = nil
		mutex.Unlock()
		if request.Method == "UpdateContainers" && evict != nil {
			field, err := proto.Marshal(&api.UpdateContainersRequest{Evict: evict})
			if err != nil {
				return err
			}
			// Concatenated messages decode as one message with the fields of all.
			request.Payload = append(request.Payload, field...)
		}
		return call(ctx, request, response)
	}
	return Handlers{p}, []stub.Option{
		stub.WithTTRPCOptions(
			[]ttrpc.ClientOpts{ttrpc.WithUnaryClientInterceptor(intercept)}, nil,
		),
	}
}

func (h Handlers) Configure(
	_ context.Context, text, runtime, version string,
) (api.EventMask, error) {
	return h.Configured(text, runtime, version)
}

func (h Handlers) Synchronize(
	_ context.Context, pods []*api.PodSandbox, containers []*api.Container,
) ([]*api.ContainerUpdate, error) {
	h.Synchronized(pods, containers)
	return nil, nil
}

func (h Handlers) Shutdown(context.Context) { h.Record(common.Entry{Event: "Shutdown"}) }

func (h Handlers) RunPodSandbox(_ context.Context, pod *api.PodSandbox) error {
	return h.event("RunPodSandbox", pod, nil)
}

func (h Handlers) StopPodSandbox(_ context.Context, pod *api.PodSandbox) error {
	return h.event("StopPodSandbox", pod, nil)
}

func (h Handlers) RemovePodSandbox(_ context.Context, pod *api.PodSandbox) error {
	return h.event("RemovePodSandbox", pod, nil)
}

func (h Handlers) CreateContainer(
	_ context.Context, pod *api.PodSandbox, c *api.Container,
) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	return h.Create(pod, c)
}

func (h Handlers) PostCreateContainer(
	_ context.Context, pod *api.PodSandbox, c *api.Container,
) error {
	return h.event("PostCreateContainer", pod, c)
}

func (h Handlers) StartContainer(_ context.Context, pod *api.PodSandbox, c *api.Container) error {
	return h.event("StartContainer", pod, c)
}

func (h Handlers) PostStartContainer(
	_ context.Context, pod *api.PodSandbox, c *api.Container,
) error {
	return h.event("PostStartContainer", pod, c)
}

func (h Handlers) UpdateContainer(
	_ context.Context, pod *api.PodSandbox, c *api.Container, r *api.LinuxResources,
) ([]*api.ContainerUpdate, error) {
	h.Record(common.Received("UpdateContainer", pod, c).WithResources(r))
	return nil, nil
}

func (h Handlers) PostUpdateContainer(
	_ context.Context, pod *api.PodSandbox, c *api.Container,
) error {
	return h.event("PostUpdateContainer", pod, c)
}

func (h Handlers) StopContainer(
	_ context.Context, pod *api.PodSandbox, c *api.Container,
) ([]*api.ContainerUpdate, error) {
	return nil, h.event("StopContainer", pod, c)
}

func (h Handlers) RemoveContainer(_ context.Context, pod *api.PodSandbox, c *api.Container) error {
	return h.event("RemoveContainer", pod, c)
}

func (h Handlers) event(name string, pod *api.PodSandbox, c *api.Container) error {
	h.Record(common.Received(name, pod, c))
	return nil
}

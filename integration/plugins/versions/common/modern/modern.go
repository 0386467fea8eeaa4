// Package modern has the handlers as they are since v0.6: with a context, and with the resources of an update. It compiles against those
// versions only.
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

// Handlers of a plugin; newer versions embed them and add their own.
type Handlers struct{ *common.Plugin }

// New makes the plugin able to ask for evictions. The stub has no function for that, though the protocol has a field in all versions: an
// interceptor adds it to an update that is empty otherwise.
func New(p *common.Plugin) (Handlers, []stub.Option) {
	var mutex sync.Mutex
	var waiting []*api.ContainerEviction
	p.Evict = func(list []*api.ContainerEviction) error {
		mutex.Lock()
		waiting = list
		mutex.Unlock()
		_, err := p.UpdateContainers(nil)
		return err
	}
	add := func(ctx context.Context, q *ttrpc.Request, r *ttrpc.Response, _ *ttrpc.UnaryClientInfo, call ttrpc.Invoker) error {
		mutex.Lock()
		evict := waiting
		waiting = nil
		mutex.Unlock()
		if q.Method == "UpdateContainers" && evict != nil {
			more, err := proto.Marshal(&api.UpdateContainersRequest{Evict: evict})
			if err != nil {
				return err
			}
			// Messages merge by concatenation.
			q.Payload = append(q.Payload, more...)
		}
		return call(ctx, q, r)
	}
	return Handlers{p}, []stub.Option{
		stub.WithTTRPCOptions([]ttrpc.ClientOpts{ttrpc.WithUnaryClientInterceptor(add)}, nil),
	}
}

func (h Handlers) Configure(_ context.Context, text, runtime, version string) (api.EventMask, error) {
	return h.Configured(text, runtime, version)
}

func (h Handlers) Synchronize(_ context.Context, pods []*api.PodSandbox, containers []*api.Container) ([]*api.ContainerUpdate, error) {
	h.Synchronized(pods, containers)
	return nil, nil
}

func (h Handlers) Shutdown(context.Context) { h.Hear(common.Entry{Event: "Shutdown"}) }

func (h Handlers) RunPodSandbox(_ context.Context, pod *api.PodSandbox) error {
	return h.event("RunPodSandbox", pod, nil)
}

func (h Handlers) StopPodSandbox(_ context.Context, pod *api.PodSandbox) error {
	return h.event("StopPodSandbox", pod, nil)
}

func (h Handlers) RemovePodSandbox(_ context.Context, pod *api.PodSandbox) error {
	return h.event("RemovePodSandbox", pod, nil)
}

func (h Handlers) CreateContainer(_ context.Context, pod *api.PodSandbox, c *api.Container) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	return h.Create(pod, c)
}

func (h Handlers) PostCreateContainer(_ context.Context, pod *api.PodSandbox, c *api.Container) error {
	return h.event("PostCreateContainer", pod, c)
}

func (h Handlers) StartContainer(_ context.Context, pod *api.PodSandbox, c *api.Container) error {
	return h.event("StartContainer", pod, c)
}

func (h Handlers) PostStartContainer(_ context.Context, pod *api.PodSandbox, c *api.Container) error {
	return h.event("PostStartContainer", pod, c)
}

func (h Handlers) UpdateContainer(_ context.Context, pod *api.PodSandbox, c *api.Container, r *api.LinuxResources) ([]*api.ContainerUpdate, error) {
	h.Hear(common.Heard("UpdateContainer", pod, c).With(r))
	return nil, nil
}

func (h Handlers) PostUpdateContainer(_ context.Context, pod *api.PodSandbox, c *api.Container) error {
	return h.event("PostUpdateContainer", pod, c)
}

func (h Handlers) StopContainer(_ context.Context, pod *api.PodSandbox, c *api.Container) ([]*api.ContainerUpdate, error) {
	return nil, h.event("StopContainer", pod, c)
}

func (h Handlers) RemoveContainer(_ context.Context, pod *api.PodSandbox, c *api.Container) error {
	return h.event("RemoveContainer", pod, c)
}

func (h Handlers) event(name string, pod *api.PodSandbox, c *api.Container) error {
	h.Hear(common.Heard(name, pod, c))
	return nil
}

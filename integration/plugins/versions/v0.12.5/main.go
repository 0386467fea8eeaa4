// gostub-v0.12.5 is a test plugin with upstream's stub v0.12.5, which adds updates of pods and
// validation.
package main

import (
	"context"

	"versions/common"
	"versions/common/modern"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"
)

type handlers struct{ modern.Handlers }

func main() {
	common.Main(func(p *common.Plugin) (any, []stub.Option) {
		h, options := modern.New(p)
		return handlers{h}, options
	})
}

func (h handlers) UpdatePodSandbox(
	_ context.Context, pod *api.PodSandbox, _, r *api.LinuxResources,
) error {
	h.Record(common.Received("UpdatePodSandbox", pod, nil).WithResources(r))
	return nil
}

func (h handlers) PostUpdatePodSandbox(_ context.Context, pod *api.PodSandbox) error {
	h.Record(common.Received("PostUpdatePodSandbox", pod, nil))
	return nil
}

func (h handlers) ValidateContainerAdjustment(
	_ context.Context, r *api.ValidateContainerAdjustmentRequest,
) error {
	h.Record(common.Received("ValidateContainerAdjustment", r.GetPod(), r.GetContainer()))
	return nil
}

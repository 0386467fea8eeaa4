// Command gowasm is a plugin for tests that is a WebAssembly module, built on the code that
// containerd/nri generates for such plugins. It sets the variable GO_WASM to the text of its
// configuration, and logs each event. It subscribes to no events, and so to all.
package main

import (
	"context"
	"errors"

	"github.com/containerd/nri/pkg/api"
)

type plugin struct {
	config string
}

func init() {
	api.RegisterPlugin(&plugin{})
}

func main() {}

func log(ctx context.Context, event string, id string) {
	api.NewHostFunctions().Log(ctx, &api.LogRequest{
		Msg:   event + " " + id,
		Level: api.LogRequest_LEVEL_WARN,
	})
}

func (p *plugin) Configure(
	ctx context.Context, req *api.ConfigureRequest,
) (*api.ConfigureResponse, error) {
	p.config = req.Config
	return nil, nil
}

func (p *plugin) Synchronize(
	ctx context.Context, req *api.SynchronizeRequest,
) (*api.SynchronizeResponse, error) {
	log(ctx, "Synchronize", "")
	return nil, nil
}

func (p *plugin) Shutdown(ctx context.Context, req *api.Empty) (*api.Empty, error) {
	log(ctx, "Shutdown", "")
	return nil, nil
}

func (p *plugin) CreateContainer(
	ctx context.Context, req *api.CreateContainerRequest,
) (*api.CreateContainerResponse, error) {
	log(ctx, "CreateContainer", req.Container.Id)
	if _, ok := req.Container.Annotations["refuse.example.org"]; ok {
		return nil, errors.New("not today")
	}
	adjust := &api.ContainerAdjustment{}
	adjust.AddEnv("GO_WASM", p.config)
	return &api.CreateContainerResponse{Adjust: adjust}, nil
}

func (p *plugin) PostCreateContainer(
	ctx context.Context, req *api.PostCreateContainerRequest,
) (*api.PostCreateContainerResponse, error) {
	log(ctx, "PostCreateContainer", req.Container.Id)
	return nil, nil
}

func (p *plugin) StartContainer(
	ctx context.Context, req *api.StartContainerRequest,
) (*api.StartContainerResponse, error) {
	log(ctx, "StartContainer", req.Container.Id)
	return nil, nil
}

func (p *plugin) PostStartContainer(
	ctx context.Context, req *api.PostStartContainerRequest,
) (*api.PostStartContainerResponse, error) {
	log(ctx, "PostStartContainer", req.Container.Id)
	return nil, nil
}

func (p *plugin) UpdateContainer(
	ctx context.Context, req *api.UpdateContainerRequest,
) (*api.UpdateContainerResponse, error) {
	log(ctx, "UpdateContainer", req.Container.Id)
	return nil, nil
}

func (p *plugin) PostUpdateContainer(
	ctx context.Context, req *api.PostUpdateContainerRequest,
) (*api.PostUpdateContainerResponse, error) {
	log(ctx, "PostUpdateContainer", req.Container.Id)
	return nil, nil
}

func (p *plugin) StopContainer(
	ctx context.Context, req *api.StopContainerRequest,
) (*api.StopContainerResponse, error) {
	log(ctx, "StopContainer", req.Container.Id)
	return nil, nil
}

func (p *plugin) RemoveContainer(
	ctx context.Context, req *api.RemoveContainerRequest,
) (*api.RemoveContainerResponse, error) {
	log(ctx, "RemoveContainer", req.Container.Id)
	return nil, nil
}

func (p *plugin) RunPodSandbox(
	ctx context.Context, req *api.RunPodSandboxRequest,
) (*api.RunPodSandboxResponse, error) {
	log(ctx, "RunPodSandbox", req.Pod.Id)
	return nil, nil
}

func (p *plugin) UpdatePodSandbox(
	ctx context.Context, req *api.UpdatePodSandboxRequest,
) (*api.UpdatePodSandboxResponse, error) {
	return nil, nil
}

func (p *plugin) PostUpdatePodSandbox(
	ctx context.Context, req *api.PostUpdatePodSandboxRequest,
) (*api.PostUpdatePodSandboxResponse, error) {
	return nil, nil
}

func (p *plugin) StopPodSandbox(
	ctx context.Context, req *api.StopPodSandboxRequest,
) (*api.StopPodSandboxResponse, error) {
	log(ctx, "StopPodSandbox", req.Pod.Id)
	return nil, nil
}

func (p *plugin) RemovePodSandbox(
	ctx context.Context, req *api.RemovePodSandboxRequest,
) (*api.RemovePodSandboxResponse, error) {
	log(ctx, "RemovePodSandbox", req.Pod.Id)
	return nil, nil
}

func (p *plugin) StateChange(ctx context.Context, req *api.StateChangeEvent) (*api.Empty, error) {
	return nil, errors.New("unexpected StateChange")
}

func (p *plugin) ValidateContainerAdjustment(
	ctx context.Context, req *api.ValidateContainerAdjustmentRequest,
) (*api.ValidateContainerAdjustmentResponse, error) {
	log(ctx, "ValidateContainerAdjustment", req.Container.Id)
	return nil, nil
}

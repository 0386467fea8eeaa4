package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"
)

type plugin struct {
	stub    stub.Stub
	journal journal
	fixed   bool // a flag set the configuration, so Configure does not change it

	mutex   sync.Mutex
	current *config
}

func (p *plugin) configure(text string) error {
	c, err := parse(text)
	if err != nil {
		return err
	}
	p.mutex.Lock()
	p.current = c
	p.mutex.Unlock()
	return p.journal.open(c.Log)
}

func (p *plugin) config() *config {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.current == nil {
		p.current = &config{}
	}
	return p.current
}

// reply returns the adjustment and the updates of the rules for an event.
func (p *plugin) reply(
	event string, c *api.Container,
) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	var adjust *api.ContainerAdjustment
	var all []*api.ContainerUpdate
	rules := p.config().Rules
	for i := range rules {
		r := &rules[i]
		if !r.matches(event, c) {
			continue
		}
		a, err := r.adjustment()
		if err != nil {
			return nil, nil, err
		}
		adjust = join(adjust, a)
		u, err := updates(append(r.Updates[:len(r.Updates):len(r.Updates)], r.turn()...))
		if err != nil {
			return nil, nil, err
		}
		for _, update := range u {
			if update.ContainerId == "" {
				update.ContainerId = c.GetId()
			}
		}
		all = append(all, u...)
	}
	return adjust, all, nil
}

// perform performs the effects of the rules for an event other than the reply: it requests updates,
// waits, exits or fails.
func (p *plugin) perform(event string, c *api.Container) error {
	for _, r := range p.config().Rules {
		if !r.matches(event, c) {
			continue
		}
		if r.Unsolicited != nil {
			if err := p.unsolicited(r.Unsolicited); err != nil {
				return err
			}
		}
		time.Sleep(time.Duration(r.Sleep * float64(time.Second)))
		await(r.Until)
		if r.Exit != nil {
			os.Exit(*r.Exit)
		}
		if r.Error != "" {
			return errors.New(r.Error)
		}
	}
	return nil
}

// await waits until the file exists; an empty name does not wait.
func await(file string) {
	for file != "" {
		if _, err := os.Stat(file); err == nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// request writes an event to the journal, performs the effects of its rules, and returns their
// reply.
func (p *plugin) request(
	e entry, c *api.Container,
) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	adjust, all, err := p.reply(e.Event, c)
	if err != nil {
		return nil, nil, err
	}
	if adjust != nil {
		e.Adjust = message(adjust)
	}
	for _, u := range all {
		e.Updates = append(e.Updates, message(u))
	}
	p.journal.write(e)
	return adjust, all, p.perform(e.Event, c)
}

// unsolicited requests updates, and writes the ids of the failed ones to the journal.
func (p *plugin) unsolicited(list []json.RawMessage) error {
	all, err := updates(list)
	if err != nil {
		return err
	}
	failed, err := p.stub.UpdateContainers(all)
	e := entry{Event: "UpdateContainers"}
	for _, u := range failed {
		e.Failed = append(e.Failed, u.GetContainerId())
	}
	if err != nil {
		e.Error = err.Error()
	}
	p.journal.write(e)
	return nil
}

// received makes the journal entry of an event.
func received(event string, pod *api.PodSandbox, c *api.Container) entry {
	return entry{
		Event: event, PodID: pod.GetId(), ContainerID: c.GetId(), Name: c.GetName(),
		Pid: c.GetPid(),
		Pod: message(pod), Container: message(c),
	}
}

// event handles an event whose reply has no content: it is empty or an error.
func (p *plugin) event(name string, pod *api.PodSandbox, c *api.Container) error {
	_, _, err := p.request(received(name, pod, c), c)
	return err
}

// Configure sets the configuration, unless a flag did, and subscribes to the configured events.
func (p *plugin) Configure(
	_ context.Context, text, runtime, version string,
) (api.EventMask, error) {
	if text != "" && !p.fixed {
		if err := p.configure(text); err != nil {
			return 0, err
		}
	}
	p.journal.write(entry{Event: "Configure", Config: text, Runtime: runtime + " " + version})
	return p.config().mask()
}

func (p *plugin) Synchronize(
	_ context.Context, pods []*api.PodSandbox, containers []*api.Container,
) ([]*api.ContainerUpdate, error) {
	e := entry{Event: "Synchronize"}
	for _, pod := range pods {
		e.Pods = append(e.Pods, pod.GetId())
	}
	for _, c := range containers {
		e.Containers = append(e.Containers, c.GetId())
	}
	_, u, err := p.request(e, nil)
	return u, err
}

func (p *plugin) Shutdown(context.Context) { p.journal.write(entry{Event: "Shutdown"}) }

func (p *plugin) RunPodSandbox(_ context.Context, pod *api.PodSandbox) error {
	return p.event("RunPodSandbox", pod, nil)
}

func (p *plugin) UpdatePodSandbox(
	_ context.Context, pod *api.PodSandbox, _, r *api.LinuxResources,
) error {
	e := received("UpdatePodSandbox", pod, nil)
	e.Resources = message(r)
	_, _, err := p.request(e, nil)
	return err
}

func (p *plugin) PostUpdatePodSandbox(_ context.Context, pod *api.PodSandbox) error {
	return p.event("PostUpdatePodSandbox", pod, nil)
}

func (p *plugin) StopPodSandbox(_ context.Context, pod *api.PodSandbox) error {
	return p.event("StopPodSandbox", pod, nil)
}

func (p *plugin) RemovePodSandbox(_ context.Context, pod *api.PodSandbox) error {
	return p.event("RemovePodSandbox", pod, nil)
}

func (p *plugin) CreateContainer(
	_ context.Context, pod *api.PodSandbox, c *api.Container,
) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	return p.request(received("CreateContainer", pod, c), c)
}

func (p *plugin) PostCreateContainer(
	_ context.Context, pod *api.PodSandbox, c *api.Container,
) error {
	return p.event("PostCreateContainer", pod, c)
}

func (p *plugin) StartContainer(_ context.Context, pod *api.PodSandbox, c *api.Container) error {
	return p.event("StartContainer", pod, c)
}

func (p *plugin) PostStartContainer(
	_ context.Context, pod *api.PodSandbox, c *api.Container,
) error {
	return p.event("PostStartContainer", pod, c)
}

func (p *plugin) UpdateContainer(
	_ context.Context, pod *api.PodSandbox, c *api.Container, r *api.LinuxResources,
) ([]*api.ContainerUpdate, error) {
	e := received("UpdateContainer", pod, c)
	e.Resources = message(r)
	_, u, err := p.request(e, c)
	return u, err
}

func (p *plugin) PostUpdateContainer(
	_ context.Context, pod *api.PodSandbox, c *api.Container,
) error {
	return p.event("PostUpdateContainer", pod, c)
}

func (p *plugin) StopContainer(
	_ context.Context, pod *api.PodSandbox, c *api.Container,
) ([]*api.ContainerUpdate, error) {
	_, u, err := p.request(received("StopContainer", pod, c), c)
	return u, err
}

func (p *plugin) RemoveContainer(_ context.Context, pod *api.PodSandbox, c *api.Container) error {
	return p.event("RemoveContainer", pod, c)
}

func (p *plugin) ValidateContainerAdjustment(
	_ context.Context, r *api.ValidateContainerAdjustmentRequest,
) error {
	e := received("ValidateContainerAdjustment", r.GetPod(), r.GetContainer())
	e.Adjust = message(r.GetAdjust())
	_, _, err := p.request(e, r.GetContainer())
	return err
}

// Package common is all of the plugin that does not depend on the version of upstream's stub: it is compiled against whichever version
// the module that uses it requires. What the handlers look like is in the versions' own main.go, and in package modern.
package common

import (
	"bytes"
	"encoding/json"
	"errors"
	"sync"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// config is what the plugin is told to do: a part of what ../../go understands.
type config struct {
	// Log is the journal's file, where no flag gives one (a launched plugin has no flags).
	Log string
	// Rules: each one that matches adds what it says.
	Rules []rule
}

type rule struct {
	// ID of the container whose creation it is for; empty: any.
	ID string
	// Adjust is a ContainerAdjustment in the protocol's JSON form.
	Adjust json.RawMessage
	// Updates are ContainerUpdates that are returned.
	Updates []json.RawMessage
}

// Plugin is told by a configuration what to do, and journals what it hears.
type Plugin struct {
	// Evict asks for evictions; nil where the version has no way to.
	Evict func([]*api.ContainerEviction) error

	stub    stub.Stub
	journal journal
	fixed   bool // --config was given

	mutex sync.Mutex
	told  config
}

func (p *Plugin) configure(text string) error {
	var c config
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.DisallowUnknownFields()
	if err := d.Decode(&c); err != nil {
		return err
	}
	p.mutex.Lock()
	p.told = c
	p.mutex.Unlock()
	return p.journal.open(c.Log)
}

// Configured keeps the configuration where it was not given at the start.
func (p *Plugin) Configured(text, runtime, version string) (api.EventMask, error) {
	if text != "" && !p.fixed {
		if err := p.configure(text); err != nil {
			return 0, err
		}
	}
	p.Hear(Entry{Event: "Configure", Config: text, Runtime: runtime + " " + version})
	return 0, nil // all that we have handlers for
}

// Synchronized journals what is there.
func (p *Plugin) Synchronized(pods []*api.PodSandbox, containers []*api.Container) {
	e := Entry{Event: "Synchronize"}
	for _, pod := range pods {
		e.Pods = append(e.Pods, pod.GetId())
	}
	for _, c := range containers {
		e.Containers = append(e.Containers, c.GetId())
	}
	p.Hear(e)
}

// Hear journals.
func (p *Plugin) Hear(e Entry) { p.journal.write(e) }

// Create journals a creation and returns what the rules say.
func (p *Plugin) Create(pod *api.PodSandbox, c *api.Container) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	p.Hear(Heard("CreateContainer", pod, c))
	p.mutex.Lock()
	rules := p.told.Rules
	p.mutex.Unlock()
	adjust := &api.ContainerAdjustment{}
	var all []*api.ContainerUpdate
	for _, r := range rules {
		if r.ID != "" && r.ID != c.GetId() {
			continue
		}
		if r.Adjust != nil {
			a := &api.ContainerAdjustment{}
			if err := protojson.Unmarshal(r.Adjust, a); err != nil {
				return nil, nil, err
			}
			proto.Merge(adjust, a)
		}
		u, err := updates(r.Updates)
		if err != nil {
			return nil, nil, err
		}
		all = append(all, u...)
	}
	return adjust, all, nil
}

// unsolicited asks for updates, and journals which failed.
func (p *Plugin) unsolicited(list []json.RawMessage) error {
	all, err := updates(list)
	if err != nil {
		return err
	}
	failed, err := p.UpdateContainers(all)
	e := Entry{Event: "UpdateContainers"}
	for _, u := range failed {
		e.Failed = append(e.Failed, u.GetContainerId())
	}
	if err != nil {
		e.Error = err.Error()
	}
	p.Hear(e)
	return nil
}

// UpdateContainers is the stub's.
func (p *Plugin) UpdateContainers(list []*api.ContainerUpdate) ([]*api.ContainerUpdate, error) {
	return p.stub.UpdateContainers(list)
}

func (p *Plugin) evict(list []json.RawMessage) error {
	if p.Evict == nil {
		return errors.New("this version of the stub cannot ask for evictions")
	}
	var all []*api.ContainerEviction
	for _, text := range list {
		e := &api.ContainerEviction{}
		if err := protojson.Unmarshal(text, e); err != nil {
			return err
		}
		all = append(all, e)
	}
	e := Entry{Event: "Evict"}
	if err := p.Evict(all); err != nil {
		e.Error = err.Error()
	}
	p.Hear(e)
	return nil
}

func updates(list []json.RawMessage) ([]*api.ContainerUpdate, error) {
	var all []*api.ContainerUpdate
	for _, text := range list {
		u := &api.ContainerUpdate{}
		if err := protojson.Unmarshal(text, u); err != nil {
			return nil, err
		}
		all = append(all, u)
	}
	return all, nil
}

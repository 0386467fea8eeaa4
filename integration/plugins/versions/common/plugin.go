// Package common has the parts of the plugin that compile with every version of upstream's stub:
// the configuration, the journal and the commands of stdin. Signatures of handlers differ between
// versions: they are in the main.go of each version, and in the package modern.
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

// config is the configuration of the plugin, a subset of that of the plugin in ../../go.
type config struct {
	// Log is the file of the journal, unless a flag sets it (a launched plugin has no flags).
	Log string
	// Rules for creations; the effects of all matching rules are combined.
	Rules []rule
}

// rule describes the reply to CreateContainer.
type rule struct {
	// ID of the container; empty matches all containers.
	ID string
	// Adjust is a ContainerAdjustment in the JSON form of the protocol.
	Adjust json.RawMessage
	// Updates are the ContainerUpdates of the reply.
	Updates []json.RawMessage
}

// Plugin replies as its configuration says, and writes each event to its journal.
type Plugin struct {
	// Evict requests evictions; nil if the version of the stub cannot.
	Evict func([]*api.ContainerEviction) error

	stub    stub.Stub
	journal journal
	fixed   bool // a flag set the configuration, so Configure does not change it

	mutex   sync.Mutex
	current config
}

func (p *Plugin) configure(text string) error {
	var c config
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.DisallowUnknownFields()
	if err := d.Decode(&c); err != nil {
		return err
	}
	p.mutex.Lock()
	p.current = c
	p.mutex.Unlock()
	return p.journal.open(c.Log)
}

// Configured handles Configure: it sets the configuration, unless a flag did.
func (p *Plugin) Configured(text, runtime, version string) (api.EventMask, error) {
	if text != "" && !p.fixed {
		if err := p.configure(text); err != nil {
			return 0, err
		}
	}
	p.Record(Entry{Event: "Configure", Config: text, Runtime: runtime + " " + version})
	return 0, nil // subscribes to all events with a handler
}

// Synchronized writes the ids of the existing pods and containers to the journal.
func (p *Plugin) Synchronized(pods []*api.PodSandbox, containers []*api.Container) {
	e := Entry{Event: "Synchronize"}
	for _, pod := range pods {
		e.Pods = append(e.Pods, pod.GetId())
	}
	for _, c := range containers {
		e.Containers = append(e.Containers, c.GetId())
	}
	p.Record(e)
}

// Record writes an entry to the journal.
func (p *Plugin) Record(e Entry) { p.journal.write(e) }

// Create handles CreateContainer: it writes the event to the journal and returns the reply of the
// rules.
func (p *Plugin) Create(
	pod *api.PodSandbox, c *api.Container,
) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	p.Record(Received("CreateContainer", pod, c))
	p.mutex.Lock()
	rules := p.current.Rules
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

// unsolicited requests updates, and writes the ids of the failed ones to the journal.
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
	p.Record(e)
	return nil
}

// UpdateContainers requests updates and returns the failed ones.
func (p *Plugin) UpdateContainers(list []*api.ContainerUpdate) ([]*api.ContainerUpdate, error) {
	return p.stub.UpdateContainers(list)
}

func (p *Plugin) evict(list []json.RawMessage) error {
	if p.Evict == nil {
		return errors.New("this version of the stub cannot request evictions")
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
	p.Record(e)
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

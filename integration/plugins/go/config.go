package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path"

	"github.com/containerd/nri/pkg/api"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// config is the configuration of the plugin.
type config struct {
	// Log is the file of the journal, unless a flag sets it (a launched plugin has no flags).
	Log string
	// Events to subscribe to, in the format of upstream's ParseEventMask; none means all.
	Events []string
	// Rules of the plugin; the effects of all matching rules are combined.
	Rules []rule
}

// rule describes the reply to an event. Messages are in the JSON form of the protocol, so that
// every field can be set.
type rule struct {
	// Event of the rule: Synchronize, CreateContainer, UpdateContainer, StopContainer, or any
	// other event, for which only Unsolicited, Sleep, Until, Exit and Error have an effect.
	// Default: CreateContainer.
	Event string
	// ID and Name are patterns (path.Match) for the container's id and name; empty matches all.
	ID, Name string
	// Adjust is a ContainerAdjustment.
	Adjust json.RawMessage
	// Updates are ContainerUpdates of the reply. One without an id is for the container of the
	// event.
	Updates []json.RawMessage
	// Turns are more ContainerUpdates: the first list for the first matching event, and so on.
	Turns [][]json.RawMessage
	// Unsolicited are ContainerUpdates that the handler requests before it replies.
	Unsolicited []json.RawMessage
	// Sleep is the number of seconds before the reply.
	Sleep float64
	// Until is a file: the reply waits until it exists.
	Until string
	// Exit makes the process exit with this code instead of a reply.
	Exit *int
	// Error is the error of the reply.
	Error string
}

func parse(text string) (*config, error) {
	c := &config{}
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.DisallowUnknownFields()
	if err := d.Decode(c); err != nil {
		return nil, err
	}
	for i, r := range c.Rules {
		if r.Event == "" {
			c.Rules[i].Event = "CreateContainer"
		}
		if _, err := r.adjustment(); err != nil {
			return nil, fmt.Errorf("rule %d: %w", i, err)
		}
		for _, list := range append([][]json.RawMessage{r.Updates, r.Unsolicited}, r.Turns...) {
			if _, err := updates(list); err != nil {
				return nil, fmt.Errorf("rule %d: %w", i, err)
			}
		}
	}
	return c, nil
}

// turn removes and returns the first list of Turns.
func (r *rule) turn() []json.RawMessage {
	if len(r.Turns) == 0 {
		return nil
	}
	first := r.Turns[0]
	r.Turns = r.Turns[1:]
	return first
}

func (c *config) mask() (api.EventMask, error) {
	return api.ParseEventMask(c.Events...)
}

func (r *rule) matches(event string, c *api.Container) bool {
	return r.Event == event && glob(r.ID, c.GetId()) && glob(r.Name, c.GetName())
}

func glob(pattern, text string) bool {
	ok, err := path.Match(pattern, text)
	return pattern == "" || (ok && err == nil)
}

// adjustment returns the adjustment of the rule, or nil.
func (r *rule) adjustment() (*api.ContainerAdjustment, error) {
	if r.Adjust == nil {
		return nil, nil
	}
	a := &api.ContainerAdjustment{}
	return a, protojson.Unmarshal(r.Adjust, a)
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

// join merges a second adjustment into a first one: lists are appended, other fields replaced.
func join(a, b *api.ContainerAdjustment) *api.ContainerAdjustment {
	if a == nil {
		return b
	}
	proto.Merge(a, b)
	return a
}

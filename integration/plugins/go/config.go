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

// config is what the plugin is told to do.
type config struct {
	// Log is the journal's file, where no flag gives one (a launched plugin has no flags).
	Log string
	// Events to subscribe to, as upstream's ParseEventMask takes them; none: all.
	Events []string
	// Rules: each one that matches adds what it says.
	Rules []rule
}

// rule says what to do at an event. Messages are written in the protocol's JSON form, so that every field can be used.
type rule struct {
	// Event it is for: Synchronize, CreateContainer, UpdateContainer, StopContainer, or any other name where only Sleep, Until, Exit,
	// Error make sense. Default: CreateContainer.
	Event string
	// ID, Name: patterns (path.Match) for the container's id and name; empty matches all.
	ID, Name string
	// Adjust is a ContainerAdjustment.
	Adjust json.RawMessage
	// Updates are ContainerUpdates that are returned. One without a container's id is for the event's own.
	Updates []json.RawMessage
	// Turns are further ones: the first list for the first event that matches, and so on.
	Turns [][]json.RawMessage
	// Unsolicited are ContainerUpdates that are asked for from inside the handler, before it answers.
	Unsolicited []json.RawMessage
	// Sleep: seconds before the answer.
	Sleep float64
	// Until is a file: there is no answer before it exists.
	Until string
	// Exit: the process ends with this code in place of an answer.
	Exit *int
	// Error is answered.
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

// turn is what the rule has for this event alone.
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

// adjustment is nil where the rule has none.
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

// join lays a second adjustment over a first one: lists grow, the rest is replaced.
func join(a, b *api.ContainerAdjustment) *api.ContainerAdjustment {
	if a == nil {
		return b
	}
	proto.Merge(a, b)
	return a
}

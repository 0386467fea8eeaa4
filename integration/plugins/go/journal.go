package main

import (
	"encoding/json"
	"os"
	"sync"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// journal is a file of JSON lines. Each line is written by one call, so that a reader never sees a
// part of it.
type journal struct {
	mutex sync.Mutex
	file  *os.File
	early [][]byte // lines written before the path of the file was known
}

// entry is an event in the journal. Messages are in the JSON form of the protocol.
type entry struct {
	Time        string          `json:"time"`
	Event       string          `json:"event"`
	PodID       string          `json:"pod_id,omitempty"`
	ContainerID string          `json:"container_id,omitempty"`
	Name        string          `json:"name,omitempty"`
	Pid         uint32          `json:"pid,omitempty"`
	Pod         json.RawMessage `json:"pod,omitempty"`
	Container   json.RawMessage `json:"container,omitempty"`
	Resources   json.RawMessage `json:"resources,omitempty"`
	Pods        []string        `json:"pods,omitempty"`
	Containers  []string        `json:"containers,omitempty"`
	Adjust      json.RawMessage `json:"adjust,omitempty"`
	// Updates of the reply.
	Updates []json.RawMessage `json:"updates,omitempty"`
	Failed  []string          `json:"failed,omitempty"`
	Config  string            `json:"config,omitempty"`
	Runtime string            `json:"runtime,omitempty"`
	Error   string            `json:"error,omitempty"`
}

func (j *journal) open(path string) error {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	if path == "" || j.file != nil {
		return nil
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	j.file = f
	for _, line := range j.early {
		_, _ = f.Write(line)
	}
	j.early = nil
	return nil
}

func (j *journal) write(e entry) {
	e.Time = time.Now().UTC().Format(time.RFC3339Nano)
	line, err := json.Marshal(e)
	if err != nil {
		line = []byte(`{"event":"Unwritable"}`)
	}
	line = append(line, '\n')
	j.mutex.Lock()
	defer j.mutex.Unlock()
	if j.file == nil {
		j.early = append(j.early, line)
		return
	}
	_, _ = j.file.Write(line)
}

func message(m proto.Message) json.RawMessage {
	if m == nil || !m.ProtoReflect().IsValid() {
		return nil
	}
	text, err := protojson.Marshal(m)
	if err != nil {
		return nil
	}
	return text
}

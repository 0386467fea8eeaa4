package common

import (
	"encoding/json"
	"os"
	"sync"
	"time"

	"github.com/containerd/nri/pkg/api"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// Entry is an event in the journal, in the format of the plugin in ../../go. Messages are in the
// JSON form of the protocol.
type Entry struct {
	Time        string          `json:"time"`
	Event       string          `json:"event"`
	PodID       string          `json:"pod_id,omitempty"`
	ContainerID string          `json:"container_id,omitempty"`
	Name        string          `json:"name,omitempty"`
	Pid         uint32          `json:"pid,omitempty"`
	Container   json.RawMessage `json:"container,omitempty"`
	Resources   json.RawMessage `json:"resources,omitempty"`
	Pods        []string        `json:"pods,omitempty"`
	Containers  []string        `json:"containers,omitempty"`
	Failed      []string        `json:"failed,omitempty"`
	Config      string          `json:"config,omitempty"`
	Runtime     string          `json:"runtime,omitempty"`
	Error       string          `json:"error,omitempty"`
}

// Received makes the entry of an event of a pod, or of a container of the pod.
func Received(event string, pod *api.PodSandbox, c *api.Container) Entry {
	e := Entry{
		Event: event, PodID: pod.GetId(), ContainerID: c.GetId(), Name: c.GetName(),
		Pid: c.GetPid(),
	}
	if c != nil {
		e.Container = message(c)
	}
	return e
}

// WithResources adds the resources of an update.
func (e Entry) WithResources(r *api.LinuxResources) Entry {
	if r != nil {
		e.Resources = message(r)
	}
	return e
}

func message(m proto.Message) json.RawMessage {
	text, err := protojson.Marshal(m)
	if err != nil {
		return nil
	}
	return text
}

// journal is a file of JSON lines. Each line is written by one call, so that a reader never sees a
// part of it.
type journal struct {
	mutex sync.Mutex
	file  *os.File
	early [][]byte // lines written before the path of the file was known
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

func (j *journal) write(e Entry) {
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

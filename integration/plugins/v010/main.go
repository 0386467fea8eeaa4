// A plugin of NRI v0.1, made with the module of that version: takes the CPU quota from containers
// of a class. Its configuration names the class, {"class": "ls"}; a container has it by the
// annotation qos.class.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/containerd/nri/skel"
	types "github.com/containerd/nri/types/v1"
)

type clearQuota struct{}

func (clearQuota) Type() string {
	return "clearquota"
}

func (clearQuota) Invoke(_ context.Context, request *types.Request) (*types.Result, error) {
	result := request.NewResult("clearquota")
	var conf struct {
		Class string `json:"class"`
	}
	if err := json.Unmarshal(request.Conf, &conf); err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	// The pod has no process yet.
	if request.State != types.Create || request.Pid == 0 {
		return result, nil
	}
	if request.Spec.Annotations["qos.class"] != conf.Class {
		return result, nil
	}
	return result, clear(request.Pid)
}

// clear removes the quota of the cgroup that a process is in, of version 1 or 2.
func clear(pid int) error {
	lines, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return err
	}
	for _, line := range strings.Split(string(lines), "\n") {
		fields := strings.SplitN(line, ":", 3)
		if len(fields) < 3 {
			continue
		}
		for _, controller := range strings.Split(fields[1], ",") {
			switch controller {
			case "cpu":
				file := filepath.Join("/sys/fs/cgroup/cpu", fields[2], "cpu.cfs_quota_us")
				return os.WriteFile(file, []byte("-1"), 0o644)
			case "":
				file := filepath.Join("/sys/fs/cgroup", fields[2], "cpu.max")
				if _, err := os.Stat(file); err == nil {
					return os.WriteFile(file, []byte("max"), 0o644)
				}
			}
		}
	}
	return fmt.Errorf("process %d has no CPU cgroup", pid)
}

func main() {
	if err := skel.Run(context.Background(), clearQuota{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// plugin is the load of the measurements: a plugin on upstream's stub that sets an annotation and a
// variable of each container, and can take time for it.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"
)

type plugin struct {
	name  string
	delay time.Duration
}

func (p *plugin) Configure(context.Context, string, string, string) (stub.EventMask, error) {
	return api.ParseEventMask("CreateContainer")
}

func (p *plugin) CreateContainer(
	context.Context, *api.PodSandbox, *api.Container,
) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	if p.delay > 0 {
		time.Sleep(p.delay)
	}
	adjust := &api.ContainerAdjustment{}
	adjust.AddAnnotation("bench.example/"+p.name, "value")
	adjust.AddEnv("BENCH_"+p.name, "value")
	return adjust, nil, nil
}

func main() {
	idx := flag.String("idx", "", "plugin index, two digits")
	name := flag.String("name", "", "plugin name")
	socket := flag.String("socket", "", "NRI socket")
	delay := flag.Duration("delay", 0, "time that each call takes")
	flag.Parse()
	s, err := stub.New(&plugin{*name, *delay},
		stub.WithPluginIdx(*idx), stub.WithPluginName(*name), stub.WithSocketPath(*socket))
	if err == nil {
		err = s.Run(context.Background())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "plugin:", err)
		os.Exit(1)
	}
}

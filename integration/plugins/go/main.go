// gostub is an NRI plugin for tests, written against upstream's Go stub and told by a JSON document (config.go) what to do. It
// writes one JSON line for each thing that it hears (journal.go). It works launched and external. It decides nothing by itself.
//
// Commands come through stdin, a JSON object a line:
//
//	{"update": [ContainerUpdate, ...]}   an unsolicited update; the outcome is journaled as UpdateContainers
//	{"config": {...}}                    another configuration from now on
//	{"stop": true}                       leaves
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"
)

func main() {
	idx := flag.String("idx", "", "plugin index, two digits")
	name := flag.String("name", "", "plugin name")
	socket := flag.String("socket", "", "NRI socket")
	log := flag.String("log", "", "file that the journal is appended to")
	config := flag.String("config", "", "JSON configuration; where there is none, what Configure brings")
	flag.Parse()
	if err := run(*idx, *name, *socket, *log, *config); err != nil {
		fmt.Fprintln(os.Stderr, "gostub:", err)
		os.Exit(1)
	}
}

func run(idx, name, socket, log, config string) error {
	p := &plugin{}
	if config != "" {
		text, err := os.ReadFile(config)
		if err != nil {
			return err
		}
		if err := p.configure(string(text)); err != nil {
			return fmt.Errorf("%s: %w", config, err)
		}
		p.fixed = true
	}
	if err := p.journal.open(log); err != nil {
		return err
	}
	opts := []stub.Option{stub.WithOnClose(func() { p.journal.write(entry{Event: "Closed"}) })}
	if idx != "" {
		opts = append(opts, stub.WithPluginIdx(idx))
	}
	if name != "" {
		opts = append(opts, stub.WithPluginName(name))
	}
	if socket != "" {
		opts = append(opts, stub.WithSocketPath(socket))
	}
	s, err := stub.New(p, opts...)
	if err != nil {
		return err
	}
	p.stub = s
	told := make(chan struct{})
	go func() { p.commands(); close(told) }()
	err = s.Start(context.Background())
	if err != nil {
		p.journal.write(entry{Event: "Failed", Error: err.Error()})
		return err
	}
	s.Wait()
	if os.Getenv(api.PluginSocketEnvVar) == "" {
		// Nobody's child: it stays until its stdin ends, so that a test can tell whether somebody killed it.
		<-told
	}
	return nil
}

// commands does what stdin says, until it ends.
func (p *plugin) commands() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var c struct {
			Update []json.RawMessage
			Config json.RawMessage
			Stop   bool
		}
		err := json.Unmarshal(lines.Bytes(), &c)
		switch {
		case err != nil:
		case c.Stop:
			p.journal.write(entry{Event: "Stopped"})
			os.Exit(0)
		case c.Config != nil:
			err = p.configure(string(c.Config))
			if err == nil {
				p.journal.write(entry{Event: "Reconfigured"})
			}
		case c.Update != nil:
			err = p.unsolicited(c.Update)
		}
		if err != nil {
			p.journal.write(entry{Event: "BadCommand", Error: err.Error()})
		}
	}
}

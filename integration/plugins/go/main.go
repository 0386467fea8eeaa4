// gostub is an NRI plugin for tests, built on upstream's Go stub and controlled by a JSON
// configuration (config.go). It writes one JSON line for each event that it receives (journal.go).
// It works both as a launched and as an external plugin.
//
// It reads commands from stdin, one JSON object a line:
//
//	{"update": [ContainerUpdate, ...]}   requests updates; result: UpdateContainers
//	{"config": {...}}                    replaces the configuration
//	{"stop": true}                       exits
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
	"google.golang.org/protobuf/encoding/protojson"
)

func main() {
	idx := flag.String("idx", "", "plugin index, two digits")
	name := flag.String("name", "", "plugin name")
	socket := flag.String("socket", "", "NRI socket")
	log := flag.String("log", "", "file that the journal is appended to")
	config := flag.String("config", "", "JSON configuration file (default: that of Configure)")
	policy := flag.String("failure-policy", "", "FailurePolicy in the JSON form of the protocol")
	flag.Parse()
	if err := run(*idx, *name, *socket, *log, *config, *policy); err != nil {
		fmt.Fprintln(os.Stderr, "gostub:", err)
		os.Exit(1)
	}
}

func run(idx, name, socket, log, config, policy string) error {
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
	if policy != "" {
		f := &api.FailurePolicy{}
		if err := protojson.Unmarshal([]byte(policy), f); err != nil {
			return fmt.Errorf("failure policy: %w", err)
		}
		opts = append(opts, stub.WithFailurePolicy(f))
	}
	s, err := stub.New(p, opts...)
	if err != nil {
		return err
	}
	p.stub = s
	done := make(chan struct{})
	go func() { p.commands(); close(done) }()
	err = s.Start(context.Background())
	if err != nil {
		p.journal.write(entry{Event: "Failed", Error: err.Error()})
		return err
	}
	s.Wait()
	if os.Getenv(api.PluginSocketEnvVar) == "" {
		// An external plugin runs until its stdin is closed, so that a test can detect
		// whether it was killed.
		<-done
	}
	return nil
}

// commands reads and executes the commands of stdin.
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

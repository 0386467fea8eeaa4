package common

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

// Main runs a plugin with the handlers and options that `version` returns for one version of the
// stub. The flags are those of the plugin in ../../go. The plugin reads commands from stdin, one
// JSON object a line:
//
//	{"update": [ContainerUpdate, ...]}   requests updates; writes UpdateContainers to the journal
//	{"evict": [ContainerEviction, ...]}  requests evictions; writes Evict, or BadCommand if the
//	                                     version has no evictions
func Main(version func(*Plugin) (any, []stub.Option)) {
	idx := flag.String("idx", "", "plugin index, two digits")
	name := flag.String("name", "", "plugin name")
	socket := flag.String("socket", "", "NRI socket")
	log := flag.String("log", "", "file that the journal is appended to")
	config := flag.String("config", "", "JSON configuration file (default: that of Configure)")
	flag.Parse()
	if err := run(version, *idx, *name, *socket, *log, *config); err != nil {
		fmt.Fprintln(os.Stderr, "plugin:", err)
		os.Exit(1)
	}
}

func run(
	version func(*Plugin) (any, []stub.Option), idx, name, socket, log, config string,
) error {
	p := &Plugin{}
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
	handlers, opts := version(p)
	opts = append(opts, stub.WithOnClose(func() { p.Record(Entry{Event: "Closed"}) }))
	if idx != "" {
		opts = append(opts, stub.WithPluginIdx(idx))
	}
	if name != "" {
		opts = append(opts, stub.WithPluginName(name))
	}
	if socket != "" {
		opts = append(opts, stub.WithSocketPath(socket))
	}
	s, err := stub.New(handlers, opts...)
	if err != nil {
		return err
	}
	p.stub = s
	done := make(chan struct{})
	go func() { p.commands(); close(done) }()
	if err := s.Start(context.Background()); err != nil {
		p.Record(Entry{Event: "Failed", Error: err.Error()})
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

// commands reads and executes the commands of stdin, until stdin is closed.
func (p *Plugin) commands() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var c struct{ Update, Evict []json.RawMessage }
		err := json.Unmarshal(lines.Bytes(), &c)
		if err == nil && c.Update != nil {
			err = p.unsolicited(c.Update)
		}
		if err == nil && c.Evict != nil {
			err = p.evict(c.Evict)
		}
		if err != nil {
			p.Record(Entry{Event: "BadCommand", Error: err.Error()})
		}
	}
}

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

// Main runs a plugin with the handlers and options of a version. Flags and configuration are those of ../../go. Commands come
// through stdin, a JSON object a line:
//
//	{"update": [ContainerUpdate, ...]}   an unsolicited update; the outcome is journaled as UpdateContainers
//	{"evict": [ContainerEviction, ...]}  an eviction; the outcome is journaled as Evict, or BadCommand where the version cannot
func Main(version func(*Plugin) (any, []stub.Option)) {
	idx := flag.String("idx", "", "plugin index, two digits")
	name := flag.String("name", "", "plugin name")
	socket := flag.String("socket", "", "NRI socket")
	log := flag.String("log", "", "file that the journal is appended to")
	config := flag.String("config", "", "JSON configuration; where there is none, what Configure brings")
	flag.Parse()
	if err := run(version, *idx, *name, *socket, *log, *config); err != nil {
		fmt.Fprintln(os.Stderr, "plugin:", err)
		os.Exit(1)
	}
}

func run(version func(*Plugin) (any, []stub.Option), idx, name, socket, log, config string) error {
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
	opts = append(opts, stub.WithOnClose(func() { p.Hear(Entry{Event: "Closed"}) }))
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
	told := make(chan struct{})
	go func() { p.commands(); close(told) }()
	if err := s.Start(context.Background()); err != nil {
		p.Hear(Entry{Event: "Failed", Error: err.Error()})
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
			p.Hear(Entry{Event: "BadCommand", Error: err.Error()})
		}
	}
}

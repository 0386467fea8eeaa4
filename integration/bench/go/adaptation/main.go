// adaptation is the peer of the measurements: upstream's adaptation, called as an engine calls it.
//
//	adaptation request FILE          writes the request of all measurements, encoded
//	adaptation serve SOCKET FILE     sends the request to external plugins
//
// Commands come from stdin, one a line, and each has a reply of one line: `plugins N` waits until N
// plugins adjust a container; `run COUNT IN_FLIGHT` creates COUNT containers, and prints JSON: the
// time of each in microseconds (`took`), the time of all (`elapsed`), and the CPU time of this
// process (`cpu`).
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	nri "github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"
	"google.golang.org/protobuf/proto"
)

func main() {
	var err error
	switch {
	case len(os.Args) == 3 && os.Args[1] == "request":
		var text []byte
		if text, err = proto.Marshal(request()); err == nil {
			err = os.WriteFile(os.Args[2], text, 0o644)
		}
	case len(os.Args) == 4 && os.Args[1] == "serve":
		err = serve(os.Args[2], os.Args[3])
	default:
		err = errors.New("usage: adaptation request FILE | adaptation serve SOCKET FILE")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "adaptation:", err)
		os.Exit(1)
	}
}

type server struct {
	runtime *nri.Adaptation
	text    []byte
}

func serve(socket, file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	synchronize := func(ctx context.Context, call nri.SyncCB) error {
		_, err := call(ctx, nil, nil)
		return err
	}
	update := func(context.Context, []*nri.ContainerUpdate) ([]*nri.ContainerUpdate, error) {
		return nil, nil
	}
	none := nri.WithPluginPath("/nonexistent")
	runtime, err := nri.New("bench", "1", synchronize, update, nri.WithSocketPath(socket), none)
	if err != nil {
		return err
	}
	if err := runtime.Start(); err != nil {
		return err
	}
	s := &server{runtime, text}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var count, flying int
		if _, err := fmt.Sscanf(lines.Text(), "plugins %d", &count); err == nil {
			err = s.await(count)
			if err != nil {
				return err
			}
			fmt.Println("ready")
		} else if _, err := fmt.Sscanf(lines.Text(), "run %d %d", &count, &flying); err == nil {
			if err := s.run(count, flying); err != nil {
				return err
			}
		} else {
			return fmt.Errorf("unknown command %q", lines.Text())
		}
	}
	return lines.Err()
}

// create sends the request, and returns the number of plugins that adjusted it.
func (s *server) create(r *api.CreateContainerRequest) (int, error) {
	reply, err := s.runtime.CreateContainer(context.Background(), r)
	if err != nil {
		return 0, err
	}
	return len(reply.GetAdjust().GetEnv()), nil
}

func (s *server) decode() *api.CreateContainerRequest {
	r := &api.CreateContainerRequest{}
	if err := proto.Unmarshal(s.text, r); err != nil {
		panic(err)
	}
	return r
}

func (s *server) await(plugins int) error {
	for {
		adjusted, err := s.create(s.decode())
		if err != nil || adjusted == plugins {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func (s *server) run(count, flying int) error {
	requests := make([]*api.CreateContainerRequest, count)
	for i := range requests {
		requests[i] = s.decode()
	}
	took := make([]float64, count)
	failed := make(chan error, flying)
	before, start := cpu(), time.Now()
	var wait sync.WaitGroup
	for worker := range flying {
		wait.Add(1)
		go func() {
			defer wait.Done()
			for i := worker; i < count; i += flying {
				began := time.Now()
				_, err := s.create(requests[i])
				took[i] = float64(time.Since(began).Nanoseconds()) / 1e3
				if err != nil {
					failed <- err
					return
				}
			}
		}()
	}
	wait.Wait()
	elapsed, used := float64(time.Since(start).Nanoseconds())/1e3, cpu()-before
	select {
	case err := <-failed:
		return err
	default:
	}
	result := map[string]any{"took": took, "elapsed": elapsed, "cpu": used}
	return json.NewEncoder(os.Stdout).Encode(result)
}

// cpu returns the CPU time of this process in microseconds.
func cpu() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return float64(u.Utime.Sec+u.Stime.Sec)*1e6 + float64(u.Utime.Usec+u.Stime.Usec)
}

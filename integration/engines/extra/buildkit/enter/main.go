// enter uses BuildKit as debuggers of builds do: it makes an image of a directory, starts a first
// process in a container of the image, and then more processes in the same container, which
// BuildKit starts with `exec`.
//
//	enter SOCKET DIR COMMAND...
//
// Each COMMAND is run by `sh -c`, with a terminal if it begins with `tty `. The output of each
// command is printed to stdout, followed by its exit code.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/moby/buildkit/client"
	"github.com/moby/buildkit/client/llb"
	gateway "github.com/moby/buildkit/frontend/gateway/client"
	exit "github.com/moby/buildkit/frontend/gateway/pb"
	"github.com/moby/buildkit/solver/pb"
	"github.com/tonistiigi/fsutil"
)

func main() {
	if len(os.Args) < 4 {
		fmt.Fprintln(os.Stderr, "usage: enter SOCKET DIR COMMAND...")
		os.Exit(2)
	}
	if err := enter(os.Args[1], os.Args[2], os.Args[3:]); err != nil {
		fmt.Fprintln(os.Stderr, "enter:", err)
		os.Exit(1)
	}
}

func enter(socket, dir string, commands []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := client.New(ctx, "unix://"+socket)
	if err != nil {
		return err
	}
	defer c.Close()
	files, err := fsutil.NewFS(dir)
	if err != nil {
		return err
	}
	work := func(ctx context.Context, c gateway.Client) (*gateway.Result, error) {
		root, err := llb.Scratch().File(llb.Copy(llb.Local("root"), "/", "/")).Marshal(ctx)
		if err != nil {
			return nil, err
		}
		result, err := c.Solve(ctx, gateway.SolveRequest{Definition: root.ToPB()})
		if err != nil {
			return nil, err
		}
		return result, inside(ctx, c, result, commands)
	}
	options := client.SolveOpt{LocalMounts: map[string]fsutil.FS{"root": files}}
	_, err = c.Build(ctx, options, "enter", work, nil)
	return err
}

// inside starts `cat` as the first process of a container, and runs the commands beside it.
func inside(
	ctx context.Context, c gateway.Client, result *gateway.Result, commands []string,
) error {
	container, err := c.NewContainer(ctx, gateway.NewContainerRequest{
		Mounts: []gateway.Mount{{Dest: "/", MountType: pb.MountType_BIND, Ref: result.Ref}},
	})
	if err != nil {
		return err
	}
	defer container.Release(ctx)
	in, input := io.Pipe() // cat runs until its input is closed
	defer input.Close()
	if _, err = container.Start(ctx, start("cat", in)); err != nil {
		return err
	}
	for _, command := range commands {
		process, err := container.Start(ctx, start(command, nil))
		if err != nil {
			return err
		}
		err = process.Wait()
		var code *exit.ExitError
		switch {
		case errors.As(err, &code):
			fmt.Printf("exit code %d\n", code.ExitCode)
		case err != nil:
			return err
		default:
			fmt.Println("exit code 0")
		}
	}
	return nil
}

func start(command string, in io.ReadCloser) gateway.StartRequest {
	r := gateway.StartRequest{
		Args: []string{"sh", "-c", command}, Env: []string{"PATH=/bin"}, Cwd: "/",
		Stdin: in, Stdout: out{os.Stdout}, Stderr: out{os.Stderr},
	}
	if len(command) > 4 && command[:4] == "tty " {
		r.Args[2], r.Tty = command[4:], true
	}
	return r
}

// out is an output that Close does not close, because several processes share it.
type out struct{ io.Writer }

func (out) Close() error { return nil }

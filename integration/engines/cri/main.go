// cri is a client of the container runtime interface: it calls one method with a request in JSON
// and prints the response as JSON.
//
//	cri SOCKET METHOD [REQUEST]
//
// REQUEST has the field names of the protocol:
//
//	cri /run/containerd.sock StopContainer '{"container_id": "c1", "timeout": 1}'
//
// An error of the engine is printed to stderr as `CODE: text`, with exit code 1.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// timeout limits one call, so that an engine that hangs fails the test and does not hang it.
const timeout = 50 * time.Second

func main() {
	if len(os.Args) < 3 || len(os.Args) > 4 {
		fmt.Fprintln(os.Stderr, "usage: cri SOCKET METHOD [REQUEST]")
		os.Exit(2)
	}
	request := "{}"
	if len(os.Args) == 4 {
		request = os.Args[3]
	}
	response, err := call(os.Args[1], os.Args[2], []byte(request))
	if err != nil {
		s := status.Convert(err)
		fmt.Fprintf(os.Stderr, "%s: %s\n", s.Code(), s.Message())
		os.Exit(1)
	}
	fmt.Printf("%s\n", response)
}

// call calls a method with a request in JSON and returns the response in JSON.
func call(socket, name string, text []byte) ([]byte, error) {
	credentials := grpc.WithTransportCredentials(insecure.NewCredentials())
	connection, err := grpc.NewClient("unix://"+socket, credentials)
	if err != nil {
		return nil, err
	}
	defer connection.Close()
	method, err := find(
		name, cri.NewRuntimeServiceClient(connection),
		cri.NewImageServiceClient(connection),
	)
	if err != nil {
		return nil, err
	}
	// The method is func(context.Context, *Request, ...grpc.CallOption) (*Response, error).
	request := reflect.New(method.Type().In(1).Elem())
	if err := json.Unmarshal(text, request.Interface()); err != nil {
		return nil, fmt.Errorf("request of %s: %w", name, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	out := method.Call([]reflect.Value{reflect.ValueOf(ctx), request})
	if err, _ := out[1].Interface().(error); err != nil {
		return nil, err
	}
	return json.Marshal(out[0].Interface())
}

// find returns the method with this name of the first service that has one.
func find(name string, services ...any) (reflect.Value, error) {
	for _, service := range services {
		method := reflect.ValueOf(service).MethodByName(name)
		if method.IsValid() && method.Type().NumOut() == 2 {
			return method, nil
		}
	}
	return reflect.Value{}, fmt.Errorf("no method %s", name)
}

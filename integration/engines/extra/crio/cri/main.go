// cri is a small client of the container runtime interface: it calls one method with a request in
// JSON, and prints the response as JSON.
//
//	cri SOCKET METHOD [REQUEST]
//
// REQUEST has the field names of the protocol: {"config":{"metadata":{"name":"p"}}}. An error is
// printed to stderr, with exit code 1.
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
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: cri SOCKET METHOD [REQUEST]")
		os.Exit(2)
	}
	request := "{}"
	if len(os.Args) > 3 {
		request = os.Args[3]
	}
	if err := call(os.Args[1], os.Args[2], request); err != nil {
		fmt.Fprintln(os.Stderr, "cri:", err)
		os.Exit(1)
	}
}

func call(socket, name, text string) error {
	credentials := grpc.WithTransportCredentials(insecure.NewCredentials())
	connection, err := grpc.NewClient("unix://"+socket, credentials)
	if err != nil {
		return err
	}
	defer connection.Close()
	method := reflect.ValueOf(cri.NewRuntimeServiceClient(connection)).MethodByName(name)
	if !method.IsValid() {
		method = reflect.ValueOf(cri.NewImageServiceClient(connection)).MethodByName(name)
	}
	if !method.IsValid() {
		return fmt.Errorf("no method %s", name)
	}
	// The method is func(context.Context, *Request, ...grpc.CallOption) (*Response, error).
	request := reflect.New(method.Type().In(1).Elem())
	if err := json.Unmarshal([]byte(text), request.Interface()); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	out := method.Call([]reflect.Value{reflect.ValueOf(ctx), request})
	if err, failed := out[1].Interface().(error); failed {
		return err
	}
	response, err := json.Marshal(out[0].Interface())
	if err != nil {
		return err
	}
	fmt.Println(string(response))
	return nil
}

// cri is a client of the container runtime interface, as small as can be: it calls one method with a request in JSON, and prints the answer.
//
//	cri SOCKET METHOD [REQUEST]
//
// REQUEST has the protocol's field names: {"config":{"metadata":{"name":"p"}}}. An error goes to stderr, exit code 1.
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
	connection, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
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
	// (context, *Request, options...) to (*Answer, error)
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
	answer, err := json.Marshal(out[0].Interface())
	if err != nil {
		return err
	}
	fmt.Println(string(answer))
	return nil
}

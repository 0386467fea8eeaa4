module v010

go 1.21

require github.com/containerd/nri v0.1.0

require github.com/pkg/errors v0.9.1 // indirect

module versions/common

go 1.21

require (
	github.com/containerd/nri v0.3.0
	github.com/containerd/ttrpc v1.1.1-0.20220420014843-944ef4a40df3
	google.golang.org/protobuf v1.28.1
)

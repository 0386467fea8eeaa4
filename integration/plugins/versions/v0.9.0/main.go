// gostub-v0.9.0 is a test plugin with upstream's stub v0.9.0.
package main

import (
	"versions/common"
	"versions/common/modern"

	"github.com/containerd/nri/pkg/stub"
)

func main() {
	common.Main(func(p *common.Plugin) (any, []stub.Option) { return modern.New(p) })
}

// Command calico-node runs the two parts of Calico's node agent that speak with BIRD, confd and the node status reporter, for one node of the
// lab, from Calico's own packages.
//
// It is configured as the originals are: confd's flags, and the environment (NODENAME, NAMESPACE, DATASTORE_TYPE, KUBECONFIG).
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/projectcalico/calico/confd/pkg/config"
	"github.com/projectcalico/calico/confd/pkg/run"
	"github.com/projectcalico/calico/node/pkg/status"
)

func main() {
	flag.Parse()
	c, err := config.InitConfig(false)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	go status.Run()
	run.Run(c)
}

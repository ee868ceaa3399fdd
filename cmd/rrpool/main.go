// Command rrpool shows and changes the route reflectors of a cluster. Installed
// as kubectl-rrpool it is a plugin of kubectl.
//
// What was asked for goes to standard output, everything else to standard error. The exit code is 0 when the
// question was answered, 1 when it was not, and 2 where a command says so.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/rrpool/rrpool/cmd/rrpool/command"
	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/controllers/calico"
)

func main() { os.Exit(start()) }

func start() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// A reader that ends early, such as head, is then an error of writing, which Run knows.
	signal.Ignore(syscall.SIGPIPE)
	silence()
	s := iostreams.System()
	return iostreams.Run(ctx, command.New(command.CalledAs(os.Args), s), os.Args[min(1, len(os.Args)):], s)
}

// silence drops what libraries log, which would stand among our output.
func silence() {
	klog.SetLogger(logr.Discard())
	ctrl.SetLogger(logr.Discard())
	calico.RedirectLogs(logr.Discard())
}

// Command rrpool shows and changes the route reflectors of a cluster. Installed
// as kubectl-rrpool it is a plugin of kubectl.
//
// The result of a command goes to standard output, everything else to standard error. The exit code is 0 for
// success, 1 for failure, and 2 in the cases that a command documents.
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
	// If the reader of a pipe ends early, such as head, writing then fails with EPIPE, which Run takes for success.
	signal.Ignore(syscall.SIGPIPE)
	silence()
	s := iostreams.System()
	return iostreams.Run(ctx, command.New(command.CalledAs(os.Args), s), os.Args[min(1, len(os.Args)):], s)
}

// silence discards the log messages of libraries, which would be mixed with the output.
func silence() {
	klog.SetLogger(logr.Discard())
	ctrl.SetLogger(logr.Discard())
	calico.RedirectLogs(logr.Discard())
}

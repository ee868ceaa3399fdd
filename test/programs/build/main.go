// Command build builds the programs that its arguments name, all without arguments, and prints the value of RRPOOL_PROGRAMS with which tests and
// demo use them.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/rrpool/rrpool/test/programs"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := programs.Build(ctx, os.Stderr, os.Args[1:]...)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(programs.Built())
}

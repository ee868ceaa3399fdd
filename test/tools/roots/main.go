// Command roots prints the root certificates that Mozilla trusts, as the Go project publishes them in a module with a checksum, so that they do
// not depend on the machine that builds an image. It leaves out those that are only trusted for certificates issued before some day, because a
// file of certificates cannot express that.
package main

import (
	"encoding/pem"
	"fmt"
	"os"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

func main() {
	for root := range bundle.Roots() {
		if root.Constraint != nil {
			continue
		}
		if err := pem.Encode(os.Stdout, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
			fmt.Fprintln(os.Stderr, "roots:", err)
			os.Exit(1)
		}
	}
}

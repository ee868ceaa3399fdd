package main

import (
	"archive/tar"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

// hasRoots refuses a base without which the manager could trust nobody: it speaks TLS to
// IBM Cloud.
func hasRoots(image v1.Image) error {
	all := mutate.Extract(image)
	defer func() { _ = all.Close() }()
	for r := tar.NewReader(all); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return fmt.Errorf("there is no /%s in it: the manager could trust nobody", rootsFile)
		}
		if err != nil {
			return fmt.Errorf("reading its files: %w", err)
		}
		if strings.TrimPrefix(path.Clean(header.Name), "/") != rootsFile || header.Typeflag != tar.TypeReg {
			continue
		}
		content, err := io.ReadAll(r)
		if err != nil {
			return fmt.Errorf("reading /%s: %w", rootsFile, err)
		}
		if !x509.NewCertPool().AppendCertsFromPEM(content) {
			return fmt.Errorf("there is no certificate in /%s", rootsFile)
		}
		return nil
	}
}

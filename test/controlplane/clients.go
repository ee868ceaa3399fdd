package controlplane

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// CalicoRelease is what the Calico that the product is built with calls itself. calicoctl refuses clusters of another.
const CalicoRelease = "v3.31.0"

const (
	kubectlModule = "k8s.io/kubectl"
	calicoModule  = "github.com/projectcalico/calico"
	calicoctl     = calicoModule + "/calicoctl/calicoctl"
)

// Clients returns a folder that holds kubectl, of the apiserver's version, and calicoctl, of the Calico that the product is built
// with. It is a cache as that of Assets.
func Clients(ctx context.Context, log io.Writer) (string, error) {
	root, err := moduleDir(ctx, thisModule)
	if err != nil {
		return "", err
	}
	programs, dir, err := clients(filepath.Join(root, "test", "controlplane", "build"))
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return "", fmt.Errorf("making the cache folder: %w", err)
	}
	unlock, err := lock(ctx, filepath.Join(dir, ".lock"), log)
	if err != nil {
		return "", err
	}
	defer unlock()
	for _, name := range missingIn(dir, "kubectl", "calicoctl") {
		if err := build(ctx, programs[name], filepath.Join(dir, name), log); err != nil {
			return "", err
		}
	}
	return dir, nil
}

// clients says how each is built, and where they are kept.
func clients(source string) (map[string]program, string, error) {
	cache, err := CacheDir()
	if err != nil {
		return nil, "", err
	}
	kubectl, err := requiredVersion(filepath.Join(source, "kubectl", "go.mod"), kubectlModule)
	if err != nil {
		return nil, "", err
	}
	calico, err := requiredVersion(filepath.Join(source, "calicoctl", "go.mod"), calicoModule)
	if err != nil {
		return nil, "", err
	}
	return map[string]program{
		// The module is v0.36.3 where the program is v1.36.3.
		"kubectl": {
			source: filepath.Join(source, "kubectl"), ldflags: versionFlags(strings.Replace(kubectl, "v0.", "v1.", 1)), args: []string{"-trimpath", "."},
		},
		// Built as the node agent is, so that the two share what is compiled of Calico.
		"calicoctl": {
			source: filepath.Join(source, "calicoctl"), ldflags: " -X " + calicoModule + "/pkg/buildinfo.Version=" + CalicoRelease,
			args: []string{calicoctl}, env: []string{"CGO_ENABLED=" + os.Getenv("CGO_ENABLED")},
		},
	}, filepath.Join(cache, fmt.Sprintf("kubectl-%s-calicoctl-%s-%s-%s-%s", kubectl, CalicoRelease, calico, runtime.GOOS, runtime.GOARCH)), nil
}

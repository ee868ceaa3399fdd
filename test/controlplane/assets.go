package controlplane

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"time"
)

// The module paths whose versions name the cache folder.
const (
	kubernetesModule = "k8s.io/kubernetes"
	etcdModule       = "go.etcd.io/etcd/server/v3"
	thisModule       = "github.com/rrpool/rrpool"
)

// binaries are what a folder of assets holds; each is built from build/<name>.
var binaries = []string{"etcd", "kube-apiserver"}

// Assets returns a folder that holds etcd and kube-apiserver. That is $KUBEBUILDER_ASSETS when it is set, and otherwise
// the cache, which is filled when something is missing: minutes the first time, nothing afterwards. Progress goes to log.
// Two processes never build at once: the second waits for the first.
func Assets(ctx context.Context, log io.Writer) (string, error) {
	if dir := os.Getenv("KUBEBUILDER_ASSETS"); dir != "" {
		if missing := missingIn(dir, binaries...); len(missing) > 0 {
			return "", fmt.Errorf("KUBEBUILDER_ASSETS is %q, but %s is not in it", dir, strings.Join(missing, " and "))
		}
		return dir, nil
	}
	root, err := moduleDir(ctx, thisModule)
	if err != nil {
		return "", err
	}
	source := filepath.Join(root, "test", "controlplane", "build")
	dir, err := assetsDir(source)
	if err != nil {
		return "", err
	}
	if len(missingIn(dir, binaries...)) == 0 {
		return dir, nil
	}
	return dir, fill(ctx, source, dir, log)
}

// CacheDir returns the folder below which this repository keeps what it builds for tests: $XDG_CACHE_HOME/rrpool or its default.
func CacheDir() (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("finding the cache folder: %w", err)
	}
	return filepath.Join(base, "rrpool"), nil
}

func assetsDir(source string) (string, error) {
	cache, err := CacheDir()
	if err != nil {
		return "", err
	}
	kubernetes, err := requiredVersion(filepath.Join(source, "kube-apiserver", "go.mod"), kubernetesModule)
	if err != nil {
		return "", err
	}
	etcd, err := requiredVersion(filepath.Join(source, "etcd", "go.mod"), etcdModule)
	if err != nil {
		return "", err
	}
	name := fmt.Sprintf("kubernetes-%s-etcd-%s-%s-%s", kubernetes, etcd, runtime.GOOS, runtime.GOARCH)
	return filepath.Join(cache, name), nil
}

// fill builds whatever is missing in dir, under a lock that other processes respect.
func fill(ctx context.Context, source, dir string, log io.Writer) error {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return fmt.Errorf("making the cache folder: %w", err)
	}
	unlock, err := lock(ctx, filepath.Join(dir, ".lock"), log)
	if err != nil {
		return err
	}
	defer unlock()
	for _, name := range missingIn(dir, binaries...) {
		if err := buildServer(ctx, filepath.Join(source, name), filepath.Join(dir, name), log); err != nil {
			return err
		}
	}
	return nil
}

// buildServer compiles the module in source, which stays as it is while its version does.
func buildServer(ctx context.Context, source, target string, log io.Writer) error {
	var flags string
	if version, err := requiredVersion(filepath.Join(source, "go.mod"), kubernetesModule); err == nil {
		flags = versionFlags(version)
	}
	return build(ctx, program{source: source, ldflags: flags, args: []string{"-trimpath", "."}}, target, log)
}

// program is a main package of a module of its own.
type program struct {
	source, ldflags string
	// args are those of go build that are not everybody's, the last one the package.
	args []string
	env  []string
}

// build compiles a program into target, which appears only when it is complete.
func build(ctx context.Context, p program, target string, log io.Writer) error {
	start := time.Now()
	fmt.Fprintf(log, "building %s (once; kube-apiserver takes minutes on few cores) ...\n", target)
	args := []string{"build", "-buildvcs=false", "-mod=readonly", "-o", target + ".partial", "-ldflags", "-s -w" + p.ldflags}
	cmd := exec.CommandContext(ctx, "go", append(args, p.args...)...) //nolint:gosec // G204: the arguments are ours
	cmd.Dir = p.source
	cmd.Env = append(append(os.Environ(), "GOWORK=off", "GOFLAGS=", "CGO_ENABLED=0"), p.env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building %q: %w\n%s", p.source, err, out)
	}
	if err := os.Rename(target+".partial", target); err != nil {
		return fmt.Errorf("placing %q: %w", target, err)
	}
	fmt.Fprintf(log, "built %s in %s\n", filepath.Base(target), time.Since(start).Round(time.Second))
	return nil
}

// versionFlags makes the binary report the version of its module, which clients read to decide what they may ask for.
func versionFlags(version string) string {
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	const pkg = " -X k8s.io/component-base/version."
	return pkg + "gitVersion=" + version + pkg + "gitMajor=" + parts[0] + pkg + "gitMinor=" + parts[1]
}

func missingIn(dir string, names ...string) []string {
	var missing []string
	for _, name := range names {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.IsDir() {
			missing = append(missing, name)
		}
	}
	return missing
}

func requiredVersion(goMod, module string) (string, error) {
	data, err := os.ReadFile(goMod) //nolint:gosec // G304: a file of this repository
	if err != nil {
		return "", fmt.Errorf("reading the version of %q: %w", module, err)
	}
	match := regexp.MustCompile(`(?m)^(?:require)?\s*` + regexp.QuoteMeta(module) + ` (v\S+)(?: // indirect)?$`).FindSubmatch(data)
	if match == nil {
		return "", fmt.Errorf("reading the version of %q: not required by %q", module, goMod)
	}
	return string(match[1]), nil
}

// moduleDir finds the sources of a module that the caller's module is or requires.
func moduleDir(ctx context.Context, module string) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", module).Output() //nolint:gosec // G204: constants
	if err != nil {
		return "", fmt.Errorf("finding module %q (is the working directory inside %s?): %w", module, thisModule, err)
	}
	return strings.TrimSpace(string(out)), nil
}

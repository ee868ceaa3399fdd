// Package programs builds the programs that the tests and the demo run: etcd and kube-apiserver, Calico's node agent, the manager and the command
// line, kubectl and calicoctl. It imports the standard library only, so that it starts at once on a new machine.
package programs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// CalicoRelease is the release of the Calico modules in go.mod. calicoctl refuses clusters of another release.
const CalicoRelease = "v3.31.0"

const (
	// calicoVariable is the environment variable with the release of Calico that the lab runs, if it is not CalicoRelease.
	calicoVariable = "RRPOOL_CALICO"
	// releases is the folder with a file for go build -modfile for each other release: the requirements of Calico's own go.mod.
	releases = "test/programs/calico"
	agent    = "calico-node"

	// variable is the environment variable with the paths of built programs: name=path, separated by commas. Child processes inherit it, because
	// nothing can be built in the lab's namespaces.
	variable = "RRPOOL_PROGRAMS"
	servers  = "test/programs/servers"
)

// Root returns the root folder of the repository.
func Root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..")
}

// program is a main package. Servers change only with their versions, so they are built once and kept.
type program struct {
	name, pkg string
	pinned    bool // of servers
}

// all are the programs in the order in which they are built, the longest early.
var all = []program{
	{"etcd", "./etcd", true},
	{"kube-apiserver", "./kube-apiserver", true},
	{"kubectl", "./kubectl", true},
	{"calicoctl", "github.com/projectcalico/calico/calicoctl/calicoctl", true},
	{agent, "./test/lab/cmd/calico-node", false},
	{"manager", "./cmd/manager", false},
	{"rrpool", "./cmd/rrpool", false},
	{"demo", "./test/e2e/demo", false},
}

// Calico returns the release of Calico that the lab runs, and its file for -modfile.
func Calico() (release, modfile string, err error) {
	release = cmp.Or(os.Getenv(calicoVariable), CalicoRelease)
	if release == CalicoRelease {
		return release, filepath.Join(Root(), "go.mod"), nil
	}
	modfile = filepath.Join(Root(), releases, release+".mod")
	if known := Releases(); !slices.Contains(known, release) {
		err = fmt.Errorf("%s is %q, but the lab runs %s only", calicoVariable, release, strings.Join(known, ", "))
	}
	return release, modfile, err
}

// Releases returns the releases of Calico that the lab can run, the oldest first.
func Releases() []string {
	files, _ := filepath.Glob(filepath.Join(Root(), releases, "*.mod"))
	for i, file := range files {
		files[i] = strings.TrimSuffix(filepath.Base(file), ".mod")
	}
	return append(files, CalicoRelease)
}

// binary returns the name of a program's file. There is a node agent for each release of Calico.
func binary(name string) string {
	if release := os.Getenv(calicoVariable); name == agent && release != "" {
		return name + "-" + release
	}
	return name
}

// Build builds the named programs, or all without a name, and writes its progress to log. The first build of kube-apiserver takes minutes. If
// KUBEBUILDER_ASSETS is set, etcd and kube-apiserver must be in that folder and are not built. Programs that this process or a parent has built
// are not built again.
func Build(ctx context.Context, log io.Writer, names ...string) error {
	built := paths()
	var missing []program
	for _, p := range all {
		if (len(names) == 0 || slices.Contains(names, p.name)) && built[binary(p.name)] == "" {
			missing = append(missing, p)
		}
	}
	isProgram := func(name string) bool {
		return slices.ContainsFunc(all, func(p program) bool { return p.name == name })
	}
	if i := slices.IndexFunc(names, func(name string) bool { return !isProgram(name) }); i >= 0 {
		return fmt.Errorf("building %q: no such program", names[i])
	}
	if len(missing) == 0 {
		return nil
	}
	b, err := newBuilder(ctx, log)
	if err != nil {
		return err
	}
	for i, p := range missing {
		path, err := b.build(ctx, p, fmt.Sprintf("[%d/%d] %s", i+1, len(missing), p.name))
		if err != nil {
			return err
		}
		if err := os.Setenv(variable, strings.Trim(os.Getenv(variable)+","+binary(p.name)+"="+path, ",")); err != nil {
			return fmt.Errorf("keeping the path of %s: %w", p.name, err)
		}
	}
	return nil
}

// Path returns the path of a program that Build has built. For another program it returns an invalid path that says so.
func Path(name string) string {
	if path := paths()[binary(name)]; path != "" {
		return path
	}
	return name + " (not built: call programs.Build first)"
}

// Built returns the value of RRPOOL_PROGRAMS with which a child process uses the built programs.
func Built() string { return os.Getenv(variable) }

func paths() map[string]string {
	out := map[string]string{}
	for entry := range strings.SplitSeq(os.Getenv(variable), ",") {
		if name, path, ok := strings.Cut(entry, "="); ok {
			out[name] = path
		}
	}
	return out
}

// patience is how long a build may take without progress being written.
const patience = 2 * time.Second

type builder struct {
	root, cache string
	// kubernetes is the version of the servers.
	kubernetes string
	log        io.Writer
}

func newBuilder(ctx context.Context, log io.Writer) (*builder, error) {
	b := &builder{root: Root(), log: log}
	list := exec.CommandContext(ctx, "go", "list", "-m", "-mod=readonly", "-f", "{{.Version}}", "k8s.io/kubernetes", "go.etcd.io/etcd/server/v3")
	list.Dir = filepath.Join(b.root, servers)
	list.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("reading the versions of the servers: %w", err)
	}
	kubernetes, etcd, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	user, err := os.UserCacheDir()
	if err != nil {
		return nil, fmt.Errorf("finding the cache folder: %w", err)
	}
	b.kubernetes = kubernetes
	b.cache = filepath.Join(user, "rrpool",
		fmt.Sprintf("kubernetes-%s-etcd-%s-calico-%s-%s-%s", kubernetes, etcd, CalicoRelease, runtime.GOOS, runtime.GOARCH))
	return b, nil
}

func (b *builder) build(ctx context.Context, p program, title string) (string, error) {
	if assets := os.Getenv("KUBEBUILDER_ASSETS"); assets != "" && (p.name == "etcd" || p.name == "kube-apiserver") {
		path := filepath.Join(assets, p.name)
		if !exists(path) {
			return "", fmt.Errorf("KUBEBUILDER_ASSETS is %q, but %s is not in it", assets, p.name)
		}
		return path, nil
	}
	dir := filepath.Join(b.root, "bin", "test")
	if p.pinned {
		dir = b.cache
	}
	path := filepath.Join(dir, binary(p.name))
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return "", fmt.Errorf("making the folder of programs: %w", err)
	}
	unlock, err := lock(ctx, filepath.Join(dir, "."+p.name+".lock"), title, b.log)
	if err != nil {
		return "", err
	}
	defer unlock()
	if p.pinned && exists(path) {
		return path, nil
	}
	return path, b.compile(ctx, p, path, title)
}

func exists(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// compile runs go build. All programs have the same flags, so that they share compiled packages.
func (b *builder) compile(ctx context.Context, p program, path, title string) error {
	flags, dir := "-s -w", b.root
	if p.pinned {
		dir = filepath.Join(b.root, servers)
		flags += b.versionFlags()
	}
	modfile := filepath.Join(dir, "go.mod")
	if p.name == agent {
		var err error
		if _, modfile, err = Calico(); err != nil {
			return err
		}
	}
	// A rename does not change a running program.
	partial := fmt.Sprintf("%s.%d", path, os.Getpid())
	//nolint:gosec // G204: constants, and a file of ours
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-mod=readonly", "-modfile="+modfile, "-o", partial, "-ldflags", flags, p.pkg)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	saying := time.AfterFunc(patience, func() { fmt.Fprintf(b.log, "%s: building, for up to some minutes\n", title) })
	defer saying.Stop()
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("building %s: %w\n%s", p.name, err, out)
	}
	return os.Rename(partial, path)
}

// versionFlags returns the linker flags with which the servers report their versions, which clients depend on.
func (b *builder) versionFlags() string {
	parts := strings.SplitN(strings.TrimPrefix(b.kubernetes, "v"), ".", 3)
	const pkg = " -X k8s.io/component-base/version."
	return pkg + "gitVersion=" + b.kubernetes + pkg + "gitMajor=" + parts[0] + pkg + "gitMinor=" + parts[1] +
		" -X github.com/projectcalico/calico/pkg/buildinfo.Version=" + CalicoRelease
}

// lock holds an exclusive lock on a file until the returned function is called, or the process ends.
func lock(ctx context.Context, path, title string, log io.Writer) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600) //nolint:gosec // G304: inside our own folders
	if err != nil {
		return nil, fmt.Errorf("opening the lock: %w", err)
	}
	for waited := false; ; waited = true {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = file.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errors.Join(fmt.Errorf("locking %q: %w", path, err), file.Close())
		}
		if !waited {
			fmt.Fprintf(log, "%s: another process is building, waiting for %s\n", title, path)
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("waiting for %q: %w", path, ctx.Err()), file.Close())
		case <-time.After(200 * time.Millisecond):
		}
	}
}

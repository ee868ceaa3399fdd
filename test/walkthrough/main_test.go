//go:build linux

package walkthrough

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/test/e2e/site"
	"github.com/rrpool/rrpool/test/lab"
	"github.com/rrpool/rrpool/test/programs"
)

// walkVariable, when set, runs the pages in the lab.
const walkVariable = "RRPOOL_WALKTHROUGH"

func TestMain(m *testing.M) {
	if os.Getenv(walkVariable) == "" {
		os.Exit(m.Run())
	}
	if err := programs.Build(context.Background(), os.Stderr, "manager", "rrpool", "kubectl", "calicoctl"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	lab.Main(m)
}

func skipWalk(t *testing.T) {
	t.Helper()
	if os.Getenv(walkVariable) == "" {
		t.Skipf("it takes minutes in the lab: make walkthrough runs it, with %s=1", walkVariable)
	}
}

// soon waits until a check passes: what was written a moment ago, confd has yet to render. It is much less than the five minutes in which
// the manager looks again at rest.
func soon(t *testing.T, check func(c *assert.CollectT)) {
	t.Helper()
	require.EventuallyWithT(t, check, time.Minute, 200*time.Millisecond)
}

const patience = 6 * time.Minute

type walker struct {
	*testing.T
	site  *site.Site
	shell *Shell
	said  *lines
	dir   string
	env   []string
	// after is what is checked when a block has been typed that has these words in it.
	after map[string]func()
}

// newWalker prepares a desk: a copy of the manifests, the programs, and an administrator's kubeconfig.
func newWalker(t *testing.T, s *site.Site) *walker {
	t.Helper()
	w := &walker{T: t, site: s, said: &lines{T: t}, dir: t.TempDir(), after: map[string]func(){}}
	repository := filepath.Join(w.dir, "repository")
	require.NoError(t, os.CopyFS(filepath.Join(repository, "config"), os.DirFS("../../config")))
	commands := filepath.Join(w.dir, "programs")
	require.NoError(t, Programs(commands, map[string]string{
		"kubectl": programs.Path("kubectl"), "calicoctl": programs.Path("calicoctl"),
		"rrpool": s.Command(t.Context()).Path, "kubectl-rrpool": s.Command(t.Context()).Path,
	}))
	w.env = append(s.Environment(), "PATH="+commands, "HOME="+w.dir, "KUBECONFIG="+s.Lab.Kubeconfig(), "LANG=C.UTF-8")
	var err error
	w.shell, err = StartShell(w.dir, repository, w.env, w.said)
	require.NoError(t, err)
	t.Cleanup(w.shell.Stop)
	return w
}

// blocksOf reads a page, and holds it to what it is known not to run.
func blocksOf(t *testing.T, page string, notRun ...string) []Block {
	t.Helper()
	source, err := os.ReadFile(filepath.Join("..", "..", page))
	require.NoError(t, err)
	blocks, err := Blocks(source)
	require.NoError(t, err, page)
	var skipped []string
	for _, b := range blocks {
		if b.Place == Nowhere {
			skipped = append(skipped, b.First())
		}
	}
	require.Equal(t, notRun, skipped, "%s: the blocks that are not run are known here; say why a block cannot be run before it is added", page)
	return blocks
}

// walk types blocks until all are done.
func (w *walker) walk(blocks []Block) {
	w.Helper()
	for _, b := range blocks {
		w.Logf("--- line %d: %s", b.Line, b.First())
		begun := time.Now()
		ctx, cancel := context.WithTimeout(w.Context(), patience)
		require.NoError(w, w.typed(ctx, b))
		cancel()
		w.Logf("--- took %s", time.Since(begun).Round(100*time.Millisecond))
		for words, check := range w.after {
			if strings.Contains(b.Text, words) {
				delete(w.after, words)
				check()
			}
		}
	}
	require.Empty(w, w.after, "blocks that the page has no more")
}

func (w *walker) typed(ctx context.Context, b Block) error {
	switch b.Place {
	case Nowhere:
		w.Logf("not run: %s", b.Reason)
		return nil
	case EveryNode:
		for _, node := range w.site.Lab.Nodes() {
			if err := w.onNode(ctx, node, b); err != nil {
				return fmt.Errorf("on node %s: %w", node, err)
			}
		}
		return nil
	case Here:
	}
	w.said.forget()
	if err := w.shell.Run(ctx, b); err != nil {
		return err
	}
	if w.said.warned.Load() {
		return fmt.Errorf("typing the block at line %d, %q: it names a field that there is not", b.Line, b.First())
	}
	return nil
}

func (w *walker) onNode(ctx context.Context, node string, b Block) error {
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", b.Text)
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = w.env, w.dir, &out, &out
	err := w.site.Lab.Enter(node, cmd.Start)
	if err == nil {
		err = cmd.Wait()
	}
	w.Logf("on %s:\n%s", node, out.String())
	return err
}

// lines writes what a shell says into the test's log, line by line.
type lines struct {
	*testing.T
	rest []byte

	mu    sync.Mutex
	heard strings.Builder
	// warned: the apiserver did not know a field. kubectl patch goes on then.
	warned atomic.Bool
}

// Write implements io.Writer.
func (l *lines) Write(chunk []byte) (int, error) {
	l.rest = append(l.rest, chunk...)
	for {
		line, rest, whole := bytes.Cut(l.rest, []byte("\n"))
		if !whole {
			return len(chunk), nil
		}
		l.rest = rest
		if bytes.Contains(line, []byte("Warning: unknown field")) {
			l.warned.Store(true)
		}
		l.Logf("%s", line)
		l.mu.Lock()
		fmt.Fprintf(&l.heard, "%s\n", line)
		l.mu.Unlock()
	}
}

// text is what was said since the last block began. Its end may come a moment after the block's.
func (l *lines) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.heard.String()
}

func (l *lines) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.heard.Reset()
}

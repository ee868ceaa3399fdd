package report

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/rrpool/rrpool/cmd/rrpool/cluster"
	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
)

// mostBytes bounds each file of the archive.
const mostBytes = 16 << 20

// reader reads a cluster into entries.
type reader struct {
	c         *cluster.Connection
	dynamic   dynamic.Interface
	kube      kubernetes.Interface
	namespace string
	lines     int64
	now       time.Time
	redact    *redactor
	// limit bounds each file, mostBytes but for tests.
	limit int
	// warn reports at once what could not be read.
	warn func(string)

	entries []entry
	missing []string
	cut     []string
	// first is why the first thing could not be read.
	first       error
	versions    versions
	managerPods []unstructured.Unstructured
}

func newReader(c *cluster.Connection, namespace string, lines int64, now time.Time) (*reader, error) {
	objects, err := dynamic.NewForConfig(c.Config)
	kube, kubeErr := kubernetes.NewForConfig(c.Config)
	if err = errors.Join(err, kubeErr); err != nil {
		return nil, fmt.Errorf("connecting to the cluster of context %q: %w", c.Name, err)
	}
	r := &reader{c: c, dynamic: objects, kube: kube, namespace: namespace, lines: lines, now: now, redact: &redactor{}, limit: mostBytes, warn: func(string) {}}
	for _, own := range []string{c.Config.BearerToken, c.Config.Password, string(c.Config.KeyData)} {
		r.redact.learn(own, true)
	}
	return r, nil
}

// reach asks for the version, which every user may: a cluster that does not answer is asked nothing more.
func (r *reader) reach(ctx context.Context) (err error) {
	r.versions.Kubernetes, err = r.c.Version(ctx)
	var unreachable *url.Error
	switch {
	case ctx.Err() != nil:
		return iostreams.ErrInterrupted
	case errors.As(err, &unreachable), errors.Is(err, context.DeadlineExceeded), apierrors.IsUnauthorized(err):
		return r.c.Explain(err, "get", "/version")
	case err != nil:
		r.miss("the version of Kubernetes", r.c.Explain(err, "get", "/version"))
	case r.versions.Kubernetes == "":
		r.miss("the version of Kubernetes", errors.New("the answer of the apiserver has none"))
	}
	r.first = nil // what is asked next says more
	return nil
}

// add puts a file into the archive. Everything passes here, and here known secrets and
// what looks like one are taken out, whatever was done before.
func (r *reader) add(name, what, content string) {
	content, name = r.redact.anywhere(content), r.unique(local(name))
	if len(content) > r.limit {
		content = content[:r.limit]
		r.cut = append(r.cut, fmt.Sprintf("%s: cut after %d bytes", name, r.limit))
	}
	r.entries = append(r.entries, entry{name: name, what: what, content: []byte(content)})
}

// local is a name that unpacks into the archive's folder, on any system: names of pods are in it.
func local(name string) string {
	name = strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("-_./", c) {
			return c
		}
		return '_'
	}, name)
	return strings.TrimPrefix(path.Clean("/"+strings.ReplaceAll(name, "..", "_")), "/")
}

// unique is the name, with a number where another file has it already.
func (r *reader) unique(name string) string {
	out := name
	for n := 2; slices.ContainsFunc(r.entries, func(e entry) bool { return e.name == out }); n++ {
		out = fmt.Sprintf("%s.%d", name, n)
	}
	return out
}

// miss notes what could not be read.
func (r *reader) miss(what string, err error) {
	if errors.Is(err, iostreams.ErrInterrupted) {
		return
	}
	if r.first == nil {
		r.first = err
	}
	text := r.redact.text(fmt.Sprintf("%s: %s", what, iostreams.Sentence(err)))
	r.missing = append(r.missing, text)
	r.warn("not in the report: " + text)
}

// list gives all objects of a query, and notes why they cannot be read. Then it is nil.
func (r *reader) list(ctx context.Context, q query) []unstructured.Unstructured {
	out, err := r.pages(ctx, q)
	if err != nil {
		r.miss(q.what, err)
	}
	return out
}

// pages gives all objects of a query, in the apiserver's order, which is that of names.
// Each page may take as long as any request.
func (r *reader) pages(ctx context.Context, q query) ([]unstructured.Unstructured, error) {
	out, resource := []unstructured.Unstructured{}, q.gvr()
	for q.options.Limit = 500; ; {
		list, err := r.dynamic.Resource(resource).Namespace(q.namespace).List(ctx, q.options)
		switch {
		case apierrors.IsNotFound(err) && resource.Group != "rrpool.io":
			return nil, fmt.Errorf("the cluster does not know %s", resource.GroupResource())
		case err != nil:
			return nil, r.c.Explain(err, "list", resource.GroupResource().String())
		}
		out = append(out, list.Items...)
		if q.options.Continue = list.GetContinue(); q.options.Continue == "" {
			return out, nil
		}
	}
}

// keep reads objects into a file, and gives them as they were read.
func (r *reader) keep(ctx context.Context, q query) []unstructured.Unstructured {
	found := r.list(ctx, q)
	if found == nil {
		return nil
	}
	kept := make([]unstructured.Unstructured, len(found))
	for i := range found {
		kept[i] = *found[i].DeepCopy()
		if q.slim != nil {
			q.slim(&kept[i])
		}
	}
	r.render("objects/"+q.file+".yaml", q.what, kept)
	return found
}

// render writes objects as YAML documents, as many as there is room for.
func (r *reader) render(name, what string, objects []unstructured.Unstructured) {
	var out strings.Builder
	for i := range objects {
		content, err := yaml.Marshal(r.redact.object(objects[i].Object))
		if err != nil {
			r.miss(what, err)
			return
		}
		if out.Len()+len(content) > r.limit {
			r.cut = append(r.cut, fmt.Sprintf("%s: the first %d of %d", name, i, len(objects)))
			fmt.Fprintf(&out, "# cut: the first %d of %d\n", i, len(objects))
			break
		}
		out.WriteString("---\n")
		out.Write(content)
	}
	if len(objects) == 0 {
		out.WriteString("# none\n")
	}
	r.add(name, fmt.Sprintf("%s: %d", what, len(objects)), out.String())
}

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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
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
	first error
	// What is read first and needed later.
	server        version.Info
	managerPods   []unstructured.Unstructured
	managerImages []string
	calicoVersion string
	calicoImages  []string
}

func newReader(c *cluster.Connection, namespace string, lines int64, now time.Time) (*reader, error) {
	config := rest.CopyConfig(c.Config)
	config.QPS = -1 // some thirty requests, one after the other
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the cluster of context %q: %w", c.Name, err)
	}
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the cluster of context %q: %w", c.Name, err)
	}
	r := &reader{c: c, dynamic: objects, kube: kube, namespace: namespace, lines: lines, now: now, redact: &redactor{}, limit: mostBytes, warn: func(string) {}}
	for _, own := range []string{c.Config.BearerToken, c.Config.Password, string(c.Config.KeyData)} {
		r.redact.learn(own, true)
	}
	return r, nil
}

// reach asks for the version, which every user may: a cluster that does not answer is asked nothing more.
func (r *reader) reach(ctx context.Context) error {
	content, err := r.kube.Discovery().RESTClient().Get().AbsPath("/version").Timeout(r.c.Timeout).Do(ctx).Raw()
	if err == nil {
		if err = yaml.Unmarshal(content, &r.server); err == nil {
			return nil
		}
	}
	var unreachable *url.Error
	switch {
	case ctx.Err() != nil:
		return iostreams.ErrInterrupted
	case errors.As(err, &unreachable), errors.Is(err, context.DeadlineExceeded), apierrors.IsUnauthorized(err):
		return r.c.Explain(err, "get", "/version")
	}
	r.miss("the version of Kubernetes", r.c.Explain(err, "get", "/version"))
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

// query names objects.
type query struct {
	resource  schema.GroupVersionResource
	namespace string
	options   metav1.ListOptions
}

// list gives all objects of a query, in the apiserver's order, which is that of names.
// Each page may take as long as any request.
func (r *reader) list(ctx context.Context, q query) ([]unstructured.Unstructured, error) {
	var out []unstructured.Unstructured
	q.options.Limit = 500
	for {
		list, err := r.dynamic.Resource(q.resource).Namespace(q.namespace).List(ctx, q.options)
		if err != nil {
			name := q.resource.GroupResource().String()
			if apierrors.IsNotFound(err) && q.resource.Group != "rrpool.io" {
				return nil, fmt.Errorf("the cluster does not know %s", name)
			}
			return nil, r.c.Explain(err, "list", name)
		}
		out = append(out, list.Items...)
		if q.options.Continue = list.GetContinue(); q.options.Continue == "" {
			return out, nil
		}
	}
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

// keep reads objects into a file, made slim before.
func (r *reader) keep(ctx context.Context, name, what string, q query, slim func(*unstructured.Unstructured)) []unstructured.Unstructured {
	objects, err := r.list(ctx, q)
	if err != nil {
		r.miss(what, err)
		return nil
	}
	out := make([]unstructured.Unstructured, len(objects))
	for i := range objects {
		out[i] = *objects[i].DeepCopy()
		if slim != nil {
			slim(&out[i])
		}
	}
	r.render(name, what, out)
	return objects
}

package report

import (
	"context"
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/rrpool/rrpool/cmd/rrpool/cluster"
	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
)

// reader reads a cluster into the files of an archive.
type reader struct {
	c         *cluster.Connection
	kube      kubernetes.Interface
	namespace string
	lines     int64
	now       time.Time
	redact    *redactor
	// warn reports at once what could not be read.
	warn func(string)

	// kubernetes is the version of the apiserver.
	kubernetes string
	// files are their contents by name.
	files   map[string]string
	missing []string
	// first is why the first thing could not be read.
	first error
}

func newReader(c *cluster.Connection, namespace string, lines int64, now time.Time) (*reader, error) {
	kube, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the cluster of context %q: %w", c.Name, err)
	}
	r := &reader{c: c, kube: kube, namespace: namespace, lines: lines, now: now, redact: &redactor{}, warn: func(string) {}, files: map[string]string{}}
	for _, own := range []string{c.Config.BearerToken, c.Config.Password, string(c.Config.KeyData)} {
		r.redact.learn(own, true)
	}
	return r, nil
}

// add puts a file into the archive. Everything passes here, and here known secrets and
// what looks like one are taken out, whatever was done before.
func (r *reader) add(name, content string) {
	r.files[local(name)] = r.redact.anywhere(content)
}

// odd are characters that no name of a file in the archive has.
var odd = regexp.MustCompile(`[^-_./A-Za-z0-9]`)

// local is a name that unpacks into the archive's folder, on any system: names of pods are in it.
func local(name string) string {
	name = strings.ReplaceAll(odd.ReplaceAllString(name, "_"), "..", "_")
	return strings.TrimPrefix(path.Clean("/"+name), "/")
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

// list gives all objects of a kind, in the apiserver's order, which is that of names.
func (r *reader) list(ctx context.Context, kind schema.GroupVersionKind, options ...client.ListOption) ([]unstructured.Unstructured, error) {
	var out []unstructured.Unstructured
	var page unstructured.UnstructuredList
	for {
		page.SetGroupVersionKind(kind)
		err := r.c.List(ctx, &page, append(options, client.Limit(500), client.Continue(page.GetContinue()))...)
		resource, _ := meta.UnsafeGuessKindToResource(kind)
		switch {
		case apierrors.IsNotFound(err) && kind.Group != "rrpool.io":
			return nil, fmt.Errorf("the cluster does not know %s", resource.GroupResource())
		case err != nil:
			return nil, r.c.Explain(err, "list", resource.GroupResource().String())
		}
		if out = append(out, page.Items...); page.GetContinue() == "" {
			return out, nil
		}
	}
}

// render writes objects as YAML documents.
func (r *reader) render(name string, objects []unstructured.Unstructured) {
	var out strings.Builder
	for i := range objects {
		content, err := yaml.Marshal(r.redact.object(objects[i].Object))
		if err != nil {
			r.miss(name, err)
			return
		}
		out.WriteString("---\n")
		out.Write(content)
	}
	if len(objects) == 0 {
		out.WriteString("# none\n")
	}
	r.add(name, out.String())
}

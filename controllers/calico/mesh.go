package calico

import (
	"encoding/json"
	"fmt"
	"time"

	apiv3 "github.com/projectcalico/api/pkg/apis/projectcalico/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rrpool/rrpool/controllers/plan"
)

// Annotations of the default BGPConfiguration.
const (
	// beforeAnnotation holds the mesh as it was before we switched it off.
	beforeAnnotation = "rrpool.io/mesh-before"
	// restoredAnnotation says when we switched it on again, in RFC 3339.
	restoredAnnotation = "rrpool.io/mesh-restored"
)

// defaultASN is the AS number of a cluster that does not say otherwise.
const defaultASN = 64512

// savedMesh is the content of beforeAnnotation, in Calico's own words so that
// nothing is lost in between.
type savedMesh struct {
	// Absent: there was no BGPConfiguration.
	Absent         bool               `json:"absent,omitempty"`
	Enabled        *bool              `json:"enabled,omitempty"`
	Password       *apiv3.BGPPassword `json:"password,omitempty"`
	MaxRestartTime *metav1.Duration   `json:"maxRestartTime,omitempty"`
}

func (m savedMesh) plan() plan.Mesh {
	return plan.Mesh{Enabled: m.Enabled, Password: refOf(m.Password), MaxRestartTime: durationOf(m.MaxRestartTime)}
}

// meshIn is the mesh as a BGPConfiguration has it.
func meshIn(spec apiv3.BGPConfigurationSpec) savedMesh {
	return savedMesh{
		Enabled: spec.NodeToNodeMeshEnabled, Password: spec.NodeMeshPassword, MaxRestartTime: spec.NodeMeshMaxRestartTime,
	}
}

// on: the mesh is on unless written otherwise.
func (m savedMesh) on() bool { return m.Enabled == nil || *m.Enabled }

// saved reads what we kept on a BGPConfiguration, nil for nothing.
func saved(o *apiv3.BGPConfiguration) (*savedMesh, error) {
	text, ok := o.Annotations[beforeAnnotation]
	if !ok {
		return nil, nil
	}
	out := &savedMesh{}
	if err := json.Unmarshal([]byte(text), out); err != nil {
		why := plan.Plain(err.Error(), 256) // it repeats what stands there
		return nil, fmt.Errorf("reading annotation %s=%.256q of BGPConfiguration %q: %s; it says how the mesh was before rrpool "+
			"(%s for a cluster without settings of its own): correct it", beforeAnnotation, text, o.Name, why, `{"absent":true}`)
	}
	return out, nil
}

// configOf maps the default BGPConfiguration.
func configOf(o *apiv3.BGPConfiguration) (plan.BGPConfig, error) {
	out := plan.BGPConfig{Exists: true, Mesh: meshIn(o.Spec).plan(), ASN: defaultASN}
	if o.Spec.ASNumber != nil {
		out.ASN = uint32(*o.Spec.ASNumber)
	}
	before, err := saved(o)
	if err != nil {
		return plan.BGPConfig{}, err
	}
	if before != nil {
		mesh := before.plan()
		out.Saved, out.SavedAbsent = &mesh, before.Absent
	}
	if at, ok := o.Annotations[restoredAnnotation]; ok {
		out.Restored = timeOf(at)
	}
	return out, nil
}

// keep renders what a DisableMesh wants to be kept. Where have or before says the
// same, it is kept in those words.
func keep(act plan.DisableMesh, have savedMesh, before *savedMesh) (string, error) {
	out := savedMesh{Absent: act.SavedAbsent, Enabled: act.Saved.Enabled, Password: passwordOf(act.Saved.Password)}
	if act.Saved.MaxRestartTime != nil {
		out.MaxRestartTime = &metav1.Duration{Duration: *act.Saved.MaxRestartTime}
	}
	sources := []savedMesh{have}
	if before != nil {
		sources = append(sources, *before)
	}
	for _, s := range sources {
		if s.Password != nil && plan.SameRef(refOf(s.Password), act.Saved.Password) {
			out.Password = s.Password
			break
		}
	}
	text, err := json.Marshal(out)
	if err != nil {
		return "", fmt.Errorf("noting how the mesh was: %w", err)
	}
	return string(text), nil
}

func sameMesh(a, b plan.Mesh) bool {
	sameEnabled := a.Enabled == b.Enabled || a.Enabled != nil && b.Enabled != nil && *a.Enabled == *b.Enabled
	return sameEnabled && plan.SameRef(a.Password, b.Password) && plan.SameDuration(a.MaxRestartTime, b.MaxRestartTime)
}

// rfc3339 is how times are written on objects.
func rfc3339(t time.Time) string { return t.UTC().Format(time.RFC3339) }

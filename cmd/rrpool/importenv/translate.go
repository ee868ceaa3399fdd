package importenv

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/config/crd"
)

// kind says what a note asks of its reader.
type kind string

const (
	// same: rrpool has the same, under another name.
	same kind = "same"
	// differs: rrpool has something like it; the note says what is different.
	differs kind = "differs"
	// none: rrpool has nothing like it, and why.
	none kind = "none"
	// act: something has to be done or decided by hand.
	act kind = "act"
)

// note says what became of one variable.
type note struct {
	Variable string `json:"variable,omitempty"`
	// Value as it was read, empty for the operator's default and for what is not shown.
	Value string `json:"value,omitempty"`
	// Field of the RouteReflectorPool, empty for none.
	Field string `json:"field,omitempty"`
	Kind  kind   `json:"kind"`
	Text  string `json:"text"`
	// Commands that have to be run for it.
	Commands []string `json:"commands,omitempty"`
}

// neverReflect marks nodes that are excluded where one selector cannot say it.
const neverReflect = "rrpool.io/never-reflect"

// translation is a RouteReflectorPool, and what there is to say about it.
type translation struct {
	from  variables
	s     settings
	zones int
	// counted: zones were counted in a cluster, or given.
	counted bool
	fields  []field
	notes   []note
}

// field is one line of the object with what explains it.
type field struct {
	depth      int
	key, value string
	notes      []note
}

// translate makes the object that asks for what the operator was told. zones is 0 when
// nobody knows.
func translate(v variables, zones int) (*translation, error) {
	s, err := settingsOf(v)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", v.source, err)
	}
	t := &translation{from: v, s: s, zones: zones, counted: zones > 0}
	if !t.counted {
		t.zones = usualZones
	}
	t.begin()
	t.provider()
	t.sizing()
	t.topology()
	t.label()
	t.rollout()
	t.leftOut()
	if _, err := crd.Read([]byte(t.yaml(0))); err != nil {
		return nil, fmt.Errorf("%s: the RouteReflectorPool would be refused: %w", v.source, err)
	}
	return t, nil
}

// usualZones stand in for a number of zones that nobody has counted.
const usualZones = 3

// add appends a field. What cannot be read is said with the field that it would be for.
func (t *translation) add(depth int, key, value string, notes ...note) {
	for i := range notes {
		if from := t.from.set[notes[i].Variable].from; from != "" {
			notes[i].Kind = act
			notes[i].Text = fmt.Sprintf("its value is not readable here (%s): this is the operator's default. Look it up and correct it; it is %s", from, notes[i].Text)
		}
	}
	t.fields = append(t.fields, field{depth, key, value, notes})
	t.notes = append(t.notes, notes...)
}

func (t *translation) about(variable, field string, k kind, format string, args ...any) note {
	value, _ := t.from.value(variable)
	return note{Variable: variable, Value: value, Field: field, Kind: k, Text: fmt.Sprintf(format, args...)}
}

func (t *translation) begin() {
	t.add(0, "apiVersion", v1alpha1.GroupVersion.String())
	t.add(0, "kind", "RouteReflectorPool")
	t.add(0, "metadata", "")
	t.add(1, "name", v1alpha1.SingletonName)
	t.add(0, "spec", "")
	t.add(1, "mode", string(v1alpha1.ModePaused), note{
		Field: "spec.mode", Kind: differs,
		Text: "nothing happens yet: rrpool plan shows what would, rrpool migrate sets RouteReflector. The operator has to be gone first: rrpool import-env --takeover says how",
	})
}

func (t *translation) provider() {
	t.add(1, "provider", "")
	t.add(2, "type", string(v1alpha1.ProviderExistingNodes), note{
		Field: "spec.provider.type", Kind: same,
		Text: "the operator only ever used nodes that are there. For a dedicated pool on IBM Cloud (IKS) say IKS, and leave out existingNodes",
	})
	if v, ok := t.from.set[incompatible]; !ok || v.from == "" && len(t.s.excluded) == 0 {
		t.add(2, "existingNodes", "", t.about(incompatible, "spec.provider.existingNodes.excluded", same, "no node is excluded"))
	} else {
		t.add(2, "existingNodes", "")
	}
	t.exclusions()
	t.add(3, "promotion", string(v1alpha1.PromotionStaged), note{
		Field: "spec.provider.existingNodes.promotion", Kind: differs,
		Text: "the operator changes a busy node at once, which costs its pods about 2 s each time; Staged loses nothing but with the first and the last reflector",
	})
}

// exclusions: a node with any of the operator's labels is out, while all requirements of
// a selector have to hold. So several labels need one that stands for them.
func (t *translation) exclusions() {
	const path = "spec.provider.existingNodes.excluded"
	switch len(t.s.excluded) {
	case 0:
		if t.from.set[incompatible].from != "" {
			t.add(3, "excluded", "{}", t.about(incompatible, path, act, "No node is excluded."))
		}
		return
	case 1:
		t.add(3, "excluded", "", t.about(incompatible, path, same, "nodes with this label are never chosen"))
		t.add(4, "matchExpressions", "")
		t.add(4, "- key", scalar(t.s.excluded[0].key))
		t.add(5, "operator", "In")
		t.add(5, "values", fmt.Sprintf("[%q]", t.s.excluded[0].value))
		return
	}
	n := t.about(incompatible, path, act, "the operator leaves out a node that has any of the labels, a selector means all of them together. "+
		"Label these nodes, and those that come later, before the mode is set")
	for _, l := range t.s.excluded {
		n.Commands = append(n.Commands, fmt.Sprintf("kubectl label nodes --selector '%s=%s' --overwrite %s=true", l.key, l.value, neverReflect))
	}
	t.add(3, "excluded", "", n)
	t.add(4, "matchExpressions", "")
	t.add(4, "- key", neverReflect)
	t.add(5, "operator", "Exists")
}

// ofKubernetes are the keys of labels that spec.bgp.nodeLabel cannot be.
var ofKubernetes = regexp.MustCompile(`^([^/]*[.])?(kubernetes|k8s)[.]io/`)

func (t *translation) label() {
	t.add(1, "bgp", "")
	const path = "spec.bgp.nodeLabel"
	if t.s.nodeKey == oldNodeLabel {
		t.add(2, "nodeLabel", "rrpool.io/route-reflector", t.about(nodeLabel, path, differs,
			"not the operator's %s, so that no node has two masters. The value of the label is always true", oldNodeLabel))
		return
	}
	if ofKubernetes.MatchString(t.s.nodeKey) && !strings.HasPrefix(t.s.nodeKey, "node-restriction.kubernetes.io/") {
		t.add(2, "nodeLabel", "rrpool.io/route-reflector", t.about(nodeLabel, path, differs,
			"not the operator's %s: rrpool writes no labels of Kubernetes. The value of the label is always true", t.s.nodeKey))
		return
	}
	text := "the same key. The old label has to be off all nodes before, or rrpool refuses (ForeignLabel)"
	if t.s.nodeValue != "true" {
		text += fmt.Sprintf(". Its value will be \"true\", not %q: selectors that ask for the value need to change", t.s.nodeValue)
	}
	t.add(2, "nodeLabel", scalar(t.s.nodeKey), t.about(nodeLabel, path, differs, "%s", text))
}

func (t *translation) topology() {
	t.add(1, "topology", "")
	n := t.about(arrangement, "spec.topology.type", same, "as in simple, every node peers with every reflector, and all reflectors share one cluster ID")
	if value, ok := t.from.value(arrangement); ok && value != "" && value != "simple" && value != "multi" {
		n.Text = fmt.Sprintf("the operator takes %q for simple: ", value) + n.Text
	}
	if t.s.multi {
		n.Kind = differs
		n.Text = "instead of multi: every node peers with every reflector, and all share one cluster ID. Cluster IDs of their own make the paths of each prefix grow " +
			"factorially on today's Calico. A reflector then has a session with every node: about 500 are fine on busy nodes, 2,000 on dedicated ones"
	}
	t.add(2, "type", string(v1alpha1.TopologySingle), n)
	id := t.about(clusterID, "spec.topology.clusterID", same, "the operator's; rrpool's own default is 244.0.0.1")
	if t.s.multi {
		id.Kind = differs
		id.Text = "one for all reflectors; multi makes another one for each of it"
	}
	t.add(2, "clusterID", t.s.clusterID, id)
	zone := t.about(zoneLabel, "spec.topology.zoneLabel", same, "the same label")
	key := t.s.zoneKey
	if key == "" {
		key = "topology.kubernetes.io/zone"
		zone.Kind = differs
		zone.Text = "the operator knows no zones; rrpool gives each zone the same number of reflectors. Nodes without this label are one zone"
	}
	t.add(2, "zoneLabel", scalar(key), zone)
}

func (t *translation) rollout() {
	t.add(1, "rollout", "")
	text := "rrpool waits for the BGP sessions that it sees, not for a time"
	if t.s.wait > 0 {
		text += ". The operator's wait holds up everything else it does, failed reflectors included"
	}
	t.add(2, "gate", string(v1alpha1.GateSessions), t.about(waitTimeout, "spec.rollout.gate", differs, "%s", text))
}

// leftOut tells of what has no field.
func (t *translation) leftOut() {
	store := t.about(datastore, "", same, "rrpool needs the Kubernetes datastore, which this is")
	switch from := t.from.set[datastore]; {
	case from.from != "":
		store.Kind, store.Text = act, fmt.Sprintf("its value is not readable here (%s): make sure that it is not etcdv3, which rrpool cannot use", from.from)
	case from.value == "":
		store.Kind, store.Text = act, "is not set, and the operator does not start without it. rrpool needs Calico's Kubernetes datastore: make sure that it is that"
	}
	t.notes = append(t.notes, store)
	if names := t.from.connections(); len(names) > 0 {
		t.notes = append(t.notes, note{
			Variable: strings.Join(names, ", "), Kind: none,
			Text: "rrpool's manager runs in the cluster and uses its own service account",
		})
	}
	for _, name := range t.from.unknown() {
		t.notes = append(t.notes, note{Variable: name, Kind: none, Text: "the operator has no such variable, and never read it: check its spelling"})
	}
	for _, from := range t.from.wholesale {
		t.notes = append(t.notes, note{
			Variable: from, Kind: act,
			Text: "all its keys are variables of the operator and are not readable here: put them into an env file, and give that with --env-file",
		})
	}
}

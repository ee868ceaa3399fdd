package importenv

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// settings are what the operator was told, with its own defaults filled in.
type settings struct {
	clusterID string
	min, max  int
	ratio     string
	// nodeKey and nodeValue are the label of its reflectors.
	nodeKey, nodeValue string
	// zoneKey is "" where it knows no zones.
	zoneKey string
	// excluded are label keys and values; a node that has any of them is left out.
	excluded []label
	multi    bool
	wait     int
}

type label struct{ key, value string }

// settingsOf reads the variables as the operator does, and refuses what it would not
// start with. Every problem is named, not only the first.
func settingsOf(v variables) (settings, error) {
	out := settings{clusterID: oldClusterID, min: oldMin, max: oldMax, ratio: oldRatio, nodeKey: oldNodeLabel}
	var problems []error
	for _, read := range []func(variables) error{
		datastoreOf, out.readClusterID, out.readSize, out.readRatio, out.readNodeLabel, out.readZoneLabel, out.readExcluded,
		out.readTopology, out.readWait,
	} {
		problems = append(problems, read(v))
	}
	err := errors.Join(problems...)
	if err != nil {
		err = errors.New(strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return out, err
}

func datastoreOf(v variables) error {
	switch value, ok := v.value(datastore); {
	case !ok, value == "incluster", value == "kubernetes":
		return nil
	case strings.HasPrefix(value, "etcd"):
		return fmt.Errorf("%s: %q: rrpool needs Calico's Kubernetes datastore: move Calico to it first (calicoctl datastore migrate), or stay with what you have", datastore, value)
	default:
		return fmt.Errorf("%s: %q is not a datastore, and the operator does not start with it: write incluster or kubernetes", datastore, value)
	}
}

func (s *settings) readClusterID(v variables) error {
	value, ok := v.value(clusterID)
	if !ok {
		return nil
	}
	addr, err := netip.ParseAddr(value)
	if err != nil || !addr.Is4() || addr.IsUnspecified() {
		return fmt.Errorf("%s: %q is no cluster ID: write four numbers from 0 to 255 as in 224.0.0.1, and not 0.0.0.0", clusterID, value)
	}
	s.clusterID = value
	return nil
}

func (s *settings) readSize(v variables) error {
	err := errors.Join(number(v, least, &s.min, 1, 50), number(v, most, &s.max, 5, 50))
	if err == nil && s.min > s.max {
		return fmt.Errorf("%s: %d is more than %s, which is %d: lower the one or raise the other", least, s.min, most, s.max)
	}
	return err
}

// number reads a whole number within the operator's own bounds.
func number(v variables, name string, into *int, low, high int) error {
	text, ok := v.value(name)
	if !ok {
		return nil
	}
	value, err := strconv.Atoi(text)
	if err != nil || value < low || value > high {
		return fmt.Errorf("%s: %q: the operator does not start with it: write a whole number from %d to %d", name, text, low, high)
	}
	*into = value
	return nil
}

func (s *settings) readRatio(v variables) error {
	text, ok := v.value(ratio)
	if !ok {
		return nil
	}
	value, err := strconv.ParseFloat(text, 64)
	if err != nil || !(value >= 0.001 && value <= 0.05) {
		return fmt.Errorf("%s: %q: the operator does not start with it: write a decimal from 0.001 to 0.05", ratio, text)
	}
	// Our API takes plain decimals of few digits, the operator takes 5e-3 as well.
	s.ratio = strconv.FormatFloat(value, 'f', -1, 64)
	if len(s.ratio) > 16 {
		return fmt.Errorf("%s: %q has too many digits: write at most 14 behind the point", ratio, text)
	}
	return nil
}

func (s *settings) readNodeLabel(v variables) error {
	text, ok := v.value(nodeLabel)
	if !ok {
		return nil
	}
	key, value, assigned := strings.Cut(text, "=")
	if !assigned {
		return fmt.Errorf("%s: %q has no \"=\", and the operator panics at it: write %q for the label without a value", nodeLabel, text, text+"=")
	}
	if err := checkLabel(nodeLabel, text, key, value); err != nil {
		return err
	}
	s.nodeKey, s.nodeValue = key, value
	return nil
}

func (s *settings) readZoneLabel(v variables) error {
	key, ok := v.value(zoneLabel)
	if !ok || key == "" {
		return nil
	}
	if err := checkLabel(zoneLabel, key, key, ""); err != nil {
		return err
	}
	if other, ok := v.value(nodeLabel); ok && strings.HasPrefix(other, key+"=") {
		return fmt.Errorf("%s: %q is the label of %s as well: marking a reflector would overwrite its zone: use two labels", zoneLabel, key, nodeLabel)
	}
	s.zoneKey = key
	return nil
}

func (s *settings) readExcluded(v variables) error {
	text, ok := v.value(incompatible)
	if !ok || strings.TrimSpace(text) == "" {
		return nil
	}
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		key, value, assigned := strings.Cut(part, "=")
		if !assigned {
			return fmt.Errorf("%s: %q has no \"=\", and the operator panics at it, whatever its README says: write %q with the value that excludes a node, "+
				"or leave it out and exclude the nodes that have the label by spec.provider.existingNodes.excluded", incompatible, part, part+"=value")
		}
		if err := checkLabel(incompatible, part, key, value); err != nil {
			return err
		}
		// It keeps them by key: of two with the same key the last one counts.
		s.excluded = slices.DeleteFunc(s.excluded, func(l label) bool { return l.key == key })
		s.excluded = append(s.excluded, label{key, value})
	}
	return nil
}

func (s *settings) readTopology(v variables) error {
	value, _ := v.value(arrangement)
	s.multi = value == "multi"
	return nil
}

func (s *settings) readWait(v variables) error {
	return number(v, waitTimeout, &s.wait, 0, 1<<31-1)
}

func checkLabel(variable, text, key, value string) error {
	if len(validation.IsQualifiedName(key)) > 0 {
		return fmt.Errorf("%s: %q: %q is no label key: write an optional DNS prefix and \"/\", then at most 63 letters, digits, '-', '_' and '.'", variable, text, key)
	}
	if len(validation.IsValidLabelValue(value)) > 0 {
		return fmt.Errorf("%s: %q: %q is no label value: write at most 63 letters, digits, '-', '_' and '.'", variable, text, value)
	}
	return nil
}

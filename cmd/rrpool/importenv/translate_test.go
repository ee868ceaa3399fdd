package importenv

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
	"github.com/rrpool/rrpool/config/crd"
	"github.com/rrpool/rrpool/controllers/plan/sizing"
	"github.com/rrpool/rrpool/test/cli"
)

const zoneKey = "topology.kubernetes.io/zone"

// cases are what the operator may have been told, and what is asked of rrpool then.
var cases = map[string]struct {
	env   []string
	args  []string
	holds func(*require.Assertions, v1alpha1.RouteReflectorPoolSpec)
}{
	"defaults": {
		env: []string{datastore, "incluster"},
		holds: func(r *require.Assertions, s v1alpha1.RouteReflectorPoolSpec) {
			r.Equal(v1alpha1.SizingSpec{Method: "Linear", Ratio: "0.005", Min: 3, Max: 10, MinPerZone: 1}, s.Sizing)
			r.Equal("224.0.0.0", s.Topology.ClusterID)
			r.Equal("rrpool.io/route-reflector", s.BGP.NodeLabel)
		},
	},
	"every-number": {
		env: []string{datastore, "kubernetes", least, "5", most, "20", ratio, "1e-2", clusterID, "10.1.2.3", waitTimeout, "30", arrangement, "simple"},
		holds: func(r *require.Assertions, s v1alpha1.RouteReflectorPoolSpec) {
			r.Equal(v1alpha1.SizingSpec{Method: "Linear", Ratio: "0.01", Min: 5, Max: 20, MinPerZone: 1}, s.Sizing)
			r.Equal("10.1.2.3", s.Topology.ClusterID)
		},
	},
	"zones-counted-by-nobody": {
		env: []string{datastore, "incluster", zoneLabel, zoneKey},
		holds: func(r *require.Assertions, s v1alpha1.RouteReflectorPoolSpec) {
			r.Equal(v1alpha1.SizingSpec{Method: "Linear", Ratio: "0.005", Min: 3, Max: 30, MinPerZone: 3}, s.Sizing)
		},
	},
	"zones-given": {
		env: []string{datastore, "incluster", zoneLabel, "example.com/zone", least, "2", most, "5"}, args: []string{"--zones", "4"},
		holds: func(r *require.Assertions, s v1alpha1.RouteReflectorPoolSpec) {
			r.Equal(v1alpha1.SizingSpec{Method: "Linear", Ratio: "0.005", Min: 2, Max: 20, MinPerZone: 2}, s.Sizing)
			r.Equal("example.com/zone", s.Topology.ZoneLabel)
		},
	},
	"multi": {
		env: []string{datastore, "incluster", arrangement, "multi", zoneLabel, zoneKey, least, "6", most, "12"},
		holds: func(r *require.Assertions, s v1alpha1.RouteReflectorPoolSpec) {
			r.Equal(v1alpha1.TopologySingle, s.Topology.Type)
			r.Equal(v1alpha1.SizingSpec{Method: "Linear", Ratio: "0.005", Min: 6, Max: 12, MinPerZone: 1}, s.Sizing, "for the cluster, not for each zone")
		},
	},
	"a-number-that-zones-cannot-share": {
		env: []string{datastore, "incluster", least, "5", most, "5"},
		holds: func(r *require.Assertions, s v1alpha1.RouteReflectorPoolSpec) {
			r.Equal(int32(6), s.Sizing.Max)
		},
	},
	"one-excluded-label": {
		env: []string{datastore, "incluster", incompatible, " node-role.kubernetes.io/master= "},
		holds: func(r *require.Assertions, s v1alpha1.RouteReflectorPoolSpec) {
			r.Equal(metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: "node-role.kubernetes.io/master", Operator: "In", Values: []string{""}},
			}}, s.Provider.ExistingNodes.Excluded)
		},
	},
	"the-same-excluded-label-twice": {
		env: []string{datastore, "incluster", incompatible, "size=small,size=true"},
		holds: func(r *require.Assertions, s v1alpha1.RouteReflectorPoolSpec) {
			r.Equal([]string{"true"}, s.Provider.ExistingNodes.Excluded.MatchExpressions[0].Values, "as the operator has it")
		},
	},
	"several-excluded-labels": {
		env: []string{datastore, "incluster", incompatible, "spot=true,size=small"},
		holds: func(r *require.Assertions, s v1alpha1.RouteReflectorPoolSpec) {
			r.Equal([]metav1.LabelSelectorRequirement{{Key: neverReflect, Operator: "Exists"}}, s.Provider.ExistingNodes.Excluded.MatchExpressions)
		},
	},
	"a-label-of-its-own": {
		env: []string{datastore, "incluster", nodeLabel, "example.com/rr=yes"},
		holds: func(r *require.Assertions, s v1alpha1.RouteReflectorPoolSpec) {
			r.Equal("example.com/rr", s.BGP.NodeLabel)
		},
	},
	"a-label-of-kubernetes": {
		env: []string{datastore, "incluster", nodeLabel, "node-role.kubernetes.io/reflector="},
		holds: func(r *require.Assertions, s v1alpha1.RouteReflectorPoolSpec) {
			r.Equal("rrpool.io/route-reflector", s.BGP.NodeLabel)
		},
	},
	"a-label-that-yaml-would-take-for-something-else": {
		env: []string{datastore, "incluster", nodeLabel, "true=", zoneLabel, "1.5"},
		holds: func(r *require.Assertions, s v1alpha1.RouteReflectorPoolSpec) {
			r.Equal("true", s.BGP.NodeLabel)
			r.Equal("1.5", s.Topology.ZoneLabel)
		},
	},
	"an-unknown-topology": {env: []string{datastore, "incluster", arrangement, "star: [\"\n#"}},
	"no-datastore":        {env: []string{most, "10"}},
}

// Whatever the operator was told, the answer is a RouteReflectorPool that the apiserver
// takes, that does nothing yet, and that can be sized.
func TestTranslations(t *testing.T) {
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := askIn(t, set(tc.env...), tc.args...)
			require.Zero(t, got.Code, got.Err)
			require.Contains(t, got.Err, "next: rrpool import-env --takeover")
			object, err := crd.Read([]byte(got.Out))
			require.NoError(t, err)
			require.Equal(t, v1alpha1.ModePaused, object.Spec.Mode)
			require.Equal(t, v1alpha1.ProviderExistingNodes, object.Spec.Provider.Type)
			for _, nodes := range []int{1, 30, 500, 5000} {
				for _, zones := range []int{1, 3} {
					_, err := sizing.Reflectors(object.Spec.Sizing, nodes, zones)
					require.NoError(t, err, "%d nodes, %d zones", nodes, zones)
				}
			}
			if tc.holds != nil {
				tc.holds(require.New(t), object.Spec)
			}
			cli.Golden(t, filepath.Join("pool", name+".golden"), got.Out)
			rendered := askIn(t, set(tc.env...), append(tc.args, "-o", "json")...)
			require.Zero(t, rendered.Code, rendered.Err)
			cli.Golden(t, filepath.Join("pool", name+".json.golden"), rendered.Out)
			requireSame(t, object, rendered.Out)
		})
	}
}

// requireSame: -o json has the same object.
func requireSame(t *testing.T, want *v1alpha1.RouteReflectorPool, text string) {
	t.Helper()
	var doc struct {
		SchemaVersion string          `json:"schemaVersion"`
		Pool          json.RawMessage `json:"pool"`
		Notes         []note          `json:"notes"`
	}
	require.NoError(t, json.Unmarshal([]byte(text), &doc))
	require.Equal(t, "rrpool.io/import-env/v1", doc.SchemaVersion)
	require.NotEmpty(t, doc.Notes)
	got, err := crd.Read(doc.Pool)
	require.NoError(t, err)
	require.Equal(t, want, got)
}

// Each variable is named, whether it is set or not.
func TestEachVariableIsToldOf(t *testing.T) {
	got := askIn(t, set(datastore, "incluster"))
	for _, name := range known {
		require.Contains(t, got.Out, name)
	}
}

// A narrow terminal folds comments, and never a command.
func TestNarrowTerminals(t *testing.T) {
	got := askIn(t, iostreams.Streams{Terminal: true, Width: 60, Getenv: cli.Environment(datastore, "incluster", incompatible, "a=1,b=2", "NO_COLOR", "1")})
	require.Zero(t, got.Code, got.Err)
	for line := range strings.SplitSeq(got.Out, "\n") {
		if !strings.Contains(line, "#   kubectl") {
			require.LessOrEqual(t, len([]rune(line)), 60, line)
		}
	}
	_, err := crd.Read([]byte(got.Out))
	require.NoError(t, err)
}

func TestBadValues(t *testing.T) {
	for name, tc := range map[string]struct {
		env  []string
		says []string
	}{
		"no variable at all":               {nil, []string{"no variable of the operator", "give --env-file"}},
		"etcd":                             {[]string{datastore, "etcdv3"}, []string{datastore, `"etcdv3"`, "Kubernetes datastore", "calicoctl datastore migrate"}},
		"an unknown datastore":             {[]string{datastore, "sqlite"}, []string{datastore, `"sqlite"`, "write incluster or kubernetes"}},
		"a cluster ID that is none":        {[]string{clusterID, "one"}, []string{clusterID, `"one"`, "four numbers"}},
		"a cluster ID of zeros":            {[]string{clusterID, "0.0.0.0"}, []string{clusterID, `"0.0.0.0"`, "not 0.0.0.0"}},
		"a cluster ID of six":              {[]string{clusterID, "::1"}, []string{clusterID, `"::1"`}},
		"a minimum in words":               {[]string{least, "three"}, []string{least, `"three"`, "whole number from 1 to 50"}},
		"a negative minimum":               {[]string{least, "-3"}, []string{least, `"-3"`, "from 1 to 50"}},
		"a maximum below five":             {[]string{most, "4"}, []string{most, `"4"`, "from 5 to 50"}},
		"a maximum beyond all numbers":     {[]string{most, "99999999999999999999"}, []string{most, "from 5 to 50"}},
		"a minimum above the maximum":      {[]string{least, "20"}, []string{least, "20", most, "10", "lower the one or raise the other"}},
		"a ratio that is too small":        {[]string{ratio, "0.0001"}, []string{ratio, `"0.0001"`, "from 0.001 to 0.05"}},
		"a ratio that is no number":        {[]string{ratio, "NaN"}, []string{ratio, `"NaN"`}},
		"a ratio with a comma":             {[]string{ratio, "0,005"}, []string{ratio, `"0,005"`}},
		"a ratio with too many digits":     {[]string{ratio, "0.0012345678901234567"}, []string{ratio, "too many digits"}},
		"a label that is a key":            {[]string{nodeLabel, "rr"}, []string{nodeLabel, `"rr" has no "="`, "panics", `write "rr="`}},
		"a label that is no label":         {[]string{nodeLabel, "a b="}, []string{nodeLabel, `"a b"`, "no label key"}},
		"a label value that is none":       {[]string{nodeLabel, "a=b=c"}, []string{nodeLabel, `"b=c"`, "no label value"}},
		"an excluded key":                  {[]string{incompatible, "a=b,spot"}, []string{incompatible, `"spot" has no "="`, "panics", "existingNodes.excluded"}},
		"an excluded nothing":              {[]string{incompatible, "a=b,"}, []string{incompatible, `"" has no "="`}},
		"a zone label that is none":        {[]string{zoneLabel, "a=b"}, []string{zoneLabel, `"a=b"`, "no label key"}},
		"one label for zone and reflector": {[]string{zoneLabel, "zone", nodeLabel, "zone=x"}, []string{zoneLabel, nodeLabel, "use two labels"}},
		"a wait that is no number":         {[]string{waitTimeout, "5s"}, []string{waitTimeout, `"5s"`, "whole number"}},
		"several at once":                  {[]string{waitTimeout, "x", least, "y"}, []string{waitTimeout, least, `"y"`, "; "}},
		"an unknown format":                {[]string{"o", "table"}, []string{"--output", `"table"`, "use yaml, json"}},
		"no zones":                         {[]string{"zones", "0"}, []string{"--zones", "from 1 to 100"}},
	} {
		t.Run(name, func(t *testing.T) {
			var args []string
			if len(tc.env) == 2 && !strings.Contains(tc.env[0], "_") {
				args = []string{map[string]string{"o": "-o", "zones": "--zones"}[tc.env[0]], tc.env[1]}
			}
			got := askIn(t, set(tc.env...), args...)
			require.Equal(t, 1, got.Code)
			require.Empty(t, got.Out)
			cli.RequireSentence(t, got.Err, tc.says...)
		})
	}
}

type closed struct{}

func (closed) Write([]byte) (int, error) { return 0, syscall.EPIPE }

// A reader that has seen enough is no failure.
func TestAClosedPipe(t *testing.T) {
	got := askIn(t, iostreams.Streams{Out: closed{}, Getenv: cli.Environment(datastore, "incluster")})
	require.Zero(t, got.Code)
	got = askIn(t, iostreams.Streams{Out: closed{}}, "--takeover", "--kubeconfig", cli.Serve(t, world(3)))
	require.Zero(t, got.Code)
}

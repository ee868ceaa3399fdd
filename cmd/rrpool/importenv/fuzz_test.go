package importenv

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/cmd/rrpool/iostreams"
	"github.com/rrpool/rrpool/config/crd"
)

// Whatever stands in an env file, it becomes an object that an apiserver takes, or one
// sentence about the line or the variable. Values of variables that only connect do not
// show: passwords are among them.
func FuzzEnvImport(f *testing.F) {
	for _, seed := range []string{
		"ROUTE_REFLECTOR_MIN=3\nROUTE_REFLECTOR_MAX=10\nROUTE_REFLECTOR_RATIO=0.005\nROUTE_REFLECTOR_TOPOLOGY=multi\n",
		"export ROUTE_REFLECTOR_NODE_LABEL=\"a/b=c\" # why\r\nROUTE_REFLECTOR_ZONE_LABEL='zone'\r\nDATASTORE_TYPE=kubernetes\r\nETCD_PASSWORD=hush-hush\r\n",
		"ROUTE_REFLECTOR_INCOMPATIBLE_NODE_LABELS=a=b,c=,a=d\nROUTE_REFLECTOR_CLUSTER_ID=224.0.0.0\nROUTE_REFLECTOR_WAIT_TIMEOUT=2147483647",
		"ROUTE_REFLECTOR_CLUSTER_ID=::1", "ROUTE_REFLECTOR_RATIO=5e-3", "ROUTE_REFLECTOR_RATIO=NaN", "ROUTE_REFLECTOR_RATIO=0x1p-9", "ROUTE_REFLECTOR_NODE_LABEL==",
		"ROUTE_REFLECTOR_EXTRA=a\u2028spec: {mode: FullMesh}\n", "ROUTE_REFLECTOR_TOPOLOGY=\x1b[2J\u0085mode: FullMesh", "ROUTE_REFLECTOR_NODE_LABEL=yes=no",
		"\ufeffROUTE_REFLECTOR_MIN=\"3", "hush-hush", "ROUTE_REFLECTOR_ZONE_LABEL=true\nROUTE_REFLECTOR_NODE_LABEL=1=1", "",
	} {
		f.Add(seed, uint8(3))
	}
	f.Fuzz(func(t *testing.T, text string, zones uint8) {
		v, err := ofEnvText("operator.env", text)
		if err != nil {
			require.True(t, strings.HasPrefix(err.Error(), "--env-file: operator.env"), err.Error())
			return
		}
		translated, err := translate(v, int(zones%8))
		if err != nil {
			require.NotEmpty(t, err.Error())
			require.NotContains(t, err.Error(), "would be refused", "what the operator takes, we can say")
			return
		}
		text = iostreams.Visible(translated.yaml(0))
		object, err := crd.Read([]byte(text))
		require.NoError(t, err, "%s", text)
		require.Equal(t, "default", object.Name)
		for _, name := range v.connections() {
			if value := v.set[name].value; len(value) > 8 && strings.HasPrefix(value, "hush") {
				require.NotContains(t, text, value)
			}
		}
		var out bytes.Buffer
		require.NoError(t, translated.render(iostreams.Streams{Out: &out}, "json"))
		require.True(t, json.Valid(out.Bytes()))
	})
}

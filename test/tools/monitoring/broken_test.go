package monitoring_test

import (
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"
)

var turned = map[parser.ItemType]parser.ItemType{parser.EQLC: parser.NEQ, parser.LSS: parser.GTE, parser.GTR: parser.LTE, parser.GTE: parser.LSS}

// broken gives an expression with each comparison turned round, each clause left out, each threshold moved by a quarter, and each
// matcher made to match nothing.
func broken(t *testing.T, text string) []string {
	t.Helper()
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(text)
	require.NoError(t, err)
	var out []string
	note := func() { out = append(out, expr.String()) }
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		switch n := node.(type) {
		case *parser.BinaryExpr:
			was := *n
			if op, ok := turned[was.Op]; ok {
				n.Op = op
				note()
			}
			if was.Op.IsSetOperator() { // x and x is x
				n.Op, n.RHS, n.VectorMatching = parser.LAND, was.LHS, &parser.VectorMatching{Card: parser.CardManyToMany}
				note()
			}
			*n = was
		case *parser.NumberLiteral:
			was := n.Val
			for _, factor := range []float64{.75, 1.25} {
				if n.Val = was * factor; was > 1 || was > 0 && was < 1 {
					note()
				}
			}
			n.Val = was
		case *parser.VectorSelector:
			for _, m := range n.LabelMatchers {
				if m.Name != "__name__" {
					was := *m
					m.Value = "nothing"
					note()
					*m = was
				}
			}
		}
		return nil
	})
	return out
}

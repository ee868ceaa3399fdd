package monitoring_test

import (
	"slices"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"
)

// broken gives an expression with each part changed.
func broken(t *testing.T, text string) []string {
	t.Helper()
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(text)
	require.NoError(t, err)
	var out []string
	note := func() { out = append(out, expr.String()) }
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		switch n := node.(type) {
		case *parser.BinaryExpr:
			breakOperator(n, note)
		case *parser.NumberLiteral:
			breakNumber(n, note)
		case *parser.VectorSelector:
			breakMatchers(n, note)
		case *parser.AggregateExpr:
			breakAggregate(n, note)
		case *parser.SubqueryExpr:
			breakWindow(&n.Range, n.Step, note)
		case *parser.MatrixSelector:
			breakWindow(&n.Range, n.Range/4, note)
		}
		return nil
	})
	return out
}

// breakOperator turns a comparison round, and leaves a clause out.
func breakOperator(n *parser.BinaryExpr, note func()) {
	was := *n
	for _, op := range turned[was.Op] {
		n.Op = op
		note()
		*n = was
	}
	alone := func(side parser.Expr) { // x and x is x
		n.LHS, n.RHS, n.Op = side, side, parser.LAND
		n.VectorMatching = &parser.VectorMatching{Card: parser.CardManyToMany}
		note()
		*n = was
	}
	switch {
	case was.Op == parser.LOR:
		alone(was.LHS)
		alone(was.RHS)
	case was.Op == parser.LAND, was.Op == parser.LUNLESS:
		alone(was.LHS)
	case was.Op == parser.MUL && was.RHS.Type() == parser.ValueTypeVector:
		alone(was.LHS)
		alone(was.RHS)
	}
}

// breakNumber moves a threshold by a quarter.
func breakNumber(n *parser.NumberLiteral, note func()) {
	was := n.Val
	if was == 0 || was == 1 {
		return
	}
	for _, factor := range []float64{.75, 1.25} {
		n.Val = was * factor
		note()
	}
	n.Val = was
}

// breakMatchers lets a matcher match nothing.
func breakMatchers(n *parser.VectorSelector, note func()) {
	for _, m := range n.LabelMatchers {
		if m.Name != "__name__" {
			was := *m
			m.Value = "nothing"
			note()
			*m = was
		}
	}
}

// breakAggregate keeps a label that is not to be kept, or the other way round, and takes the greatest for the sum.
func breakAggregate(n *parser.AggregateExpr, note func()) {
	grouping, op := n.Grouping, n.Op
	for i := range grouping {
		n.Grouping = slices.Delete(slices.Clone(grouping), i, i+1)
		if i == len(grouping)-1 || !n.Without {
			note()
		}
	}
	n.Grouping = grouping
	if op == parser.SUM {
		n.Op = parser.MAX
		note()
		n.Op = op
	}
}

// breakWindow looks back hardly at all, and for much longer. What is a day and more is long enough for any test.
func breakWindow(window *time.Duration, least time.Duration, note func()) {
	was := *window
	*window = least
	if was >= 24*time.Hour {
		*window = 5 * time.Minute
	}
	note()
	if was < 24*time.Hour {
		*window = 6 * was
		note()
	}
	*window = was
}

var turned = map[parser.ItemType][]parser.ItemType{
	parser.EQLC: {parser.NEQ},
	parser.LSS:  {parser.GTE, parser.LTE},
	parser.GTR:  {parser.LTE},
	parser.GTE:  {parser.LSS},
}

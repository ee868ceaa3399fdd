package iostreams

import (
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// Gap is between columns.
const Gap = "  "

// NewTable makes a table in our style: no frame, a line below the header.
func NewTable() table.Writer {
	w := table.NewWriter()
	style := table.StyleDefault
	style.Options = table.Options{SeparateHeader: true}
	style.Box.PaddingLeft, style.Box.PaddingRight = "", Gap
	style.Box.MiddleHorizontal = "-"
	style.Format.Header = text.FormatDefault
	w.SetStyle(style)
	w.SuppressTrailingSpaces()
	return w
}

// Right sets a column, counted from 1, to the right.
func Right(column int) table.ColumnConfig {
	return table.ColumnConfig{Number: column, Align: text.AlignRight, AlignHeader: text.AlignRight}
}

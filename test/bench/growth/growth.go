// Package growth tells how figures grow with a size. Absolute times are a machine's; how they grow is the program's.
package growth

import (
	"errors"
	"fmt"
	"math"
)

// Point is a figure at a size. Both are positive.
type Point struct {
	Size, Value float64
}

// Step is how much the size and the figure are multiplied from one point to the next.
type Step struct {
	Size, Value float64
}

// Exponent of the step: 1 is linear, 2 is quadratic.
func (s Step) Exponent() float64 { return math.Log(s.Value) / math.Log(s.Size) }

// Steps are those between neighbouring points, whose sizes must ascend.
func Steps(points []Point) ([]Step, error) {
	if err := check(points); err != nil {
		return nil, err
	}
	var steps []Step
	for i := 1; i < len(points); i++ {
		steps = append(steps, Step{Size: points[i].Size / points[i-1].Size, Value: points[i].Value / points[i-1].Value})
	}
	return steps, nil
}

// Fit is the exponent b of the power law value = a·size^b that fits all points best: least squares of the logarithms, so every point
// counts for its ratio, not for its height.
func Fit(points []Point) (exponent float64, err error) {
	if err := check(points); err != nil {
		return 0, err
	}
	if len(points) < 2 {
		return 0, errors.New("one size shows no growth")
	}
	var meanX, meanY float64
	for _, p := range points {
		meanX += math.Log(p.Size) / float64(len(points))
		meanY += math.Log(p.Value) / float64(len(points))
	}
	var xy, xx float64
	for _, p := range points {
		x := math.Log(p.Size) - meanX
		xy += x * (math.Log(p.Value) - meanY)
		xx += x * x
	}
	return xy / xx, nil
}

func check(points []Point) error {
	for i, p := range points {
		if p.Size <= 0 || p.Value <= 0 {
			return fmt.Errorf("%g at size %g has no logarithm", p.Value, p.Size)
		}
		if i > 0 && p.Size <= points[i-1].Size {
			return fmt.Errorf("size %g follows %g: sizes must ascend", p.Size, points[i-1].Size)
		}
	}
	return nil
}

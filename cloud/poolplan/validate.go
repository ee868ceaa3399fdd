package poolplan

import (
	"fmt"

	"github.com/rrpool/rrpool/cloud"
)

// Validate refuses a spec that can never be fulfilled.
func Validate(want cloud.PoolSpec) error {
	if want.SizePerZone < 1 {
		return invalid("size per zone is %d, it must be at least 1", want.SizePerZone)
	}
	if len(want.Taints) == 0 {
		return invalid("no taint is given, so any pod would run on the pool")
	}
	seen := map[string]bool{}
	for _, t := range want.Taints {
		switch {
		case t.Key == "" || t.Value == "":
			return invalid("taint %q has no key or no value", t.Key+"="+t.Value+":"+t.Effect)
		case t.Effect != "NoSchedule" && t.Effect != "PreferNoSchedule" && t.Effect != "NoExecute":
			return invalid("taint %q has the effect %q; use NoSchedule, PreferNoSchedule or NoExecute", t.Key, t.Effect)
		case seen[t.Key]:
			return invalid("taint %q is given twice; a pool has one taint per key", t.Key)
		}
		seen[t.Key] = true
	}
	return nil
}

func invalid(format string, args ...any) error {
	return &cloud.Error{Kind: cloud.InvalidInput, Op: "checking the wanted pool", Message: fmt.Sprintf(format, args...)}
}

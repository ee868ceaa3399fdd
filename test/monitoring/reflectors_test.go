//go:build linux

package monitoring_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/projectcalico/calico/libcalico-go/lib/options"
	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/test/e2e/site"
	"github.com/rrpool/rrpool/test/lab"
)

// limit is how long any one wait may take on a slow machine.
const limit = 4 * time.Minute

// all is how many reflectors a small cluster has.
const all = 3

// A cluster is migrated, its manager replaced, a reflector dies, then all of them, and each time they come back. Of
// the alerts of config/monitoring, evaluated on what the manager served meanwhile, exactly those fire that should.
func TestKillingReflectorsFiresTheExpectedAlerts(t *testing.T) {
	lab.SkipLong(t)
	ctx, s := site.ForTest(t, site.Options{})
	require.NoError(t, s.StartManager())
	p := startScraper(t, ctx, s)
	leads := func(s scrape) bool {
		_, looked := s.values["rrpool_object_present"]
		return looked && s.values["rrpool_leader"] == 1
	}
	p.until(t, "a manager that leads, and has looked", leads)

	require.NoError(t, s.CreatePool(ctx, nil))
	migration := p.until(t, "the migration", serving(all, "off"))
	require.NoError(t, s.StopManager())
	require.NoError(t, s.StartManager())
	replaced := p.until(t, "another manager", serving(all, "off"))

	reflectors := s.Reflectors()
	require.Len(t, reflectors, all)
	require.NoError(t, s.Lab.Shutdown(ctx, reflectors[0]))
	oneDead := p.until(t, "a dead reflector", serving(2, "off"))
	require.NoError(t, s.Lab.PowerOn(ctx, reflectors[0]))
	oneBack := p.until(t, "its return", serving(all, "off"))

	for _, name := range reflectors {
		require.NoError(t, s.Lab.Shutdown(ctx, name))
	}
	allDead := p.until(t, "no reflector, and the mesh", serving(0, "on"))
	for _, name := range reflectors {
		require.NoError(t, s.Lab.PowerOn(ctx, name))
	}
	allBack := p.until(t, "the reflectors' return", serving(all, "on"))
	forgive(t, ctx, s)
	healed := p.until(t, "the end of the mesh", serving(all, "off"))

	const linger = 10 * time.Minute // an alert that is over fires for 5 minutes more
	phases := []phase{
		{name: "migration", scrapes: migration, stretch: asLongAsReal(migration), hold: time.Hour},
		{name: "the manager is replaced", scrapes: replaced, stretch: time.Second, hold: time.Hour},
		{name: "one is dead", scrapes: oneDead, stretch: time.Second, hold: 90 * time.Minute, fires: []string{"RRPoolRedundancyReduced warning"}},
		{name: "it is back", scrapes: oneBack, stretch: time.Second, hold: time.Hour, settle: linger},
		{name: "all are dead", scrapes: allDead, stretch: time.Second, hold: 90 * time.Minute, fires: []string{"RRPoolMeshRestored warning"}},
		{name: "all are back", scrapes: slices.Concat(allBack, healed), stretch: time.Second, hold: time.Hour, settle: linger},
	}
	require.NoError(t, promtool(t, "lab", phases))
	documented(t, p)

	// Without the dead reflectors, what is expected of them does not come.
	for _, i := range []int{2, 4} {
		healthy := slices.Clone(phases)
		healthy[i].scrapes = replaced
		require.ErrorContains(t, promtool(t, "healthy", healthy), healthy[i].fires[0][:len("RRPoolMeshRestored")])
	}
}

// asLongAsReal makes half an hour of a migration in the lab, and not more than an hour of a slow machine's: no step of it waits for two.
func asLongAsReal(migration []scrape) time.Duration {
	return max(grid, min(time.Minute, (time.Hour/time.Duration(len(migration))).Truncate(grid)))
}

// serving is the time at which as many reflectors serve as said, and the mesh is as said; all
// of them have all their sessions, and without the mesh the manager is at rest.
func serving(count int, mesh string) func(scrape) bool {
	return func(s scrape) bool {
		have, served := s.values["rrpool_reflectors_serving"]
		whole := s.values["rrpool_sessions_established"] == s.values["rrpool_sessions_expected"]
		calm := mesh == "on" || s.values[`rrpool_step,step="Steady"`] == 1
		return served && have == float64(count) && s.values[`rrpool_mesh,state="`+mesh+`"`] == 1 &&
			(count < all || whole && calm)
	}
}

// forgive lets the mesh have come back just now: reflectors that have been up since before
// then need not stay up for 5 minutes before it goes. That they do is tested elsewhere.
func forgive(t *testing.T, ctx context.Context, s *site.Site) { //nolint:revive // t comes first in tests
	t.Helper()
	const restored = "rrpool.io/mesh-restored"
	configs := s.Lab.Calico().BGPConfigurations()
	require.Eventually(t, func() bool {
		config, err := configs.Get(ctx, "default", options.GetOptions{})
		require.NoError(t, err)
		require.Contains(t, config.Annotations, restored)
		config.Annotations[restored] = time.Now().Add(10 * time.Second).UTC().Format(time.RFC3339)
		_, err = configs.Update(ctx, config, options.SetOptions{})
		return err == nil
	}, limit, time.Second)
}

// documented checks that what was served is on the page, with the same type and the same
// words, and that only counters of what did not happen are missing.
func documented(t *testing.T, p *scraper) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "metrics.md"))
	require.NoError(t, err)
	rows := map[string]string{}
	for line := range strings.Lines(string(page)) {
		if cells := strings.Split(line, " | "); len(cells) == 4 && strings.HasPrefix(line, "| `rrpool_") {
			rows[strings.Trim(cells[0], "| `")] = cells[1] + " " + strings.TrimSuffix(strings.TrimSpace(cells[3]), " |")
		}
	}
	for name := range rows {
		if _, served := p.kind[name]; !served && strings.HasSuffix(name, "_total") {
			delete(rows, name)
		}
	}
	require.Equal(t, rows, p.kind)
}

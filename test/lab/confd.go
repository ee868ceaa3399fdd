//go:build linux

package lab

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

var (
	// Stock BIRD does not know Calico's attribute for encapsulation; unencapsulated pools set it to nothing.
	tunnelAttribute = regexp.MustCompile(`krt_tunnel = "[^"]*";`)
	destination     = regexp.MustCompile(`(?m)^dest = ".*/([^/"]+)"$`)
	checkCommand    = regexp.MustCompile(`(?m)^check_cmd = .*\n`)
	reloadCommand   = regexp.MustCompile(`(?m)^reload_cmd = .*$`)
)

// writeConfdTemplates copies Calico's templates, made fit for stock BIRD, and its list of templates, for all nodes. BIRD 6 is left
// out: the lab has no IPv6, and an empty configuration satisfies the reporter.
func writeConfdTemplates(ctx context.Context, dir string) error {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/projectcalico/calico").Output()
	if err != nil {
		return fmt.Errorf("finding Calico's templates: %w", err)
	}
	source := filepath.Join(strings.TrimSpace(string(out)), "confd", "etc", "calico", "confd")
	for _, name := range []string{"bird", "bird_aggr", "bird_ipam"} {
		err := rewrite(filepath.Join(source, "templates", name+".cfg.template"), filepath.Join(dir, "templates", name+".cfg.template"),
			func(text string) string { return tunnelAttribute.ReplaceAllString(text, "") })
		if err != nil {
			return err
		}
		err = rewrite(filepath.Join(source, "conf.d", name+".toml"), filepath.Join(dir, "conf.d", name+".toml"),
			func(text string) string { return checkCommand.ReplaceAllString(text, "") })
		if err != nil {
			return err
		}
	}
	return nil
}

// writeConfdDir gives a node its own copy, which writes to the node's folder and reloads the node's BIRD.
func (l *Lab) writeConfdDir(n *node) error {
	for _, name := range []string{"bird", "bird_aggr", "bird_ipam"} {
		err := rewrite(l.path("confd", "templates", name+".cfg.template"), n.path("confd", "templates", name+".cfg.template"),
			func(text string) string { return text })
		if err != nil {
			return err
		}
		err = rewrite(l.path("confd", "conf.d", name+".toml"), n.path("confd", "conf.d", name+".toml"), func(text string) string {
			text = destination.ReplaceAllString(text, `dest = "`+n.path("config")+`/$1"`)
			return reloadCommand.ReplaceAllString(text, `reload_cmd = "birdc -s `+calicoRunDir+`/bird.ctl configure || true"`)
		})
		if err != nil {
			return err
		}
	}
	empty := fmt.Sprintf("router id %s;\nprotocol device {}\n", n.spec.Address)
	if err := os.WriteFile(n.path("config", "bird6-empty.cfg"), []byte(empty), 0o600); err != nil {
		return fmt.Errorf("writing bird6's configuration: %w", err)
	}
	return nil
}

func rewrite(from, to string, change func(string) string) error {
	text, err := os.ReadFile(from) //nolint:gosec // G304: Calico's files and ours
	if err != nil {
		return fmt.Errorf("reading a template of confd: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o750); err != nil {
		return fmt.Errorf("making a folder of confd: %w", err)
	}
	if err := os.WriteFile(to, []byte(change(string(text))), 0o600); err != nil {
		return fmt.Errorf("writing a template of confd: %w", err)
	}
	return nil
}

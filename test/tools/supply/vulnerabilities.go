package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// database is where govulncheck looks unless GOVULNDB says otherwise.
const database = "https://vuln.go.dev"

// affected is govulncheck's exit code when it has found something.
const affected = 3

// vulnerabilities scans binaries. What the scan came to is its last line: passed, FAILED,
// or NOT RUN where the database cannot be reached, which is no error, and no success.
func vulnerabilities(ctx context.Context, root string, binaries []string) error {
	scanner, err := exec.CommandContext(ctx, "go", "-C", filepath.Join(root, "test", "tools", "govulncheck"), "tool", "-n", "govulncheck").Output() //nolint:gosec // G204: ours
	if err != nil {
		return fmt.Errorf("building govulncheck: %w", err)
	}
	from := os.Getenv("GOVULNDB")
	if from == "" {
		from = database
	}
	if err := reachable(ctx, from); err != nil {
		fmt.Printf("vulnerability scan: NOT RUN, its database %s is not reachable (%v)\n", from, err)
		return nil
	}
	for _, binary := range binaries {
		verdict, err := scan(ctx, strings.TrimSpace(string(scanner)), from, binary)
		if verdict != "" {
			fmt.Println("vulnerability scan: " + verdict)
			return err
		}
		if err != nil {
			return err
		}
	}
	fmt.Printf("vulnerability scan: passed, nothing that %s knows is in %d binaries\n", from, len(binaries))
	return nil
}

// patience is how long the database may take to answer.
const patience = 20 * time.Second

// reachable asks a database that is on the network for what it must have.
func reachable(ctx context.Context, from string) error {
	if !strings.HasPrefix(from, "http") {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, from+"/index/modules.json.gz", http.NoBody) //nolint:gosec // G704: whoever runs this says where it is
	if err != nil {
		return fmt.Errorf("asking for its index: %w", err)
	}
	response, err := http.DefaultClient.Do(request) //nolint:gosec // G704: as above
	if err != nil {
		return fmt.Errorf("asking for its index: %w", err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("asking for its index: %s", response.Status)
	}
	return nil
}

// scan gives a verdict unless all is well.
func scan(ctx context.Context, scanner, from, binary string) (string, error) {
	cmd := exec.CommandContext(ctx, scanner, "-mode", "binary", "-db", from, binary) //nolint:gosec // G204: the tool that we built
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return "", nil
	case errors.As(err, &exit) && exit.ExitCode() == affected:
		fmt.Print(stdout.String())
		return "FAILED, " + filepath.Base(binary) + " has what is listed above", errors.New("vulnerabilities were found")
	}
	return "FAILED, govulncheck did not work", fmt.Errorf("scanning %s: %w: %s", binary, err, stderr.String())
}

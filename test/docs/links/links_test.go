package links

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"
)

const root = "../../.."

func TestEveryLinkLeadsSomewhere(t *testing.T) {
	problems, err := Problems(os.DirFS(root))
	require.NoError(t, err)
	require.Empty(t, problems, strings.Join(problems, "\n"))
}

// repository is a small one without problems, with these pages besides.
func repository(pages ...string) fstest.MapFS {
	files := fstest.MapFS{
		"README.md":      {Data: []byte("# Home\n[docs](docs/) ![words](docs/a.svg)\n")},
		"docs/README.md": {Data: []byte("# Docs\n[b](b.md) [c](c.md)\n")},
		"docs/a.svg":     {Data: []byte("<svg/>")},
		"docs/b.md":      {Data: []byte("# A `b`, or two\n## More\n## More\n<a id=\"own\"></a>\n")},
		"docs/c.md":      {Data: nil},
		".gitignore":     {Data: []byte("*.test\n/config/key\n")},
		"cmd/main.go":    {Data: []byte("package main\n")},
	}
	for i := 0; i < len(pages); i += 2 {
		files[pages[i]] = &fstest.MapFile{Data: []byte(pages[i+1])}
	}
	return files
}

func TestLinksThatAreFine(t *testing.T) {
	for name, page := range map[string]string{
		"a page, a folder, and the page itself":    "# Top\n[a](b.md) [b](../docs) [c](#top) [d](../README.md#home) [e](../docs#docs)",
		"headings":                                 "[a](b.md#a-b-or-two) [b](b.md#more) [c](b.md#more-1) [d](b.md#own)",
		"references":                               "[b][] [words][other]\n\n[b]: b.md\n[other]: b.md#more \"title\"",
		"in a table, a quote, a list":              "| a |\n|---|\n| [b](b.md) |\n\n> [b](b.md)\n\n- [b](b.md)",
		"HTML":                                     "<a href=\"b.md#more\">b</a> <img src=\"a.svg\" alt=\"words\">\n\n<p>\n<img alt=\"words\" src=\"a.svg\">\n</p>",
		"what is no link":                          "`[a](nowhere.md)` `[a][b]`\n\n```md\n[a](nowhere.md)\n```\n<!-- <a href=\"nowhere.md\"> -->",
		"the net":                                  "<https://calico.org/x> [a](https://docs.tigera.io/calico#x) https://kubernetes.io mailto:a@b.org",
		"our home":                                 "https://github.com/rrpool/rrpool/blob/main/docs/b.md#more and https://github.com/rrpool/rrpool/issues",
		"a page and code that are named":           "docs/b.md#more. Or `cmd/main.go`, and in cmd/. But not kubernetes/docs/x.md",
		"a file that a user makes":                 "echo >config/key",
		"a picture, and the same one as a link":    "[![words](a.svg)](a.svg)",
		"a place that only looks like a machine's": "https://a.org/home/x `GET /api/root`",
	} {
		t.Run(name, func(t *testing.T) {
			problems, err := Problems(repository("docs/c.md", page))
			require.NoError(t, err)
			require.Empty(t, problems)
		})
	}
}

// Negative control: each kind of link that leads nowhere is found, on any page.
func TestLinksThatLeadNowhereAreFound(t *testing.T) {
	for name, tc := range map[string]struct{ page, says string }{
		"no such page":                {"[a](d.md)", "link d.md: there is no docs/d.md"},
		"another spelling":            {"[a](B.md)", "there is no docs/B.md"},
		"seen from another folder":    {"[a](docs/b.md)", "there is no docs/docs/b.md"},
		"no such heading":             {"[a](b.md#less)", "docs/b.md has no heading #less"},
		"a heading that has changed":  {"[a](b.md#a-b-or-three)", "no heading"},
		"one heading more":            {"[a](b.md#more-2)", "no heading"},
		"no such heading here":        {"# a\n[a](#b)", "docs/c.md has no heading #b"},
		"no such heading of a folder": {"[a](../docs#b)", "docs/README.md has no heading #b"},
		"a heading of a file":         {"[a](../cmd/main.go#main)", "is no page"},
		"in a table":                  {"| a |\n|---|\n| [b](d.md) |", "there is no docs/d.md"},
		"in a list in a quote":        {"> - [b](d.md)", "there is no docs/d.md"},
		"by reference":                {"[b]\n\n[b]: d.md", "there is no docs/d.md"},
		"a reference to nothing":      {"see [b][c] there", "[b][c] refers to nothing"},
		"an empty reference":          {"see *[b][]*", "[b][] refers to nothing"},
		"HTML":                        {"x <a class=\"b\" href=\"d.md\">", "there is no docs/d.md"},
		"HTML in a block":             {"<div>\n<a href=\"d.md\">\n</div>", "there is no docs/d.md"},
		"a picture":                   {"![a](b.svg)", "picture b.svg: there is no docs/b.svg"},
		"a picture in HTML":           {"<img alt=\"a\" src=\"b.svg\">", "picture b.svg: there is no docs/b.svg"},
		"a picture without words":     {"![](a.svg)", "no words"},
		"a picture of HTML, likewise": {"<img src=\"a.svg\">", "no words"},
		"a picture from the net":      {"![a](https://a.org/a.svg)", "tells its owner"},
		"out of the repository":       {"[a](../../other)", "leaves the repository"},
		"from the root":               {"[a](/docs/b.md)", "begins with a slash"},
		"a question":                  {"[a](b.md?plain=1)", "asks something"},
		"nothing":                     {"[a]()", "leads nowhere"},
		"not encrypted":               {"[a](http://a.org)", "is not https"},
		"not encrypted, bare":         {"see http://a.org", "is not https"},
		"a script":                    {"[a](javascript:x)", "is not https"},
		"no host":                     {"[a](https:///x)", "no address that others can reach"},
		"a host of one's own":         {"[a](https://localhost:8443/x)", "no address that others can reach"},
		"a secret":                    {"[a](https://me:pass@a.org)", "no address that others can reach"},
		"no URL":                      {"[a](https://a.org:port)", "invalid port"},
		"no mail":                     {"[a](mailto:me)", "is no address of mail"},
		"our home":                    {"https://github.com/rrpool/rrpool/blob/main/docs/d.md", "there is no docs/d.md"},
		"a heading of our home":       {"`https://github.com/rrpool/rrpool/blob/main/docs/b.md#less`", "no heading #less"},
		"a page that is named":        {"read docs/d.md", "docs/d.md: there is no docs/d.md"},
		"a heading that is named":     {"read `docs/b.md#less`", "docs/b.md has no heading #less"},
		"a file that is named":        {"see `config/x`, not y", "config/x: there is no config/x"},
		"somebody's computer":         {"`ls /home/me/x`", "a place on somebody's computer"},
		"somebody's file":             {"[a](file:///etc/x)", "is not https"},
	} {
		t.Run(name, func(t *testing.T) {
			problems, err := Problems(repository("docs/c.md", tc.page))
			require.NoError(t, err)
			require.NotEmpty(t, problems)
			for _, problem := range problems {
				require.Contains(t, problem, "docs/c.md: ")
			}
			require.Contains(t, strings.Join(problems, "\n"), tc.says)
		})
	}
}

// Negative control: what code and manifests hand out is looked at as well.
func TestAddressesInCodeAreFound(t *testing.T) {
	for name, tc := range map[string]struct{ file, text, says string }{
		"a page in code":           {"cmd/a.go", `const x = "https://github.com/rrpool/rrpool/blob/main/docs/d.md"`, "there is no docs/d.md"},
		"a folder in code":         {"cmd/a.go", `const x = "https://github.com/rrpool/rrpool/blob/main/docs/runbook/" + name`, "there is no docs/runbook"},
		"an alert":                 {"config/a.yaml", "runbook_url: https://github.com/rrpool/rrpool/blob/main/docs/b.md#less", "no heading #less"},
		"a chart's notes":          {"config/chart/templates/NOTES.txt", "https://github.com/rrpool/rrpool/tree/main/conf.", "there is no conf"},
		"a remedy":                 {"cmd/a.go", `do("install it (docs/b.md#less)")`, "no heading #less"},
		"what a command says":      {"cmd/testdata/a.golden", "see docs/d.md", "there is no docs/d.md"},
		"a page of another folder": {".github/A.md", "[a](docs/b.md)", "there is no .github/docs/b.md"},
	} {
		t.Run(name, func(t *testing.T) {
			problems, err := Problems(repository(tc.file, tc.text))
			require.NoError(t, err)
			require.Len(t, problems, 1)
			require.Contains(t, problems[0], tc.says)
			require.Contains(t, problems[0], tc.file)
		})
	}
	problems, err := Problems(repository("docs/d.md", "# lonely", "docs/e.md", "[d](d.md)", "docs/pictures/f.svg", "<svg/>"))
	require.NoError(t, err)
	require.Equal(t, []string{"docs/d.md: no links lead here from README.md", "docs/e.md: no links lead here from README.md", "docs/pictures/f.svg: no page shows it"}, problems)
}

func TestAPlaceInTheDocsExistsOrNot(t *testing.T) {
	files := repository()
	require.NoError(t, Leads(files, "docs/b.md"))
	require.NoError(t, Leads(files, "docs/b.md#more"))
	require.NoError(t, Leads(files, "docs/b.md#own"))
	require.ErrorContains(t, Leads(files, "docs/b.md#less"), "no heading #less")
	require.ErrorContains(t, Leads(files, "docs/d.md"), "docs/d.md")
}

// onlineVariable set to 1 asks the net; make links sets it.
const onlineVariable = "RRPOOL_LINKS_ONLINE"

// patience is how long all of the net may take to answer.
const patience = 2 * time.Minute

func TestTheNetAnswers(t *testing.T) {
	if os.Getenv(onlineVariable) != "1" {
		t.Skipf("links to the net are held to be well formed, and not asked: %s=1 asks them", onlineVariable)
	}
	links, err := External(os.DirFS(root))
	require.NoError(t, err)
	require.NotEmpty(t, links)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for _, link := range links {
		require.NoError(t, ask(ctx, http.DefaultClient, link))
	}
}

// ask is an error where an address does not answer.
func ask(ctx context.Context, client *http.Client, link string) error {
	for _, method := range []string{http.MethodHead, http.MethodGet} { // some answer only the second
		request, err := http.NewRequestWithContext(ctx, method, link, http.NoBody)
		if err != nil {
			return err
		}
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		_ = response.Body.Close()
		switch {
		case response.StatusCode < http.StatusBadRequest:
			return nil
		case method == http.MethodGet:
			return fmt.Errorf("%s: %s", link, response.Status)
		}
	}
	return nil
}

func TestAsking(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/gone" || r.URL.Path == "/get" && r.Method == http.MethodHead {
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer server.Close()
	require.NoError(t, ask(t.Context(), server.Client(), server.URL+"/there"))
	require.NoError(t, ask(t.Context(), server.Client(), server.URL+"/get"))
	require.ErrorContains(t, ask(t.Context(), server.Client(), server.URL+"/gone"), "404")
	links, err := External(repository("docs/c.md", "[b](https://b.org) [a](https://a.org/x#y) [a](https://a.org/x#y) https://github.com/rrpool/rrpool/blob/main/README.md"))
	require.NoError(t, err)
	require.Equal(t, []string{"https://a.org/x#y", "https://b.org"}, links)
}

package untrusted_test

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rrpool/rrpool/controllers/untrusted"
)

type answers func(*http.Request) *http.Response

func (a answers) RoundTrip(r *http.Request) (*http.Response, error) { return a(r), nil }

// read reads an answer with that body, byte by byte or at once.
func read(t require.TestingT, limits untrusted.Limits, body string, slow bool) (string, error) {
	reader := io.Reader(strings.NewReader(body))
	if slow {
		reader = iotest.OneByteReader(reader)
	}
	request := httptest.NewRequest(http.MethodGet, "http://x/", http.NoBody)
	response, err := limits.Transport(answers(func(*http.Request) *http.Response {
		return &http.Response{Header: http.Header{}, Body: io.NopCloser(reader)}
	})).RoundTrip(request)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	got, err := io.ReadAll(response.Body)
	return string(got), err
}

func TestAnAnswerIsHeldToItsLimits(t *testing.T) {
	limits := untrusted.Limits{Bytes: 400, Values: 20, Items: 8}
	for body, says := range map[string]string{
		"": "", "null": "", `"[[[[{{{{,,,,,,,,,,,,,,,,,,,,,,,,,,,"`: "", `"\",,,,,,,,,,,,,,,,,,,,,,,,,,,\\"`: "", "page of a proxy": "",
		strings.Repeat(" ", 400):                                  "",
		strings.Repeat(" ", 401):                                  "larger than 400 bytes",
		"[" + strings.Repeat("0,", 7) + "0]":                      "",
		"[" + strings.Repeat("{},", 7) + "{}]":                    "",
		"[" + strings.Repeat("null,", 8) + "null]":                "a list of more than 8 items",
		"{" + strings.Repeat(`"a":{},`, 8) + `"a":{}}`:            "a list of more than 8 items",
		`{"a":[0,0,0,0,0,0],"b":[0,0,0,0,0,0],"c":[0,0,0,0,0,0]}`: "more than 20 values",
		`{"a":"\\","b":[0,0,0,0,0,0,0,0,0]}`:                      "a list of more than 8 items",
		strings.Repeat("[]", 21):                                  "more than 20 values", // one document after the other
		strings.Repeat("[", 65):                                   "more than 20 values",
		"]]]]" + strings.Repeat("}", 65) + "[0,0,0,0,0,0,0,0,0]":  "a list of more than 8 items",
	} {
		for _, slow := range []bool{true, false} {
			got, err := read(t, limits, body, slow)
			if says == "" {
				require.NoError(t, err, body)
				require.Equal(t, body, got)
			} else {
				require.ErrorContains(t, err, says, body)
			}
		}
	}
	endless := strings.NewReader(strings.Repeat(" ", 4000)) // a reader that does not stop at an error gets nothing more of it
	response, err := limits.Transport(answers(func(*http.Request) *http.Response {
		return &http.Response{Header: http.Header{}, Body: io.NopCloser(endless)}
	})).RoundTrip(httptest.NewRequest(http.MethodGet, "http://x/", http.NoBody))
	require.NoError(t, err)
	for range 10 {
		n, err := response.Body.Read(make([]byte, 401))
		require.Zero(t, n)
		require.ErrorContains(t, err, "larger than 400 bytes")
	}
	require.Equal(t, 4000-401, endless.Len())
	require.NoError(t, response.Body.Close())
	for depth, says := range map[int]string{64: "", 65: "more than 64 lists and objects in each other"} {
		_, err = read(t, untrusted.Limits{Bytes: 1 << 20, Values: 1000, Items: 1000}, strings.Repeat("[", depth), false)
		require.Equal(t, says == "", err == nil)
		if says != "" {
			require.ErrorContains(t, err, says)
		}
	}
}

// Only the copy is bounded: what is given may be everybody's, as http.DefaultTransport is.
func TestHeadersAreBoundedInACopyOfTheTransport(t *testing.T) {
	given := &http.Transport{MaxResponseHeaderBytes: 7}
	require.Equal(t, int64(64<<10), untrusted.HeadersOf(given).MaxResponseHeaderBytes)
	require.Equal(t, int64(7), given.MaxResponseHeaderBytes)
}

// TestNoDecoderSeesMoreItemsThanAreCounted: whatever JSON it is.
func TestNoDecoderSeesMoreItemsThanAreCounted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		body := document(t, 4)
		var decoded any
		require.NoError(t, json.Unmarshal([]byte(body), &decoded), body)
		items, empty := count(decoded)
		within := func(values int) error {
			_, err := read(t, untrusted.Limits{Bytes: 1 << 20, Values: values, Items: 1 << 20}, body, false)
			return err
		}
		require.NoError(t, within(items+empty), body)
		if items+empty > 0 {
			require.Error(t, within(items-1), "%s has %d items", body, items)
		}
	})
}

// document is any JSON, with whatever is allowed between its parts.
func document(t *rapid.T, depth int) string {
	space := rapid.SampledFrom([]string{"", " ", "\n\t"}).Draw(t, "space")
	kind := rapid.IntRange(0, 6).Draw(t, "kind")
	if depth == 0 {
		kind %= 5
	}
	if kind < 5 {
		text, err := json.Marshal(rapid.SampledFrom([]any{nil, true, -1.5e9, rapid.String().Draw(t, "text"), `",[{\`}).Draw(t, "scalar"))
		require.NoError(t, err)
		return space + string(text) + space
	}
	var parts []string
	for i := range rapid.IntRange(0, 4).Draw(t, "items") {
		part := document(t, depth-1)
		if kind == 6 {
			part = fmt.Sprintf(`"%d\"}"`, i) + space + ":" + part
		}
		parts = append(parts, part)
	}
	return space + "[{"[kind-5:kind-4] + space + strings.Join(parts, ",") + "]}"[kind-5:kind-4] + space
}

// count gives the items of all lists and objects, and how many of these are empty.
func count(decoded any) (items, empty int) {
	var inside []any
	switch d := decoded.(type) {
	case []any:
		inside = d
	case map[string]any:
		inside = slices.Collect(maps.Values(d))
	default:
		return 0, 0
	}
	if len(inside) == 0 {
		return 0, 1
	}
	items = len(inside)
	for _, i := range inside {
		more, none := count(i)
		items, empty = items+more, empty+none
	}
	return items, empty
}

// TestOnlyJSONAndTextAreDecoded: protobuf and YAML are not counted.
func TestOnlyJSONAndTextAreDecoded(t *testing.T) {
	for given, want := range map[string]string{
		"application/vnd.kubernetes.protobuf": "application/json", "application/yaml": "application/json", "": "application/json",
		"application/json; charset=utf-8": "application/json", "text/plain; charset=utf-8": "text/plain; charset=utf-8", "text/html": "text/html",
	} {
		response, err := untrusted.Limits{}.Transport(answers(func(*http.Request) *http.Response {
			return &http.Response{Header: http.Header{"Content-Type": {given}}, Body: http.NoBody}
		})).RoundTrip(httptest.NewRequest(http.MethodGet, "http://x/", http.NoBody))
		require.NoError(t, err)
		require.Equal(t, want, response.Header.Get("Content-Type"))
		require.NoError(t, response.Body.Close())
	}
}

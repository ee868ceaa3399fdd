package report

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// gone replaces each secret.
const gone = "[redacted]"

// redactor removes secrets from texts and objects. It finds them by their form, by the names before them, and by values, which learn adds.
type redactor struct{ values []string }

// secretive matches words in the names of fields and variables that hold a secret.
const secretive = `password|passwd|passphrase|secret|token|api[-_ ]?key|access[-_]?key|private[-_]?key|dockerconfigjson|dockercfg|encryption[-_]?key|credential|client-key-data|client-certificate-data`

// secretName matches names of fields and variables whose value is a secret.
var secretName = regexp.MustCompile(`(?i)(` + secretive + `|authorization|^auth$|(^|[-_.])(pass|pwd)$)|(?-i:[a-z0-9](Pass|Pwd)$)`)

// reference matches the names of fields that only refer to a secret, such as secretName.
var reference = regexp.MustCompile(`(?i)(ref|name|file|path|namespace|mount)$`)

// pattern has an expression that matches a secret, and the replacement.
type pattern struct {
	find *regexp.Regexp
	left string
}

// shapes match secrets in any text, also in rendered objects.
var shapes = []pattern{
	{regexp.MustCompile(`(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [A-Z ]*PRIVATE KEY-----|$)`), gone},
	{regexp.MustCompile(`(://[^/\s:@]*:)[^/\s"'<>]+@`), "${1}" + gone + "@"},                       // up to the last @, as a password may contain @
	{regexp.MustCompile(`(://[^/\s:@]*:)[^/\s"'<>]*[^/\s"'<>\d][^\s"'<>]*@`), "${1}" + gone + "@"}, // also with /, unless only digits precede it: a port
	{regexp.MustCompile(`(?i)\b(bearer|basic)[ \t]+[A-Za-z0-9._~+/=-]{6,}`), "${1} " + gone},
	{regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]{5,}(\.[A-Za-z0-9_-]*)?`), gone},
	{regexp.MustCompile(`(://)[^/\s:@"'<>\[\]]+@`), "${1}" + gone + "@"}, // a token as the user, without a password
	{regexp.MustCompile(`(?i)((?:^|[\s"'\[,])--?[\w-]*(?:` + secretive + `)\\*["']?[ \t,]+\\*["']?)[^\s"'\\,\]-][^\s"'\\,\]]*`), "${1}" + gone},
	{regexp.MustCompile(`((?:^|[\s"'])(?:-u|--user)\\*["']?[ \t=,]*\\*["']?[^\s:"'\\/]+:)[^\s"'\\,\]]+`), "${1}" + gone},
	{regexp.MustCompile(`(hooks\.slack\.com/\w+/|discord(?:app)?\.com/api/webhooks/|webhook\.office\.com/)[^\s"'<>]+`), "${1}" + gone},
	{regexp.MustCompile(`(?i)((?:\bsig|signature|accountkey|sharedaccesskey)=)[^&\s"';,]+`), "${1}" + gone},
	{regexp.MustCompile(`\bA[KS]IA[A-Z0-9]{16}\b`), gone},
	{regexp.MustCompile(`(?i)\b(cookie\\*["']?\s*[:=]\s*\[?\\*["']?)[^\n"'\]]+`), "${1}" + gone},
}

// secretFlag matches command-line flags whose value, the next argument, is a secret.
var secretFlag = regexp.MustCompile(`(?i)^--?[\w-]*(` + secretive + `|pass|pwd)$`)

// named match secrets in texts by the name before them. They are not applied to rendered objects, whose fields are redacted one by one.
var named = []pattern{
	{regexp.MustCompile(`(?i)(authorization\\*["']?\s*[:=]\s*\[?\s*\\*["']?)((bearer|basic|token)\s+)?[^\s"'\\,\]]+`), "${1}" + gone},
	{regexp.MustCompile(`(?i)(password\s+)"[^"\n]*"`), `${1}"` + gone + `"`},
	// auth (as in Docker's registries), pass and pwd: as a word of their own, or at the end of a name such as db_pass or dbPass
	{regexp.MustCompile(`((?:(?i:\b|_)(?i:auth|pass|pwd)|[a-z0-9](?:Pass|Pwd))\\*["']?[ \t]*[:=][ \t]*)(\\*"[^"\n]*"|'[^'\n]*'|[^\s,;&{}\[\]"']+)`), "${1}" + gone},
	{regexp.MustCompile(`(?i)((?:` + secretive + `)[\w.-]*?\\*["']?[ \t]*[:=][ \t]*)(\\*"[^"\n]*"|'[^'\n]*'|[^\s,;&{}\[\]"']+)`), "${1}" + gone},
}

// ibmKey matches words that may be an IBM Cloud API key. A key has 44 characters. Names can be as long, but do not mix digits and both cases.
var ibmKey = regexp.MustCompile(`[A-Za-z0-9_-]{44,}`)

// learn adds a value to remove, with its lines and encodings. It ignores parts under 8 bytes, or under 3 if the value surely is a secret.
func (r *redactor) learn(value string, sure bool) {
	value = strings.TrimSpace(value)
	least := 8
	if sure {
		least = 3
	}
	for _, part := range append([]string{value}, strings.Split(value, "\n")...) {
		if part = strings.TrimSpace(part); len(part) < least || strings.HasPrefix(part, "-----") {
			continue
		}
		escaped, err := json.Marshal(part)
		if err != nil {
			continue
		}
		r.values = append(r.values, part, string(escaped[1:len(escaped)-1]), url.QueryEscape(part),
			base64.StdEncoding.EncodeToString([]byte(part)), base64.URLEncoding.EncodeToString([]byte(part)),
			base64.RawStdEncoding.EncodeToString([]byte(part)), base64.RawURLEncoding.EncodeToString([]byte(part)))
	}
	slices.SortFunc(r.values, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	r.values = slices.Compact(r.values)
}

// text returns a text without its secrets.
func (r *redactor) text(text string) string {
	for _, p := range named {
		text = p.find.ReplaceAllString(text, p.left)
	}
	return r.anywhere(text)
}

// anywhere removes the learned values, and what is recognised as a secret by its form.
func (r *redactor) anywhere(text string) string {
	for _, value := range r.values {
		text = strings.ReplaceAll(text, value, gone)
	}
	for _, p := range shapes {
		text = p.find.ReplaceAllString(text, p.left)
	}
	return ibmKey.ReplaceAllStringFunc(text, func(word string) string {
		if len(word) == 44 && strings.ContainsAny(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") && strings.ContainsAny(word, "0123456789") &&
			strings.ContainsAny(word, "abcdefghijklmnopqrstuvwxyz") {
			return gone
		}
		return word
	})
}

// object removes the secrets from an API object, in place. It also removes the managed fields and kubectl's copy of the object.
func (r *redactor) object(object map[string]any) map[string]any {
	if metadata, ok := object["metadata"].(map[string]any); ok {
		delete(metadata, "managedFields")
		if annotations, ok := metadata["annotations"].(map[string]any); ok {
			delete(annotations, "kubectl.kubernetes.io/last-applied-configuration")
			if len(annotations) == 0 {
				delete(metadata, "annotations")
			}
		}
	}
	return r.value("", object).(map[string]any) //nolint:forcetypeassert // a map stays one
}

// value redacts the value of a field of that name, and walks through maps and lists.
func (r *redactor) value(name string, value any) any {
	switch value := value.(type) {
	case map[string]any:
		variable, _ := value["name"].(string)
		if set, _ := value["value"].(string); set != "" && secretName.MatchString(variable) {
			value["value"] = gone // the report still shows that the variable is set
		}
		for key, inner := range value {
			value[key] = r.value(key, inner)
		}
		return value
	case []any:
		return r.list(name, value)
	case string:
		if secretName.MatchString(name) && !reference.MatchString(name) && value != "" {
			return gone
		}
		return r.text(value)
	default:
		return value
	}
}

func (r *redactor) list(name string, list []any) []any {
	for i, inner := range list {
		if i > 0 && isSecretArgument(list[i-1], inner) {
			list[i] = gone
			continue
		}
		list[i] = r.value(name, inner)
	}
	return list
}

// isSecretArgument reports whether an argument follows a flag whose value is a secret.
func isSecretArgument(before, argument any) bool {
	flag, _ := before.(string)
	text, _ := argument.(string)
	return text != "" && text[0] != '-' && secretFlag.MatchString(flag)
}

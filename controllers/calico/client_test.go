package calico

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
)

// libcalico-go reaches the cluster the way that the rest of the program does.
func TestTheProxyOfTheKubeconfigIsKept(t *testing.T) {
	proxy, err := url.Parse("http://proxy.example:3128")
	require.NoError(t, err)
	config := &rest.Config{Host: "https://apiserver.invalid:6443", Proxy: http.ProxyURL(proxy)}
	text, err := inlineKubeconfig(config)
	require.NoError(t, err)
	require.Contains(t, text, "proxy-url: http://proxy.example:3128")
	config.Proxy = nil
	text, err = inlineKubeconfig(config)
	require.NoError(t, err)
	require.NotContains(t, text, "proxy-url")
}

package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/test/controlplane"
)

const configPath = "/apis/crd.projectcalico.org/v1/bgpconfigurations/default"

// writeBefore gives the configuration of a way to the apiserver on which another writer
// is faster: once, just before a change of the BGPConfiguration arrives.
func writeBefore(t *testing.T, config *rest.Config, how func()) *rest.Config {
	t.Helper()
	target, err := url.Parse(config.Host)
	require.NoError(t, err)
	transport, err := rest.TransportFor(config)
	require.NoError(t, err)
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }, Transport: transport, FlushInterval: -1,
	}
	var once sync.Once
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.URL.Path == configPath {
			once.Do(how)
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return &rest.Config{Host: server.URL}
}

// writeConfig changes a setting of the BGPConfiguration, as another writer does. It
// gives all the settings that there are then.
func writeConfig(t *testing.T, admin client.Client, level string) map[string]any {
	t.Helper()
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(calicoGroup.WithKind("BGPConfiguration"))
	object.SetName("default")
	if err := admin.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
		require.NoError(t, client.IgnoreNotFound(err))
		object.Object["spec"] = map[string]any{"logSeverityScreen": level}
		require.NoError(t, admin.Create(t.Context(), object))
		spec, _, _ := unstructured.NestedMap(object.Object, "spec")
		return spec
	}
	require.NoError(t, unstructured.SetNestedField(object.Object, level, "spec", "logSeverityScreen"))
	require.NoError(t, admin.Update(t.Context(), object))
	spec, _, _ := unstructured.NestedMap(object.Object, "spec")
	return spec
}

// requireTheirConfig: the BGPConfiguration is as others wrote it, and no more.
func requireTheirConfig(t *testing.T, admin client.Client, theirs map[string]any) {
	t.Helper()
	configs, err := written(t.Context(), admin, "BGPConfiguration")
	require.NoError(t, err)
	require.Len(t, configs, 1)
	require.Equal(t, theirs, configs[0].Object["spec"])
	require.NotContains(t, fmt.Sprint(configs[0].GetAnnotations()), "rrpool")
	require.Empty(t, configs[0].GetLabels())
}

// requireLostRace: an update really came too late, and was not forced.
func requireLostRace(t *testing.T, plane *controlplane.ControlPlane, user string, since time.Time) {
	t.Helper()
	writes, err := plane.Writes(user, since)
	require.NoError(t, err)
	for _, write := range writes {
		if write.Resource == "bgpconfigurations" && write.Code == http.StatusConflict {
			return
		}
	}
	require.Fail(t, "no write was faster")
}

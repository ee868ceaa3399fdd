package main

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/rrpool/rrpool/test/controlplane"
	"github.com/rrpool/rrpool/test/controlplane/intercept"
)

// writeBefore gives the configuration of a way to the apiserver on which another writer
// is faster: once, just before a change of the BGPConfiguration arrives.
func writeBefore(t *testing.T, config *rest.Config, how func()) *rest.Config {
	t.Helper()
	var once sync.Once
	between := intercept.New()
	between.Rules(func(r intercept.Request) intercept.Verdict {
		if r.Write() && r.Resource == "bgpconfigurations" {
			once.Do(how)
		}
		return intercept.Verdict{}
	})
	line, err := between.Open("manager", config, nil, func() {})
	require.NoError(t, err)
	t.Cleanup(line.Close)
	return line.Config()
}

// writeConfig changes a setting of the BGPConfiguration, as another writer does. It
// gives all the settings that there are then.
func writeConfig(t *testing.T, admin client.Client, level string) map[string]any {
	t.Helper()
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(calicoGroup.WithKind("BGPConfiguration"))
	object.SetName("default")
	_, err := controllerutil.CreateOrUpdate(t.Context(), admin, object, func() error {
		return unstructured.SetNestedField(object.Object, level, "spec", "logSeverityScreen")
	})
	require.NoError(t, err)
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

package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/test/controlplane/intercept"
)

// requireFaultsAreSeen: the checks see a manager that does wrong. It comes through a line as any other does.
func (a *environment) requireFaultsAreSeen() {
	a.Helper()
	a.between.Rules()
	line, err := a.between.Open("second writer", a.plane.AdminConfig(), nil, func() {})
	require.NoError(a, err)
	defer line.Close()
	second, err := client.New(line.Config(), client.Options{})
	require.NoError(a, err)
	require.Empty(a, a.net.broken(), "nothing is wrong so far")

	config := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"nodeToNodeMeshEnabled": false}}}
	config.SetGroupVersionKind(calicoGroup.WithKind("BGPConfiguration"))
	config.SetName("default")
	require.NoError(a, second.Create(a.Context(), config))
	broken := a.net.broken()
	require.Len(a, broken, 6+2, "six nodes without reflectors, and no way between two that stand for all: %v", broken)
	require.NoError(a, second.Delete(a.Context(), config))
	require.NotEmpty(a, a.net.broken(), "the mesh takes its time to come back")
	a.waitFor("the mesh", func() bool {
		a.look("again")
		return len(a.net.broken()) == 0
	})
}

func TestASecondWriterIsSeen(t *testing.T) {
	begin := time.Now()
	at := func(line string, after time.Duration) intercept.Request {
		return intercept.Request{Line: line, Verb: "patch", Resource: "nodes", At: begin.Add(after)}
	}
	g := &leaders{changes: []newLeader{{"a", begin}, {"b", begin.Add(time.Minute)}}}
	require.Empty(t, g.lateWrites([]intercept.Request{at("a", time.Second), at("b", 2*time.Minute)}))
	late := g.lateWrites([]intercept.Request{at("a", time.Second), at("b", 61*time.Second), at("a", 62*time.Second), at("a", 63*time.Second)})
	require.Len(t, late[begin.Add(time.Minute)], 2, "%v", late)
	require.NotEmpty(t, g.lateWrites([]intercept.Request{at("c", time.Second)}), "a manager that never led")
}

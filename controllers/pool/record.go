package pool

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/cloud/poolplan"
	"github.com/rrpool/rrpool/config/api/v1alpha1"
)

// record is the cloud.Record in an annotation of the RouteReflectorPool, so that a manager does not repeat
// the orders of an earlier one. It only limits orders, and says which size of the pool was wanted last.
type record struct {
	mu   sync.Mutex
	text string
	// save writes the annotation; nil for a rehearsal, which leaves no trace.
	save func(ctx context.Context, text string) error
}

// Text implements cloud.Record.
func (r *record) Text() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text
}

// Write implements cloud.Record.
func (r *record) Write(ctx context.Context, text string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.save != nil {
		if err := r.save(ctx, text); err != nil {
			return err
		}
	}
	r.text = text
	return nil
}

// readRecord reads the record from the object, unless a pending call may be writing it.
func (r *Reconciler) readRecord(object *v1alpha1.RouteReflectorPool) {
	if r.poolClient.pending != nil {
		return
	}
	r.poolClient.record.mu.Lock()
	defer r.poolClient.record.mu.Unlock()
	r.poolClient.record.text, r.poolClient.record.save = object.Annotations[v1alpha1.RequestsAnnotation], r.saveRecord
}

func (r *Reconciler) saveRecord(ctx context.Context, text string) error {
	if err := r.Leading(ctx); err != nil {
		return err
	}
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{v1alpha1.RequestsAnnotation: text}}})
	if err != nil {
		return fmt.Errorf("writing down what is asked of the cloud: %w", err)
	}
	object := &v1alpha1.RouteReflectorPool{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.SingletonName}}
	if err := r.Client.Patch(ctx, object, client.RawPatch(types.MergePatchType, body)); err != nil {
		return fmt.Errorf("writing annotation %s of the RouteReflectorPool: %w", v1alpha1.RequestsAnnotation, err)
	}
	return nil
}

// lasting returns the size per zone that was wanted at the last order, 0 if that is unknown.
func (r *record) lasting(now time.Time) int {
	ledger, err := poolplan.ReadLedger(r.Text(), now)
	if err != nil {
		return 0 // the provider reports this error
	}
	return ledger.Lasting
}

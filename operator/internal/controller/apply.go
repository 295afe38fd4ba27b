package controller

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

const (
	// fieldOwner owns the operator's fields in server-side apply.
	fieldOwner = client.FieldOwner("ramcloud-operator")
	// annotationApplied is the hash of the object that was applied last. It changes if a field is no longer wanted.
	annotationApplied = "ramcloud.dev/applied-hash"
)

// applier brings objects to the wanted state with server-side apply. It sends nothing if the object is in that state
// already.
type applier struct {
	client client.Client
	scheme *runtime.Scheme
	wrote  func(client.Object) // called for each write
}

// apply brings an object to the wanted state. live is the object as read, nil if there is none; result receives the
// object after the write.
func (a applier) apply(ctx context.Context, wanted, live, result client.Object) error {
	fields, err := a.fields(wanted)
	if err != nil {
		return err
	}
	if live != nil {
		same, err := a.inPlace(fields, live)
		if err != nil {
			return err
		}
		if same {
			return runtime.DefaultUnstructuredConverter.FromUnstructured(mustUnstructured(live), result)
		}
	}
	u := &unstructured.Unstructured{Object: fields}
	if err := a.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), fieldOwner, client.ForceOwnership); err != nil {
		return err
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, result); err != nil {
		return err
	}
	a.wrote(result)
	return nil
}

// fields turns a built object into the fields it sets, without empty ones, with its hash noted.
func (a applier) fields(wanted client.Object) (map[string]any, error) {
	gvk, err := apiutil.GVKForObject(wanted, a.scheme)
	if err != nil {
		return nil, err
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(wanted)
	if err != nil {
		return nil, err
	}
	delete(fields, "status")
	fields = prune(fields).(map[string]any)
	u := unstructured.Unstructured{Object: fields}
	u.SetGroupVersionKind(gvk)
	text, err := json.Marshal(fields)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(text)
	annotations := u.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[annotationApplied] = hex.EncodeToString(sum[:8])
	u.SetAnnotations(annotations)
	return u.Object, nil
}

// inPlace says whether the live object has every wanted field, and (by the hash) no field that was wanted before and is
// not any more.
func (a applier) inPlace(fields map[string]any, live client.Object) (bool, error) {
	have, err := runtime.DefaultUnstructuredConverter.ToUnstructured(live)
	if err != nil {
		return false, err
	}
	want := map[string]any{}
	for key, value := range fields {
		if key != "apiVersion" && key != "kind" { // typed objects from the cache have none
			want[key] = value
		}
	}
	return contains(have, want), nil
}

func mustUnstructured(object client.Object) map[string]any {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		panic(fmt.Sprintf("an object that was decoded cannot be encoded: %v", err))
	}
	return fields
}

// prune drops nulls, empty maps and empty lists, which stand for unset fields of typed objects.
func prune(value any) any {
	switch v := value.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, element := range v {
			if p := prune(element); p != nil {
				out[key] = p
			}
		}
		if len(out) == 0 {
			return nil
		}
		return out
	case []any:
		if len(v) == 0 {
			return nil
		}
		out := make([]any, len(v))
		for i, element := range v {
			out[i] = prune(element)
		}
		return out
	}
	return value
}

// contains says whether `have` includes everything in `want`. Lists must have equal lengths; quantities are compared by
// value.
func contains(have, want any) bool {
	switch w := want.(type) {
	case map[string]any:
		h, ok := have.(map[string]any)
		if !ok {
			return false
		}
		for key, value := range w {
			if !contains(h[key], value) {
				return false
			}
		}
		return true
	case []any:
		h, ok := have.([]any)
		if !ok || len(h) != len(w) {
			return false
		}
		for i := range w {
			if !contains(h[i], w[i]) {
				return false
			}
		}
		return true
	case string:
		h, ok := have.(string)
		return ok && (h == w || sameQuantity(h, w))
	}
	return equality.Semantic.DeepEqual(have, want)
}

func sameQuantity(a, b string) bool {
	qa, err := resource.ParseQuantity(a)
	if err != nil {
		return false
	}
	qb, err := resource.ParseQuantity(b)
	return err == nil && qa.Cmp(qb) == 0
}

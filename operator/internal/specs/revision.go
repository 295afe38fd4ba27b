package specs

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	ramcloudv1 "ramcloud.dev/operator/api/v1alpha1"
)

// States of a ControllerRevision: LabelRevisionState.
const (
	// RevisionCurrent: new members are created from it. Of several, the one with the highest number.
	RevisionCurrent = "current"
	// RevisionPending: the operator's template of the same spec; it needs a restart request.
	RevisionPending = "pending"
	// RevisionFormer: running pods were created from it.
	RevisionFormer = "former"
)

// Revision is an accepted template of a component's members, with placeholders for values of a single member,
// and the spec from which it was made. By the spec a later operator, which would make another template of it,
// detects whether the spec was changed since.
type Revision struct {
	Template corev1.PodTemplateSpec         `json:"template"`
	Spec     ramcloudv1.RAMCloudClusterSpec `json:"spec"`
}

// RevisionName names a template: equal templates have equal names.
func RevisionName(cluster string, template corev1.PodTemplateSpec) string {
	text, err := json.Marshal(template)
	if err != nil {
		panic(fmt.Sprintf("a template of our own making cannot be encoded: %v", err))
	}
	sum := sha256.Sum256(text)
	return fmt.Sprintf("%s-%s-%s", cluster, template.Labels[LabelComponent], hex.EncodeToString(sum[:5]))
}

// ControllerRevision is the object in which a revision is kept.
func ControllerRevision(cluster *ramcloudv1.RAMCloudCluster, revision Revision, number int64, state, request string) (*appsv1.ControllerRevision, error) {
	text, err := json.Marshal(revision)
	if err != nil {
		return nil, err
	}
	m := meta(cluster, RevisionName(cluster.Name, revision.Template), revision.Template.Labels[LabelComponent])
	m.Labels[LabelRevisionState] = state
	m.Annotations = map[string]string{AnnotationRestart: request}
	return &appsv1.ControllerRevision{ObjectMeta: m, Revision: number, Data: runtime.RawExtension{Raw: text}}, nil
}

// ReadRevision decodes a stored revision.
func ReadRevision(object *appsv1.ControllerRevision) (Revision, error) {
	var out Revision
	err := json.Unmarshal(object.Data.Raw, &out)
	if err == nil {
		err = checkTemplate(out.Template)
	}
	if err != nil {
		return out, fmt.Errorf("ControllerRevision %s cannot be read: %w", object.Name, err)
	}
	out.Spec.Modernize() // it may have old fields and values
	return out, nil
}

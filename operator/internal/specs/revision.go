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

// What a ControllerRevision is for: LabelRevisionState.
const (
	// RevisionCurrent: new members are made from it. Of several the one with the highest number.
	RevisionCurrent = "current"
	// RevisionPending: what the operator would make of the same spec; a roll has to be asked for.
	RevisionPending = "pending"
	// RevisionFormer: pods that run were made from it.
	RevisionFormer = "former"
)

// Revision is what members of a component are made from, as it was accepted: the template, with placeholders for what is
// a member's own, and the spec that it was made of. By the spec a later operator, which makes other templates of it, finds
// out whether somebody has changed it since.
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

// ReadRevision reads one back.
func ReadRevision(object *appsv1.ControllerRevision) (Revision, error) {
	var out Revision
	err := json.Unmarshal(object.Data.Raw, &out)
	if err == nil {
		err = checkTemplate(out.Template)
	}
	if err != nil {
		return out, fmt.Errorf("ControllerRevision %s cannot be read: %w", object.Name, err)
	}
	out.Spec.Modernize() // it may be from before the fields and values of today
	return out, nil
}

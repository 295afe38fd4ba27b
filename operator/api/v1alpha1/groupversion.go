// Package v1alpha1 is the API of RAMCloud on Kubernetes. Users declare a RAMCloudCluster. The operator
// records each server (RAMCloudServer) and each recovery of a crashed server (RAMCloudRecovery).
//
// +kubebuilder:object:generate=true
// +kubebuilder:ac:generate=true
// +kubebuilder:ac:output:package=../../pkg/applyconfiguration
// +groupName=ramcloud.dev
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of every kind here.
var GroupVersion = schema.GroupVersion{Group: "ramcloud.dev", Version: "v1alpha1"}

// SchemeGroupVersion is GroupVersion under the name that generated code expects.
var SchemeGroupVersion = GroupVersion

// AddToScheme registers the kinds.
func AddToScheme(scheme *runtime.Scheme) error { return addKnownTypes(scheme) }

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&RAMCloudCluster{}, &RAMCloudClusterList{},
		&RAMCloudServer{}, &RAMCloudServerList{},
		&RAMCloudRecovery{}, &RAMCloudRecoveryList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}

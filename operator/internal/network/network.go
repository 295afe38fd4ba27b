// Package network gives pods the network that their transport needs: one interface, with one provider for each
// supported network. Other providers are refused.
package network

import (
	"cmp"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ramcloudv1 "ramcloud.dev/operator/api/v1alpha1"
)

// Provider adapts a server's pod to its transport.
type Provider interface {
	// Check says why the spec cannot be followed; nil when it can.
	Check(spec ramcloudv1.NetworkSpec) error
	// Arguments are the daemon's flags for the transport.
	Arguments(spec ramcloudv1.NetworkSpec) []string
	// Prepare adds devices, limits and annotations to the pod.
	Prepare(spec ramcloudv1.NetworkSpec, meta *metav1.ObjectMeta, pod *corev1.PodSpec)
}

var providers = map[ramcloudv1.NetworkProvider]Provider{ramcloudv1.ProviderPod: podNetwork{}}

// For is the provider that the spec names. The API server refuses the same specs as Check; Check is called again
// because an object may have been stored under older rules.
func For(spec ramcloudv1.NetworkSpec) (Provider, error) {
	name := cmp.Or(spec.Provider, ramcloudv1.ProviderPod)
	provider, supported := providers[name]
	if !supported {
		return nil, fmt.Errorf("spec.network.provider is %s, which is not supported; accepted: %s", name, ramcloudv1.ProviderPod)
	}
	return provider, provider.Check(spec)
}

// podNetwork is the pod's ordinary network.
type podNetwork struct{}

func (podNetwork) Check(spec ramcloudv1.NetworkSpec) error {
	if spec.Transport != "" && spec.Transport != ramcloudv1.TransportTCP {
		return fmt.Errorf("spec.network.transport is %s, which is not supported yet; accepted: TCP", spec.Transport)
	}
	if spec.ResourceName != "" || spec.NetworkAttachmentRef != nil {
		return errors.New("spec.network.provider is Pod, which takes no device; accepted: leave resourceName and networkAttachmentRef out")
	}
	return nil
}

func (podNetwork) Arguments(ramcloudv1.NetworkSpec) []string { return nil }

func (podNetwork) Prepare(ramcloudv1.NetworkSpec, *metav1.ObjectMeta, *corev1.PodSpec) {}

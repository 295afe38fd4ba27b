package network

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ramcloudv1 "ramcloud.dev/operator/api/v1alpha1"
)

func TestWhatIsSupported(t *testing.T) {
	for _, test := range []struct {
		spec ramcloudv1.NetworkSpec
		want string // part of the refusal; empty: accepted
	}{
		{ramcloudv1.NetworkSpec{}, ""},
		{ramcloudv1.NetworkSpec{Transport: "TCP", Provider: "Pod"}, ""},
		{ramcloudv1.NetworkSpec{Transport: "RDMA"}, "spec.network.transport is RDMA, which is not supported yet; accepted: TCP"},
		{ramcloudv1.NetworkSpec{Transport: "DPDK", Provider: "Pod"}, "spec.network.transport is DPDK"},
		{ramcloudv1.NetworkSpec{Provider: "SharedRDMA"}, "spec.network.provider is SharedRDMA, which is not supported; accepted: Pod"},
		{ramcloudv1.NetworkSpec{Provider: "SRIOV", ResourceName: "a/b"}, "spec.network.provider is SRIOV"},
		{ramcloudv1.NetworkSpec{Provider: "DRA"}, "spec.network.provider is DRA"},
		{ramcloudv1.NetworkSpec{Provider: "Pod", ResourceName: "a/b"}, "takes no device"},
		{ramcloudv1.NetworkSpec{NetworkAttachmentRef: &ramcloudv1.NetworkAttachmentReference{Name: "a"}}, "takes no device"},
		{ramcloudv1.NetworkSpec{Provider: "carrier-pigeon"}, "spec.network.provider is carrier-pigeon, which is not supported; accepted: Pod"},
	} {
		_, err := For(test.spec)
		if (err == nil) != (test.want == "") || (err != nil && !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%+v: %v, want %q", test.spec, err, test.want)
		}
	}
}

func TestTCPNeedsNothingOfThePod(t *testing.T) {
	provider, err := For(ramcloudv1.NetworkSpec{})
	if err != nil {
		t.Fatal(err)
	}
	pod, before := corev1.PodSpec{Hostname: "h"}, corev1.PodSpec{Hostname: "h"}
	provider.Prepare(ramcloudv1.NetworkSpec{}, &metav1.ObjectMeta{}, &pod)
	if args := provider.Arguments(ramcloudv1.NetworkSpec{}); len(args) > 0 || !equality.Semantic.DeepEqual(pod, before) {
		t.Errorf("%v %+v", args, pod)
	}
}

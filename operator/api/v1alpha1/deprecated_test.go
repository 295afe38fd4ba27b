package v1alpha1_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	ramcloudv1 "ramcloud.dev/operator/api/v1alpha1"
)

// spec reads a spec as a user writes it, without the schema's defaults.
func spec(t *testing.T, text string) (out ramcloudv1.RAMCloudClusterSpec) {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(text), &out); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return out
}

func TestModernize(t *testing.T) {
	for _, test := range []struct {
		old, now string
		advice   []string
	}{
		{"durability: buffered", "durability: Buffered", []string{"spec.durability: buffered is now Buffered"}},
		{"durability: synced", "durability: Synced", []string{"spec.durability: synced is now Synced"}},
		{"failureDomain: server", "{}", []string{"spec.failureDomain: server is now to leave failureDomain out"}},
		{"failureDomain: node", "topologyKey: kubernetes.io/hostname", []string{"spec.failureDomain: node is now topologyKey: kubernetes.io/hostname"}},
		{"failureDomain: zone", "topologyKey: topology.kubernetes.io/zone",
			[]string{"spec.failureDomain: zone is now topologyKey: topology.kubernetes.io/zone"}},
		{"{failureDomain: label, failureDomainLabel: example.com/rack}", "topologyKey: example.com/rack",
			[]string{"spec.failureDomain: label is now topologyKey: example.com/rack"}},
		// The former version's default beside what the user writes now.
		{"{failureDomain: server, topologyKey: a/b}", "topologyKey: a/b", []string{"spec.failureDomain: server is now to leave failureDomain out"}},
		{"metadata: {etcd: {endpoints: [a], tlsSecret: s}}", "metadata: {etcd: {endpoints: [a], tlsSecretRef: {name: s}}}",
			[]string{"spec.metadata.etcd.tlsSecret is now tlsSecretRef: {name: s}"}},
		{"network: {transport: tcp, provider: pod}", "network: {transport: TCP, provider: Pod}",
			[]string{"spec.network.provider: pod is now Pod", "spec.network.transport: tcp is now TCP"}},
		{"network: {transport: rdma, provider: sharedRDMA}", "network: {transport: RDMA, provider: SharedRDMA}",
			[]string{"spec.network.provider: sharedRDMA is now SharedRDMA", "spec.network.transport: rdma is now RDMA"}},
		{"network: {transport: dpdk, provider: sriov}", "network: {transport: DPDK, provider: SRIOV}",
			[]string{"spec.network.provider: sriov is now SRIOV", "spec.network.transport: dpdk is now DPDK"}},
		{"network: {provider: dra}", "network: {provider: DRA}", []string{"spec.network.provider: dra is now DRA"}},
		{"pause: true", "paused: true", []string{"spec.pause is now paused: true"}},
		{"servers: {hugePages: none}", "servers: {hugePages: None}", []string{"spec.servers.hugePages: none is now None"}},
		{"servers: {hugePages: 2Mi}", "servers: {hugePages: 2Mi}", nil},
		{"{}", "{}", nil},
	} {
		got, want := spec(t, test.old), spec(t, test.now)
		if advice := got.Modernize(); !slices.Equal(advice, test.advice) {
			t.Errorf("%s: advice %q, want %q", test.old, advice, test.advice)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", test.old, diff)
		}
		if again := got.Modernize(); again != nil {
			t.Errorf("%s: the modern one: %q", test.old, again)
		}
	}
}

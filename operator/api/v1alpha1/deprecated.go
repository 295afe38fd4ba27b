package v1alpha1

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// FailureDomain is the old form of topologyKey.
// +kubebuilder:validation:Enum=server;node;zone;label
type FailureDomain string

// The old failure domains, and what they are called now.
const (
	failureDomainServer FailureDomain = "server" // no topologyKey
	failureDomainNode   FailureDomain = "node"   // kubernetes.io/hostname
	failureDomainZone   FailureDomain = "zone"   // topology.kubernetes.io/zone
	failureDomainLabel  FailureDomain = "label"  // the key in failureDomainLabel
)

// The values that earlier versions wrote in another case, each with its present spelling.
var (
	oldDurabilities = map[Durability]Durability{"buffered": DurabilityBuffered, "synced": DurabilitySynced}
	oldHugePages    = map[HugePages]HugePages{"none": HugePagesNone}
	oldTransports   = map[Transport]Transport{"tcp": TransportTCP, "rdma": TransportRDMA, "dpdk": TransportDPDK}
	oldProviders    = map[NetworkProvider]NetworkProvider{
		"pod": ProviderPod, "sharedRDMA": ProviderSharedRDMA, "sriov": ProviderSRIOV, "dra": ProviderDRA,
	}
)

// Modernize moves the content of old fields, and old spellings of values, to the new ones. For each it returns a text that
// says what to write instead, in the order of the fields. Code reads a spec only after this, so nothing else knows the old
// names. It changes the copy that was read, not the object in the API server.
func (s *RAMCloudClusterSpec) Modernize() (advice []string) {
	advice = renamed(advice, "spec.durability", &s.Durability, oldDurabilities)
	advice = append(advice, s.modernizeFailureDomain()...)
	if etcd := s.Metadata.Etcd; etcd != nil && etcd.DeprecatedTLSSecret != "" {
		advice = append(advice, fmt.Sprintf("spec.metadata.etcd.tlsSecret is now tlsSecretRef: {name: %s}", etcd.DeprecatedTLSSecret))
		if etcd.TLSSecretRef == nil {
			etcd.TLSSecretRef = &SecretReference{Name: etcd.DeprecatedTLSSecret}
		}
		etcd.DeprecatedTLSSecret = ""
	}
	advice = renamed(advice, "spec.network.provider", &s.Network.Provider, oldProviders)
	advice = renamed(advice, "spec.network.transport", &s.Network.Transport, oldTransports)
	if s.DeprecatedPause {
		advice = append(advice, "spec.pause is now paused: true")
		s.Paused, s.DeprecatedPause = true, false
	}
	return renamed(advice, "spec.servers.hugePages", &s.Servers.HugePages, oldHugePages)
}

// modernizeFailureDomain does this for the failure domain. topologyKey wins: an earlier version filled in the default
// "server", so that value need not be the user's choice.
func (s *RAMCloudClusterSpec) modernizeFailureDomain() (advice []string) {
	key := ""
	switch s.DeprecatedFailureDomain {
	case "":
		return nil
	case failureDomainServer:
		advice = append(advice, "spec.failureDomain: server is now to leave failureDomain out")
	case failureDomainNode:
		key = corev1.LabelHostname
	case failureDomainZone:
		key = corev1.LabelTopologyZone
	case failureDomainLabel:
		key = s.DeprecatedFailureDomainLabel
	}
	if key != "" {
		advice = append(advice, fmt.Sprintf("spec.failureDomain: %s is now topologyKey: %s", s.DeprecatedFailureDomain, key))
	}
	if s.TopologyKey == "" {
		s.TopologyKey = key
	}
	s.DeprecatedFailureDomain, s.DeprecatedFailureDomainLabel = "", ""
	return advice
}

// renamed replaces an old value.
func renamed[T ~string](advice []string, field string, value *T, old map[T]T) []string {
	now, found := old[*value]
	if !found {
		return advice
	}
	advice = append(advice, fmt.Sprintf("%s: %s is now %s", field, *value, now))
	*value = now
	return advice
}

package controller

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	ramcloudv1 "ramcloud.dev/operator/api/v1alpha1"
	"ramcloud.dev/operator/internal/plan"
	"ramcloud.dev/operator/internal/specs"
)

// member is a coordinator, a member of etcd or a server: the same steps with other objects.
type member struct {
	id   plan.ID
	name string // of its pod
}

// Defaults apply to fields that a cluster does not set.
type Defaults struct {
	NodeImage, EtcdImage string
	// PriorityClass of all pods; empty: none.
	PriorityClass string
	// IPv6: the addresses of pods are IPv6, alone or first.
	IPv6 bool
}

func memberOf(o *observed, id plan.ID) member {
	switch id.Kind {
	case plan.Etcd:
		return member{id, specs.EtcdName(o.cluster.Name, id.Index)}
	case plan.Coordinator:
		return member{id, specs.CoordinatorName(o.cluster.Name, id.Index)}
	}
	return member{id, specs.ServerName(o.cluster.Name, id.Index)}
}

// members are all members that shall exist.
func (o *observed) members(d plan.Decision) []member {
	var out []member
	wanted := plan.Observed{EtcdMembers: specs.WantedEtcd(o.cluster), Coordinators: specs.WantedCoordinators(o.cluster)}
	for _, id := range plan.Wanted(wanted, d.Servers) {
		out = append(out, memberOf(o, id))
	}
	return out
}

// foreign says whether the member's volume claim belongs to something else.
func (o *observed) foreign(d plan.Decision, m member) bool {
	return slices.ContainsFunc(m.claimNames(o), func(name string) bool { return slices.Contains(d.Foreign, name) })
}

// exposed says whether the member has a Service of its own for clients outside Kubernetes.
func (m member) exposed(o *observed) bool { return m.id.Kind != plan.Etcd && specs.Exposed(o.cluster) }

func (m member) hasVolume(o *observed) bool {
	return m.id.Kind != plan.Coordinator || specs.MetadataOnVolume(o.cluster)
}

// ports are the member's ports for outside: from its Service or, if that does not exist or has no address at the
// moment, as its pod advertises them.
func (m member) ports(o *observed) specs.NodePorts {
	if service := o.services[specs.OutsideServiceName(m.name)]; service != nil {
		if ports := specs.AllocatedNodePorts(service); ports.RPC != 0 {
			return ports
		}
	}
	if pod := o.pods[m.name]; pod != nil {
		return specs.ParseNodePorts(pod.Annotations[specs.AnnotationNodePorts])
	}
	return specs.NodePorts{}
}

// waitsForAddress names the Service whose load balancer has no address yet; empty if there is nothing to wait for. A
// pod advertises the address, so it is created after that.
func (m member) waitsForAddress(o *observed) string {
	if !m.exposed(o) || !specs.Balanced(o.cluster) || m.ports(o).RPC != 0 {
		return ""
	}
	return specs.OutsideServiceName(m.name)
}

// outsideService builds the member's Service. It requests node ports only if a pod advertises them already; otherwise
// the API server chooses.
func (m member) outsideService(o *observed) *corev1.Service {
	ports := specs.NodePorts{}
	if pod := o.pods[m.name]; pod != nil {
		ports = specs.ParseNodePorts(pod.Annotations[specs.AnnotationNodePorts])
	}
	if m.id.Kind == plan.Coordinator {
		return specs.CoordinatorOutsideService(o.cluster, m.id.Index, ports)
	}
	return specs.ServerOutsideService(o.cluster, m.id.Index, ports)
}

func (m member) volumeClaim(o *observed, generation int32) *corev1.PersistentVolumeClaim {
	switch m.id.Kind {
	case plan.Etcd:
		return specs.EtcdVolumeClaim(o.cluster, m.id.Index)
	case plan.Coordinator:
		return specs.CoordinatorVolumeClaim(o.cluster, m.id.Index)
	}
	return specs.ServerVolumeClaim(o.cluster, m.id.Index, generation)
}

// differences lists how the running pod differs from the wanted one.
func (m member) differences(o *observed, d plan.Decision) []string {
	live, wanted := o.pods[m.name], m.wantedPod(o)
	if live == nil || wanted == nil {
		return nil
	}
	if live.Annotations[specs.AnnotationTemplate] == wanted.Annotations[specs.AnnotationTemplate] {
		return stays(d.Memory[m.id])
	}
	if live.Annotations[specs.AnnotationRevision] == "" { // created before there were revisions, and adopted unchanged
		live = specs.AsMade(o.cluster, live, m.id.Index)
	}
	if d.ResizableInPlace(m.id) {
		return specs.DifferencesBesideMemory(live, wanted)
	}
	return specs.Differences(live, wanted)
}

// failure is the member's last failure in the status.
func (m member) failure(o *observed) *ramcloudv1.PodFailure {
	if m.id.Kind == plan.Server {
		if record := o.servers[m.name]; record != nil {
			return record.Status.LastFailure
		}
		return nil
	}
	list := *failures(&o.cluster.Status, m.id.Kind)
	for i := range list {
		if list[i].Pod == m.name {
			return &list[i].PodFailure
		}
	}
	return nil
}

// failures is where a cluster's status keeps the failures of etcd members and coordinators.
func failures(s *ramcloudv1.RAMCloudClusterStatus, kind plan.Kind) *[]ramcloudv1.MemberFailure {
	if kind == plan.Etcd {
		return &s.Etcd.LastFailures
	}
	return &s.Coordinator.LastFailures
}

// hadData says whether the member ever had data on its volume.
func (m member) hadData(o *observed) bool {
	switch m.id.Kind {
	case plan.Etcd:
		return o.cluster.Status.Etcd.Formed
	case plan.Coordinator:
		return o.cluster.Status.Coordinator.ClusterUUID != ""
	}
	record := o.servers[m.name]
	return record != nil && record.Status.Incarnation != ""
}

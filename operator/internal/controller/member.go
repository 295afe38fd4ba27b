package controller

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	ramcloudv1 "ramcloud.dev/operator/api/v1alpha1"
	"ramcloud.dev/operator/internal/plan"
	"ramcloud.dev/operator/internal/specs"
)

// member is the coordinator or a server: the same steps with other objects.
type member struct {
	index int32 // plan.Coordinator or a server's
	name  string
}

func memberOf(o *observed, index int32) member {
	if index == plan.Coordinator {
		return member{index: index, name: specs.CoordinatorName(o.cluster.Name)}
	}
	return member{index: index, name: specs.ServerName(o.cluster.Name, index)}
}

// members are the coordinator and all servers that shall exist.
func (o *observed) members(d plan.Decision) []member {
	out := []member{memberOf(o, plan.Coordinator)}
	for _, index := range d.Servers {
		out = append(out, memberOf(o, index))
	}
	return out
}

// foreign says whether the member's volume is somebody else's.
func (o *observed) foreign(d plan.Decision, m member) bool {
	return slices.Contains(d.Foreign, specs.VolumeClaimName(m.name))
}

func (m member) create(d plan.Decision) bool { return slices.Contains(d.Create, m.index) }

// ports are the member's node ports: those of its Service, or, if that is gone, those its pod advertises.
func (m member) ports(o *observed) specs.NodePorts {
	if service := o.services[specs.OutsideServiceName(m.name)]; service != nil {
		return specs.AllocatedNodePorts(service)
	}
	if pod := o.pods[m.name]; pod != nil {
		return specs.ParseNodePorts(pod.Annotations[specs.AnnotationNodePorts])
	}
	return specs.NodePorts{}
}

// outsideService builds the member's Service. Node ports are asked for only where a pod advertises them
// already; otherwise the API server chooses.
func (m member) outsideService(o *observed) *corev1.Service {
	ports := specs.NodePorts{}
	if pod := o.pods[m.name]; pod != nil {
		ports = specs.ParseNodePorts(pod.Annotations[specs.AnnotationNodePorts])
	}
	if m.index == plan.Coordinator {
		return specs.CoordinatorOutsideService(o.cluster, ports)
	}
	return specs.ServerOutsideService(o.cluster, m.index, ports)
}

func (m member) volumeClaim(o *observed) *corev1.PersistentVolumeClaim {
	if m.index == plan.Coordinator {
		return specs.CoordinatorVolumeClaim(o.cluster)
	}
	return specs.ServerVolumeClaim(o.cluster, m.index)
}

func (m member) pod(o *observed, image string) *corev1.Pod {
	if m.index == plan.Coordinator {
		return specs.CoordinatorPod(o.cluster, image, m.ports(o))
	}
	return specs.ServerPod(o.cluster, m.index, image, m.ports(o))
}

// pending says whether the pod that runs was made from something else than what is wanted now.
func (m member) pending(o *observed, image string) bool {
	live := o.pods[m.name]
	return live != nil && live.Annotations[specs.AnnotationTemplate] != m.pod(o, image).Annotations[specs.AnnotationTemplate]
}

func (m member) failure(o *observed) *ramcloudv1.PodFailure {
	if m.index == plan.Coordinator {
		return o.cluster.Status.Coordinator.LastFailure
	}
	if record := o.servers[m.name]; record != nil {
		return record.Status.LastFailure
	}
	return nil
}

package specs

import (
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	ramcloudv1 "ramcloud.dev/operator/api/v1alpha1"
)

// shapes are clusters whose pods differ in what is a member's own.
func shapes() map[string]*ramcloudv1.RAMCloudCluster {
	balanced, plain, named := demo(), demo(), everything()
	balanced.Spec.Expose.Type = ramcloudv1.ExposeLoadBalancer
	plain.Spec.Expose.Type = ramcloudv1.ExposeNone
	plain.Spec.Servers.Template.Metadata.Annotations = map[string]string{"kubernetes.io/egress-bandwidth": "1M"}
	named.Name, named.Namespace = "x", "x-coordinator-1" // a place that has the name of a member
	external := demo()
	external.Spec.Metadata.Etcd = &ramcloudv1.ExternalEtcdSpec{Endpoints: []string{"a:1"}, TLSSecretRef: &ramcloudv1.SecretReference{Name: "etcd-client"}}
	formed := everything()
	formed.Status.Etcd.Formed = true
	out := map[string]*ramcloudv1.RAMCloudCluster{"demo": demo(), "everything": everything(), "devices": onDevices(),
		"balanced": balanced, "plain": plain, "named": named, "external": external, "formed": formed}
	for _, stage := range []string{"Off", "Offered", "Used", "Required"} {
		out[stage] = at(stage)
	}
	return out
}

// at is a cluster whose etcd is at a stage of TLS.
func at(stage string) *ramcloudv1.RAMCloudCluster {
	c := everything()
	c.Status.Etcd.TLS, c.Status.Etcd.Formed = stage, true
	return c
}

// someTrust is that of an etcd of which one member is not reached by TLS yet.
func someTrust() Trust {
	return Trust{SecurePeers: map[int32]bool{0: true, 2: true, 11: true}, Authorities: "0123456789ab", Until: time.Date(2027, 3, 1, 0, 0, 0, 0, time.UTC)}
}

func podOf(c *ramcloudv1.RAMCloudCluster, component string, index int32, d Defaults, ports NodePorts) *corev1.Pod {
	switch component {
	case ComponentEtcd:
		return EtcdPod(c, index, d)
	case ComponentCoordinator:
		return CoordinatorPod(c, index, d, ports)
	}
	return ServerPod(c, index, d, ports)
}

func components(c *ramcloudv1.RAMCloudCluster) []string {
	if WantedEtcd(c) == 0 {
		return []string{ComponentCoordinator, ComponentServer}
	}
	return []string{ComponentEtcd, ComponentCoordinator, ComponentServer}
}

// A pod that is made from a template, stored and read again, is the one that is made directly: to the byte, and with it
// its hash. A flag of a member's own without a placeholder shows here.
func TestATemplateMakesEachMember(t *testing.T) {
	for name, c := range shapes() {
		for _, component := range components(c) {
			d := Defaults{Image: "ramcloud/node:1", PriorityClass: "p", Trust: someTrust()}
			revision := Revision{Template: Template(c, component, d), Spec: c.Spec}
			object, err := ControllerRevision(c, revision, 1, RevisionCurrent, "")
			if err != nil {
				t.Fatal(err)
			}
			if text := string(object.Data.Raw); strings.Contains(text, strconv.Itoa(int(anyIndex))) {
				t.Errorf("%s, %s: the template names the member that it was made of: %s", name, component, text)
			}
			stored, err := ReadRevision(object)
			if err != nil {
				t.Fatal(err)
			}
			if object.Name != RevisionName(c.Name, stored.Template) {
				t.Errorf("%s, %s: stored and read it has another name", name, component)
			}
			for _, index := range []int32{0, 1, 11} {
				for _, ports := range []NodePorts{{}, {RPC: 30100, Admin: 30101}, {RPC: 11100, Admin: 11101, Host: "lb.example"}} {
					want := podOf(c, component, index, d, ports)
					got := Instantiate(c, stored.Template, index, ports, d.Trust)
					if g, w := asJSON(t, got), asJSON(t, want); g != w {
						t.Errorf("%s, %s %d:\n%s\nwant\n%s", name, component, index, g, w)
					}
				}
			}
		}
	}
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// live is the pod as an API server and a node leave it.
func live(pod *corev1.Pod) *corev1.Pod {
	out := pod.DeepCopy()
	out.UID, out.ResourceVersion = types.UID("u"), "7"
	out.Labels[corev1.LabelTopologyZone] = "zone-a"
	out.Annotations["cni.projectcalico.org/podIP"] = "10.0.0.1/32"
	s := &out.Spec
	priority, never, seconds := int32(7), corev1.PreemptLowerPriority, int64(300)
	s.Priority, s.PreemptionPolicy = &priority, &never
	s.NodeName, s.ServiceAccountName, s.DeprecatedServiceAccount = "node-1", "default", "default"
	s.SchedulerName, s.DNSPolicy = corev1.DefaultSchedulerName, corev1.DNSClusterFirst
	s.Tolerations = append(s.Tolerations, corev1.Toleration{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists,
		Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds})
	s.InitContainers = []corev1.Container{{Name: "mesh-init"}}
	s.Containers = append([]corev1.Container{{Name: "mesh"}}, s.Containers...)
	for i := range s.Containers {
		s.Containers[i].TerminationMessagePath = corev1.TerminationMessagePathDefault
		s.Containers[i].TerminationMessagePolicy = corev1.TerminationMessageReadFile
	}
	mode := corev1.SecretVolumeSourceDefaultMode
	for i := range s.Volumes {
		if s.Volumes[i].Secret != nil && s.Volumes[i].Secret.DefaultMode == nil {
			s.Volumes[i].Secret.DefaultMode = &mode
		}
	}
	return out
}

// The template of a pod that runs is what it was made from, whichever member it is: operators that kept no revisions left
// nothing else.
func TestTheTemplateOfARunningPod(t *testing.T) {
	for name, c := range shapes() {
		for _, component := range components(c) {
			d := Defaults{Image: "ramcloud/node:1", PriorityClass: "p", Trust: someTrust()}
			want := Template(c, component, d)
			for _, index := range []int32{0, 2} {
				pod := live(podOf(c, component, index, d, NodePorts{RPC: 30100, Admin: 30101, Host: "lb.example"}))
				before := pod.DeepCopy()
				got := TemplateOf(pod)
				if g, w := asJSON(t, got), asJSON(t, want); g != w {
					t.Errorf("%s, %s %d:\n%s\nwant\n%s", name, component, index, g, w)
				}
				if !reflect.DeepEqual(before, pod) {
					t.Errorf("%s, %s: the pod that was read was changed", name, component)
				}
			}
		}
	}
}

// Nothing of a pod that was made by an operator before is brought to what this one would make.
func TestARunningPodIsNotBroughtUp(t *testing.T) {
	c := demo()
	former := ServerPod(c, 1, Defaults{Image: "ramcloud/node:0.1.0"}, NodePorts{RPC: 30100})
	former.Spec.Tolerations = nil
	former.Spec.Containers[0].Args = append(former.Spec.Containers[0].Args, "--former=demo-server-1")
	template := TemplateOf(live(former))
	if Image(template) != "ramcloud/node:0.1.0" || len(template.Spec.Tolerations) > 0 {
		t.Errorf("%+v", template.Spec)
	}
	next := Instantiate(c, template, 5, NodePorts{RPC: 30105}, Trust{})
	if args := strings.Join(next.Spec.Containers[0].Args, " "); !strings.Contains(args, "--former=demo-server-5") || !strings.Contains(args, ":30105") {
		t.Errorf("%s", args)
	}
}

// A template is the same at every stage of TLS, and the pod that is made from it is one of the stage that holds now: members
// that are made from a frozen template have to be able to talk with the others.
func TestATemplateKnowsNoTLS(t *testing.T) {
	for _, component := range []string{ComponentEtcd, ComponentCoordinator, ComponentServer} {
		d := Defaults{Image: "ramcloud/node:1", Trust: someTrust()}
		want := asJSON(t, Template(at(""), component, d))
		for _, from := range []string{"Off", "Offered", "Used", "Required"} {
			frozen := TemplateOf(live(podOf(at(from), component, 2, d, NodePorts{})))
			if got := asJSON(t, frozen); got != want {
				t.Errorf("%s at %s:\n%s\nwant\n%s", component, from, got, want)
			}
			for _, to := range []string{"Off", "Offered", "Used", "Required"} {
				for _, index := range []int32{1, 2} {
					got, want := Instantiate(at(to), frozen, index, NodePorts{}, d.Trust), podOf(at(to), component, index, d, NodePorts{})
					if g, w := asJSON(t, got), asJSON(t, want); g != w {
						t.Errorf("%s %d, frozen at %s, made at %s:\n%s\nwant\n%s", component, index, from, to, g, w)
					}
				}
			}
		}
	}
}

// A pod that was made before there were revisions differs from what is wanted now by its stage of TLS, too.
func TestAnAdoptedPodDiffersByItsTLS(t *testing.T) {
	d := Defaults{Image: "ramcloud/node:1", Trust: someTrust()}
	for _, component := range []string{ComponentEtcd, ComponentCoordinator} {
		before := podOf(at("Off"), component, 0, d, NodePorts{})
		wanted := Instantiate(at("Required"), TemplateOf(before), 0, NodePorts{}, d.Trust)
		if got := strings.Join(Differences(AsMade(at("Required"), live(before), 0), wanted), " "); !strings.Contains(got, "/etc/ramcloud/etcd") {
			t.Errorf("%s: %q", component, got)
		}
		if got := Differences(AsMade(at("Required"), live(wanted), 0), wanted); got != nil {
			t.Errorf("%s, as it is wanted: %q", component, got)
		}
	}
}

func TestRevisionsThatCannotBeRead(t *testing.T) {
	object, err := ControllerRevision(demo(), Revision{Template: Template(demo(), ComponentServer, Defaults{})}, 1, RevisionCurrent, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"", "[]", "{}", `{"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"server"}]}}}`} {
		object.Data.Raw = []byte(text)
		if _, err := ReadRevision(object); err == nil || !strings.Contains(err.Error(), object.Name) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

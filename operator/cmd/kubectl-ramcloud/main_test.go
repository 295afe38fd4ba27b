package main

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	ramcloudv1 "ramcloud.dev/operator/api/v1alpha1"
	"ramcloud.dev/operator/internal/specs"
)

// cluster is a cluster as the operator leaves it, half broken.
func cluster(name string) *ramcloudv1.RAMCloudCluster {
	used, total := resource.MustParse("12Mi"), resource.MustParse("1Gi")
	c := &ramcloudv1.RAMCloudCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: "u", Generation: 2}}
	c.Status.ObservedGeneration = 1
	c.Status.Coordinator.ClusterUUID = "the-uuid"
	c.Status.Servers = ramcloudv1.ServersStatus{Replicas: 4, Ready: 3, Summary: "3/4", Crashed: 1}
	c.Status.Data = ramcloudv1.DataStatus{State: ramcloudv1.DataPartial, Tables: 1, Tablets: 4, TabletsUnavailable: 1, Objects: 63000,
		MemoryUsed: &used, MemoryTotal: &total, Replication: ramcloudv1.ReplicationStatus{Segments: 9, FullyReplicated: 8}}
	c.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: "False", Reason: "TabletsUnavailable", Message: "1 tablets are not served"}}
	return c
}

func run(t *testing.T, objects []client.Object, args ...string) (string, error) {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, ramcloudv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	p := &plugin{out: &out, client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()}
	command := p.command()
	command.SetArgs(append(args, "--namespace=default"))
	err := command.ExecuteContext(context.Background())
	return out.String(), err
}

func TestStatusTellsTheStory(t *testing.T) {
	out, err := run(t, []client.Object{cluster("demo")}, "status")
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"default/demo", "3/4 up", "1 crashed", "Partial", "63000 objects, 12Mi of 1Gi", "8 of 9 segments",
		"TabletsUnavailable", "1 tablets are not served", "has not seen the newest spec"} {
		if !strings.Contains(out, part) {
			t.Errorf("no %q in\n%s", part, out)
		}
	}
}

func TestServers(t *testing.T) {
	c := cluster("demo")
	s := specs.Server(c, 2)
	s.Status = ramcloudv1.RAMCloudServerStatus{State: ramcloudv1.ServerCrashed, StateReason: "no answer", Incarnation: "7"}
	other := specs.Server(cluster("other"), 0)
	out, err := run(t, []client.Object{c, s, other}, "servers", "demo")
	if err != nil || !strings.Contains(out, "demo-server-2") || !strings.Contains(out, "no answer") || strings.Contains(out, "other-server") {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestConnect(t *testing.T) {
	c := cluster("demo")
	configMap := specs.ConnectionConfigMap(c, map[string]string{"cluster": "in:1", "admin": "in:2", "cluster-outside": "out:3"})
	out, err := run(t, []client.Object{c, configMap}, "connect")
	if err != nil || !strings.Contains(out, "RAMCLOUD_CLUSTER=in:1") || !strings.Contains(out, "RAMCLOUD_CLUSTER=out:3") || !strings.Contains(out, "port-forward") {
		t.Errorf("%v\n%s", err, out)
	}
	if _, err := run(t, []client.Object{c}, "connect"); err == nil || !strings.Contains(err.Error(), "has not published how to connect") {
		t.Errorf("without a ConfigMap: %v", err)
	}
	configMap.OwnerReferences = nil
	if _, err := run(t, []client.Object{c, configMap}, "connect"); err == nil || !strings.Contains(err.Error(), "does not belong") {
		t.Errorf("with somebody else's ConfigMap: %v", err)
	}
}

func TestWhichCluster(t *testing.T) {
	for _, test := range []struct {
		objects []client.Object
		args    []string
		want    string
	}{
		{nil, []string{"status"}, "there is no RAMCloudCluster in namespace 'default'"},
		{[]client.Object{cluster("a"), cluster("b")}, []string{"status"}, "has 2 clusters, name one of: a, b"},
		{[]client.Object{cluster("a")}, []string{"status", "x"}, "there is no RAMCloudCluster 'x'"},
		{[]client.Object{cluster("a")}, []string{"status", "a", "b"}, "accepts at most 1 arg"},
	} {
		if _, err := run(t, test.objects, test.args...); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v: %v, want %q", test.args, err, test.want)
		}
	}
}

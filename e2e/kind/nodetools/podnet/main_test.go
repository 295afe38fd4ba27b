package main

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func node(address, podRange string) corev1.Node {
	n := corev1.Node{Spec: corev1.NodeSpec{PodCIDR: podRange}}
	if address != "" {
		n.Status.Addresses = []corev1.NodeAddress{
			{Type: corev1.NodeHostName, Address: "name"}, {Type: corev1.NodeInternalIP, Address: address}}
	}
	return n
}

func TestPlanRoutesToOtherNodesOnly(t *testing.T) {
	nodes := []corev1.Node{node("172.18.0.2", "10.244.0.0/24"), node("172.18.0.3", "10.244.1.0/24"),
		node("172.18.0.4", ""), node("", "10.244.3.0/24")}
	p := planFor("172.18.0.3", nodes)
	if p.own != "10.244.1.0/24" {
		t.Errorf("own range: got %q", p.own)
	}
	if want := map[string]string{"10.244.0.0/24": "172.18.0.2"}; !maps.Equal(p.routes, want) {
		t.Errorf("routes: got %v, want %v (nodes without range or address are left out)", p.routes, want)
	}
	if p := planFor("172.18.0.9", nodes); p.own != "" || len(p.routes) != 2 {
		t.Errorf("a node that is not listed: got %+v", p)
	}
}

func TestWriteConfigWritesValidJSONOnce(t *testing.T) {
	folder := t.TempDir()
	if err := writeConfig(folder, "10.244.1.0/24"); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(folder, "10-podnet.conflist")
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	text, _ := os.ReadFile(path)
	var list struct {
		Plugins []struct {
			Type string
			IPAM struct{ Ranges [][]struct{ Subnet string } }
		}
	}
	if err := json.Unmarshal(text, &list); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	if len(list.Plugins) != 2 || list.Plugins[0].IPAM.Ranges[0][0].Subnet != "10.244.1.0/24" {
		t.Fatalf("got %s", text)
	}
	if err := writeConfig(folder, "10.244.1.0/24"); err != nil {
		t.Fatal(err)
	}
	if after, _ := os.Stat(path); !os.SameFile(before, after) {
		t.Error("an unchanged configuration was replaced, which restarts the runtime's network")
	}
	if left, _ := filepath.Glob(filepath.Join(folder, ".*")); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

// Command podnet is the pod network of the test cluster, one on every node: it writes the node's CNI
// configuration for its pod range (ptp, host-local, portmap), keeps a route to every other node's range,
// and masquerades what leaves the pod network. It knows no NetworkPolicy.
package main

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/vishvananda/netlink"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

const (
	configFolder = "/etc/cni/net.d"
	// A new node gets its range within seconds of joining; later the list only changes with the cluster.
	untilConfigured = time.Second
	afterwards      = 5 * time.Second
)

// cniConfig is the node's CNI configuration list for its pod range.
func cniConfig(podRange string) []byte {
	return fmt.Appendf(nil, `{"cniVersion": "0.3.1", "name": "podnet", "plugins": [
  {"type": "ptp", "ipMasq": false, "mtu": 1500,
   "ipam": {"type": "host-local", "dataDir": "/run/cni-ipam-state",
            "routes": [{"dst": "0.0.0.0/0"}], "ranges": [[{"subnet": %q}]]}},
  {"type": "portmap", "capabilities": {"portMappings": true}}
]}
`, podRange)
}

// plan is the configuration of one node: its own pod range, and the node of every other range.
type plan struct {
	own    string
	routes map[string]string // pod range → node address
}

func planFor(host string, nodes []corev1.Node) plan {
	p := plan{routes: map[string]string{}}
	for i := range nodes {
		address := internalAddress(&nodes[i])
		switch podRange := nodes[i].Spec.PodCIDR; {
		case podRange == "" || address == "":
			// The node has not joined completely; the next round handles it.
		case address == host:
			p.own = podRange
		default:
			p.routes[podRange] = address
		}
	}
	return p
}

func internalAddress(node *corev1.Node) string {
	for _, address := range node.Status.Addresses {
		if address.Type == corev1.NodeInternalIP {
			return address.Address
		}
	}
	return ""
}

// writeConfig puts the file in place whole: the container runtime watches the folder.
func writeConfig(folder, podRange string) error {
	want, path := cniConfig(podRange), filepath.Join(folder, "10-podnet.conflist")
	if have, err := os.ReadFile(path); err == nil && bytes.Equal(have, want) {
		return nil
	}
	temporary := filepath.Join(folder, ".podnet.tmp")
	if err := os.WriteFile(temporary, want, 0o644); err != nil {
		return err
	}
	return os.Rename(temporary, path)
}

func setRoute(podRange, via string) error {
	_, destination, err := net.ParseCIDR(podRange)
	if err != nil {
		return err
	}
	return netlink.RouteReplace(&netlink.Route{Dst: destination, Gw: net.ParseIP(via)})
}

// masquerade lets pods connect to addresses outside the pod network, with the node's address as the source.
func masquerade(podNetwork string) error {
	rule := []string{"POSTROUTING", "-s", podNetwork, "!", "-d", podNetwork, "-m", "addrtype", "!", "--dst-type", "LOCAL",
		"-m", "comment", "--comment", "podnet", "-j", "MASQUERADE"}
	if exec.Command("iptables", append([]string{"-w", "-t", "nat", "-C"}, rule...)...).Run() == nil {
		return nil
	}
	output, err := exec.Command("iptables", append([]string{"-w", "-t", "nat", "-A"}, rule...)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("iptables: %w: %s", err, output)
	}
	return nil
}

func apply(p plan, podNetwork string) error {
	if p.own != "" {
		if err := writeConfig(configFolder, p.own); err != nil {
			return err
		}
	}
	for podRange, address := range p.routes {
		if err := setRoute(podRange, address); err != nil {
			return fmt.Errorf("route to %s by %s: %w", podRange, address, err)
		}
	}
	return masquerade(podNetwork)
}

func round(client kubernetes.Interface, host, podNetwork string) (configured bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return false, err
	}
	p := planFor(host, nodes.Items)
	return p.own != "", apply(p, podNetwork)
}

func main() {
	host, podNetwork := os.Getenv("HOST_IP"), os.Getenv("POD_SUBNET")
	if net.ParseIP(host) == nil {
		log.Fatalf("HOST_IP: %q is not an address", host)
	}
	if _, _, err := net.ParseCIDR(podNetwork); err != nil {
		log.Fatalf("POD_SUBNET: %v", err)
	}
	config, err := rest.InClusterConfig()
	if err != nil {
		log.Fatal(err)
	}
	// Service addresses work only once kube-proxy is up, which may be after this program.
	if endpoint := os.Getenv("CONTROL_PLANE_ENDPOINT"); endpoint != "" {
		config.Host = "https://" + endpoint
	}
	client := kubernetes.NewForConfigOrDie(config)
	for {
		configured, err := round(client, host, podNetwork)
		if err != nil {
			log.Print(err)
		}
		if configured {
			time.Sleep(afterwards)
		} else {
			time.Sleep(untilConfigured)
		}
	}
}

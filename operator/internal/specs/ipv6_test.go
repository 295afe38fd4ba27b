package specs

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// addresses are the values of the flags that say where a pod listens, and where clients outside find it.
func addresses(pod *corev1.Pod) (out []string) {
	for _, arg := range pod.Spec.Containers[0].Args {
		flag, value, _ := strings.Cut(arg, "=")
		if strings.Contains(flag, "listen") || strings.HasSuffix(flag, "advertise-outside") {
			out = append(out, value)
		}
	}
	return out
}

// A pod that listens on IPv4 only is reached by nobody where addresses are IPv6, not by its own probes either.
func TestPodsListenOnIPv6(t *testing.T) {
	ports := NodePorts{RPC: 30000, Admin: 30001}
	ipv6 := Defaults{Image: "i", IPv6: true}
	for name, test := range map[string]struct {
		pod  *corev1.Pod
		want []string
	}{
		"server": {ServerPod(demo(), 1, ipv6, ports), []string{"[::]:11200", "[::]:11202", "[$(HOST_IP)]:30000"}},
		"coordinator": {CoordinatorPod(demo(), 0, ipv6, ports),
			[]string{"[::]:11100", "[::]:11101", "[::]:11102", "[::]:11103", "[$(HOST_IP)]:30000", "[$(HOST_IP)]:30001"}},
		"etcd":               {EtcdPod(everything(), 1, ipv6), []string{"http://[::]:2380", "http://[::]:2379", "http://[::]:2381"}},
		"server with IPv4":   {ServerPod(demo(), 1, Defaults{Image: "i"}, ports), []string{"0.0.0.0:11200", "0.0.0.0:11202", "$(HOST_IP):30000"}},
		"balanced with IPv6": {ServerPod(demo(), 1, ipv6, NodePorts{RPC: 1, Host: "2001:db8::1"}), []string{"[::]:11200", "[::]:11202", "[2001:db8::1]:1"}},
	} {
		if got := addresses(test.pod); !slices.Equal(got, test.want) {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

// What is recorded are templates: a pod that a later operator makes of one has the same addresses.
func TestTemplatesKeepTheAddressFamily(t *testing.T) {
	ports := NodePorts{RPC: 30000, Admin: 30001}
	for _, ipv6 := range []bool{false, true} {
		defaults := Defaults{Image: "i", IPv6: ipv6}
		for component, pod := range map[string]*corev1.Pod{
			ComponentServer:      ServerPod(demo(), 1, defaults, ports),
			ComponentCoordinator: CoordinatorPod(demo(), 1, defaults, ports),
		} {
			made := Instantiate(demo(), Template(demo(), component, defaults), 1, ports, Trust{})
			if got, want := addresses(made), addresses(pod); !slices.Equal(got, want) {
				t.Errorf("%s, IPv6 %v: %q, want %q", component, ipv6, got, want)
			}
			if differs := Differences(pod, made); len(differs) > 0 {
				t.Errorf("%s, IPv6 %v differs: %q", component, ipv6, differs)
			}
		}
	}
}

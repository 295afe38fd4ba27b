package suite

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// The messages of the admin API as `ramcloud -o json` prints them; 64-bit numbers may be JSON strings, as
// protobuf writes them.
type clusterStatus struct {
	Health             string `json:"health"`
	ServersUp          int    `json:"servers_up"`
	MastersWithTablets int    `json:"masters_with_tablets"`
	Replication        struct {
		Wanted          int `json:"replicas_wanted"`
		Segments        int `json:"segments"`
		FullyReplicated int `json:"segments_fully_replicated"`
		UnderReplicated int `json:"segments_under_replicated"`
	} `json:"replication"`
}

type serverRow struct {
	Metadata struct{ Name string }
	Status   struct {
		State   string
		Tablets int
	}
}

func sum(data []byte) string {
	digest := sha256.Sum256(data)
	return hex.EncodeToString(digest[:])
}

func canonical(export []byte) []byte {
	GinkgoHelper()
	return must(run(export, "hack/dataset.sh", "--canonical"))
}

func servers() []serverRow {
	GinkgoHelper()
	return decode[struct{ Items []serverRow }](must(kubectl("get", "ramcloudservers", "-o", "json"))).Items
}

var _ = Describe("the walking skeleton", Ordered, ContinueOnFailure, Label("short"), func() {
	const table = "packages"
	var input []byte

	BeforeAll(func() {
		input = must(run(nil, "hack/dataset.sh"))
	})

	It("is Ready, and its conditions are of the current generation", func() {
		Eventually(func() string { return getCluster().condition("Ready").Status }, podDeadline, time.Second).Should(Equal("True"))
		c := getCluster()
		Expect(c.Status.Servers.Ready).To(Equal(c.Spec.Servers.Replicas))
		Expect(c.condition("Ready").ObservedGeneration).To(Equal(c.Metadata.Generation))
		check("RAMCloudCluster %s is Ready with %d of %d servers", cluster, c.Status.Servers.Ready, c.Spec.Servers.Replicas)
	})

	It("gives back from outside what was put in", func() {
		if _, err := ramcloud("table", "show", table); err != nil {
			must(ramcloud("table", "create", table, "--span", "4"))
		}
		must(run(input, "build/bin/ramcloud", "--cluster", outside(), "import", table, "-"))
		export := canonical(must(ramcloud("export", table)))
		Expect(sum(export)).To(Equal(sum(input)), "sha256 of the export and of the input")
		check("%d records over %s: sha256 in = out = %s", strings.Count(string(export), "\n"), outside(), sum(input))
	})

	It("has tablets on at least 3 masters and every segment on R backups", func() {
		r := getCluster().Spec.ReplicationFactor
		var status clusterStatus
		Eventually(func(g Gomega) {
			output, err := ramcloud("status", "-o", "json")
			g.Expect(err).NotTo(HaveOccurred())
			status = decode[clusterStatus](output)
			g.Expect(status.MastersWithTablets).To(BeNumerically(">=", 3))
			g.Expect(status.Replication.Wanted).To(Equal(r))
			g.Expect(status.Replication.Segments).To(BeNumerically(">", 0))
			g.Expect(status.Replication.UnderReplicated).To(BeZero())
			g.Expect(status.Replication.FullyReplicated).To(Equal(status.Replication.Segments))
		}, time.Minute, time.Second).Should(Succeed())
		check("%d masters own tablets; %d of %d segments have their R = %d replicas", status.MastersWithTablets,
			status.Replication.FullyReplicated, status.Replication.Segments, r)
	})

	It("spreads the servers over the nodes", func() {
		workers := strings.Fields(string(must(kubectl("get", "nodes", "-l", "!node-role.kubernetes.io/control-plane", "-o", "name"))))
		nodes := strings.Fields(string(must(kubectl("get", "ramcloudservers", "-o", "jsonpath={.items[*].status.placement.node}"))))
		distinct := map[string]bool{}
		for _, node := range nodes {
			distinct[node] = true
		}
		Expect(nodes).To(HaveLen(getCluster().Spec.Servers.Replicas))
		Expect(distinct).To(HaveLen(min(len(nodes), len(workers))), "nodes of the servers: %v", nodes)
		check("%d servers on %d of %d workers", len(nodes), len(distinct), len(workers))
	})

	It("tells its story with kubectl get rcc,rcs", func() {
		text := string(must(kubectl("get", "rcc,rcs")))
		Expect(text).To(ContainSubstring("ramcloudcluster.ramcloud.dev/" + cluster))
		Expect(strings.Count(text, "ramcloudserver.ramcloud.dev/")).To(Equal(getCluster().Spec.Servers.Replicas))
		check("kubectl get rcc,rcs prints\n%s", text)
	})

	It("answers clients inside the cluster at the address of the connection ConfigMap", func() {
		inside := string(must(kubectl("get", "configmap", cluster+"-connection", "-o", "jsonpath={.data.cluster}")))
		output := must(kubectl("exec", cluster+"-server-0", "--", "ramcloud", "--cluster", inside, "status"))
		check("ramcloud status from a pod by %s:\n%s", inside, output)
	})

	It("adds a fifth server by kubectl scale, and puts a tablet of a new table on it", func() {
		before := map[string]bool{}
		for _, server := range servers() {
			before[server.Metadata.Name] = true
		}
		must(kubectl("scale", "rcc/"+cluster, "--replicas=5"))
		Eventually(func(g Gomega) {
			c := getCluster()
			g.Expect(c.Status.Servers.Ready).To(Equal(5))
			g.Expect(c.condition("Ready").Status).To(Equal("True"))
		}, podDeadline, time.Second).Should(Succeed())
		spread := fmt.Sprintf("spread-%d", time.Now().Unix())
		must(ramcloud("table", "create", spread, "--span", "5"))
		DeferCleanup(func() { must(ramcloud("table", "drop", spread)) })
		Eventually(func(g Gomega) {
			all := servers()
			g.Expect(all).To(HaveLen(5))
			for _, server := range all {
				g.Expect(server.Status.State).To(Equal("Up"), server.Metadata.Name)
				g.Expect(server.Status.Tablets).To(BeNumerically(">", 0), server.Metadata.Name)
				if !before[server.Metadata.Name] {
					check("%s came by scaling and owns %d tablets", server.Metadata.Name, server.Status.Tablets)
				}
			}
		}, podDeadline, time.Second).Should(Succeed())
	})

	It("refuses to scale in, with the reason, and keeps everything running", func() {
		replicas := len(servers())
		must(kubectl("scale", "rcc/"+cluster, fmt.Sprintf("--replicas=%d", replicas-1)))
		DeferCleanup(func() {
			must(kubectl("scale", "rcc/"+cluster, fmt.Sprintf("--replicas=%d", replicas)))
			Eventually(func() string { return getCluster().condition("ScaleBlocked").Status }, time.Minute, time.Second).
				ShouldNot(Equal("True"))
		})
		Eventually(func() string { return getCluster().condition("ScaleBlocked").Status }, time.Minute, time.Second).
			Should(Equal("True"))
		blocked := getCluster().condition("ScaleBlocked")
		Expect(blocked.Message).NotTo(BeEmpty())
		Consistently(func() int { return len(servers()) }, 5*time.Second, time.Second).Should(Equal(replicas))
		check("ScaleBlocked, %s: %s", blocked.Reason, blocked.Message)
	})

	It("refuses a cluster with fewer servers than its replicas need at once, naming the field", func() {
		_, err := run([]byte(`{"apiVersion": "ramcloud.dev/v1alpha1", "kind": "RAMCloudCluster",
			"metadata": {"name": "too-small", "namespace": "default"},
			"spec": {"servers": {"replicas": 2}, "replicationFactor": 2}}`),
			"kubectl", "apply", "--dry-run=server", "-f", "-")
		Expect(err).To(MatchError(ContainSubstring("spec.servers.replicas is 2")))
		check("%v", err)
	})

	It("still holds the same data at the end", func() {
		Expect(sum(canonical(must(ramcloud("export", table))))).To(Equal(sum(input)))
		check("sha256 of the export is still %s", sum(input))
	})
})

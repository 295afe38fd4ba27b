package suite

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

const (
	cluster = "demo"
	// A pod is scheduled, its volume made and its server enlisted within seconds; slow machines get ten times that.
	podDeadline = 5 * time.Minute
	// The longest that one command of these cases may take; an import of 50 MB over node ports is the longest.
	commandDeadline = 5 * time.Minute
)

// top is the checkout.
func top() string {
	if folder := os.Getenv("RAMCLOUD_TOP"); folder != "" {
		return folder
	}
	folder, err := filepath.Abs("../..")
	Expect(err).NotTo(HaveOccurred())
	return folder
}

// run starts a command with standard input and returns its standard output; an error carries its standard error.
func run(stdin []byte, name string, arguments ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), commandDeadline)
	defer cancel()
	command := exec.CommandContext(ctx, name, arguments...)
	var stderr bytes.Buffer
	command.Stdin, command.Stderr, command.Dir = bytes.NewReader(stdin), &stderr, top()
	output, err := command.Output()
	if err != nil {
		return output, fmt.Errorf("%s %s: %w: %s", filepath.Base(name), strings.Join(arguments, " "), err, stderr.String())
	}
	return output, nil
}

func must(output []byte, err error) []byte {
	GinkgoHelper()
	Expect(err).NotTo(HaveOccurred())
	return output
}

func kubectl(arguments ...string) ([]byte, error) { return run(nil, "kubectl", arguments...) }

// outside is the coordinator's address for clients that are not in the cluster.
func outside() string {
	GinkgoHelper()
	address := string(must(kubectl("get", "configmap", cluster+"-connection", "-o", "jsonpath={.data.cluster-outside}")))
	Expect(address).To(MatchRegexp(`^[0-9.]+:[0-9]+$`), "cluster-outside of the ConfigMap %s-connection", cluster)
	return address
}

// ramcloud runs the command line against the cluster from outside.
func ramcloud(arguments ...string) ([]byte, error) {
	return run(nil, filepath.Join(top(), "build/bin/ramcloud"), append([]string{"--cluster", outside()}, arguments...)...)
}

func decode[T any](data []byte) T {
	GinkgoHelper()
	var value T
	Expect(json.Unmarshal(data, &value)).To(Succeed(), "JSON: %s", data)
	return value
}

// check prints on the terminal what a case has verified.
func check(text string, values ...any) {
	GinkgoHelper()
	_, _ = fmt.Fprintf(GinkgoWriter, "checked: "+text+"\n", values...)
}

// condition is one condition of a RAMCloudCluster.
type condition struct {
	Type, Status, Reason, Message string
	ObservedGeneration            int64
}

type clusterObject struct {
	Metadata struct{ Generation int64 }
	Spec     struct {
		ReplicationFactor int
		Servers           struct{ Replicas int }
	}
	Status struct {
		Conditions []condition
		Servers    struct{ Replicas, Ready int }
	}
}

func (c clusterObject) condition(kind string) condition {
	for _, one := range c.Status.Conditions {
		if one.Type == kind {
			return one
		}
	}
	return condition{Type: kind, Status: "absent"}
}

func getCluster() clusterObject {
	GinkgoHelper()
	return decode[clusterObject](must(kubectl("get", "ramcloudcluster", cluster, "-o", "json")))
}

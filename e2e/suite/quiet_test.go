package suite

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

const (
	quietTime = 5 * time.Minute
	// The part of a core that all operators together may use while nothing happens.
	quietShare = 0.01
)

// watched lists all kinds of objects that the operator could write, except its leader's lease.
const watched = "ramcloudclusters,ramcloudservers,pods,pvc,services,configmaps,secrets,poddisruptionbudgets,ramcloudrecoveries"

// versions are the resource versions of all objects of clusters, and the events about them.
func versions() map[string]string {
	GinkgoHelper()
	out := map[string]string{}
	take := func(what string, arguments ...string) {
		text := string(must(kubectl(append([]string{"get", what, "-A", "-o",
			`jsonpath={range .items[*]}{.kind}/{.metadata.namespace}/{.metadata.name} {.metadata.resourceVersion}{"\n"}{end}`}, arguments...)...)))
		for line := range strings.Lines(text) {
			name, version, _ := strings.Cut(strings.TrimSpace(line), " ")
			out[name] = version
		}
	}
	take("ramcloudclusters")
	take(strings.TrimPrefix(watched, "ramcloudclusters,"), "-l", "app.kubernetes.io/managed-by=ramcloud-operator")
	// Events are forgotten after an hour: a deleted event is not a write of the operator.
	text := string(must(kubectl("get", "events.events.k8s.io", "-A", "-o",
		`jsonpath={range .items[?(@.reportingController=="ramcloud-operator")]}Event/{.metadata.namespace}/{.metadata.name} {.metadata.resourceVersion}{"\n"}{end}`)))
	for line := range strings.Lines(text) {
		name, version, _ := strings.Cut(strings.TrimSpace(line), " ")
		out[name] = version
	}
	return out
}

// repeated are the events that came more than once. client-go counts repetitions, and writes the final count
// of an event minutes after its last repetition.
func repeated() (out []string) {
	GinkgoHelper()
	text := string(must(kubectl("get", "events.events.k8s.io", "-A", "-o",
		`jsonpath={range .items[?(@.series)]}Event/{.metadata.namespace}/{.metadata.name}{"\n"}{end}`)))
	for line := range strings.Lines(text) {
		out = append(out, strings.TrimSpace(line))
	}
	return out
}

// eventPatches counts what the API server ever patched of events.k8s.io, for all its clients. client-go
// patches an event at its second repetition, and again minutes after its last one, also when the count is the
// same: then no resource version changes.
func eventPatches() (count float64) {
	GinkgoHelper()
	for line := range strings.Lines(string(must(kubectl("get", "--raw", "/metrics")))) {
		found := series.FindStringSubmatch(strings.TrimSpace(line))
		if found == nil || found[1] != "apiserver_request_total" || !ofEventPatch(found[2]) {
			continue
		}
		value, err := strconv.ParseFloat(found[3], 64)
		Expect(err).NotTo(HaveOccurred(), line)
		count += value
	}
	return count
}

func ofEventPatch(labels string) bool {
	for _, label := range []string{`group="events.k8s.io"`, `resource="events"`, `verb="PATCH"`} {
		if !strings.Contains(labels, label) {
			return false
		}
	}
	return true
}

// differences names the entries that differ between before and after.
func differences(before, after map[string]string) (out []string) {
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if before[name] != after[name] {
			out = append(out, fmt.Sprintf("%s: %s, then %s", name, before[name], after[name]))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if _, there := after[name]; !there && !strings.HasPrefix(name, "Event/") {
			out = append(out, name+" is gone")
		}
	}
	return out
}

// metricsReader asks operators for their metrics as Prometheus would: with the token of an account that has
// the right.
type metricsReader struct {
	token  string
	client http.Client
}

func newMetricsReader() *metricsReader {
	GinkgoHelper()
	const account = "e2e-metrics"
	must(kubectl("-n", operatorNamespace, "create", "serviceaccount", account))
	DeferCleanup(func() { must(kubectl("-n", operatorNamespace, "delete", "serviceaccount", account)) })
	must(kubectl("create", "clusterrolebinding", account, "--clusterrole=ramcloud-operator-metrics-reader",
		"--serviceaccount="+operatorNamespace+":"+account))
	DeferCleanup(func() { must(kubectl("delete", "clusterrolebinding", account)) })
	token := strings.TrimSpace(string(must(kubectl("-n", operatorNamespace, "create", "token", account))))
	return &metricsReader{token: token, client: http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, // the operator's own certificate
	}}}
}

var forwarding = regexp.MustCompile(`Forwarding from 127\.0\.0\.1:([0-9]+)`)

// read gives a pod's metrics: the sums over all series of each name and, for requests to the API server, by method.
func (m *metricsReader) read(pod string) map[string]float64 {
	GinkgoHelper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	forward := exec.CommandContext(ctx, "kubectl", "-n", operatorNamespace, "port-forward", "--address=127.0.0.1", "pod/"+pod, ":8443")
	said, err := forward.StdoutPipe()
	Expect(err).NotTo(HaveOccurred())
	Expect(forward.Start()).To(Succeed())
	defer func() {
		cancel()
		_ = forward.Wait()
	}()
	line, err := bufio.NewReader(said).ReadString('\n')
	Expect(err).NotTo(HaveOccurred())
	port := forwarding.FindStringSubmatch(line)
	Expect(port).NotTo(BeNil(), line)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://127.0.0.1:"+port[1]+"/metrics", nil)
	Expect(err).NotTo(HaveOccurred())
	request.Header.Set("Authorization", "Bearer "+m.token)
	response, err := m.client.Do(request)
	Expect(err).NotTo(HaveOccurred())
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	Expect(err).NotTo(HaveOccurred())
	Expect(response.StatusCode).To(Equal(http.StatusOK), "%s", body)
	return sums(string(body))
}

var (
	series = regexp.MustCompile(`^([a-zA-Z_:][a-zA-Z0-9_:]*)(\{.*\})? ([^ ]+)$`)
	method = regexp.MustCompile(`method="([A-Z]+)"`)
)

func sums(text string) map[string]float64 {
	out := map[string]float64{}
	for line := range strings.Lines(text) {
		found := series.FindStringSubmatch(strings.TrimSpace(line))
		if found == nil {
			continue // a comment
		}
		value, err := strconv.ParseFloat(found[3], 64)
		if err != nil {
			continue
		}
		name := found[1]
		if by := method.FindStringSubmatch(found[2]); name == "rest_client_requests_total" && by != nil {
			name += " " + by[1]
		}
		out[name] += value
	}
	return out
}

var _ = Describe("a quiet cluster", Ordered, Label("quiet"), func() {
	It("costs no writes and hardly any CPU", func() {
		waitReady(cluster)
		reader := newMetricsReader()
		pods := strings.Fields(string(must(kubectl("-n", operatorNamespace, "get", "pods", "-l", "app.kubernetes.io/name=ramcloud-operator",
			"-o", "jsonpath={.items[*].metadata.name}"))))
		Expect(pods).NotTo(BeEmpty())
		By("waiting until what was before has settled")
		var last map[string]string // nil, so the first look has nothing to compare with
		Eventually(func() []string {
			before := last
			last = versions()
			return differences(before, last)
		}, podDeadline, 20*time.Second).Should(BeEmpty())

		By("watching for " + quietTime.String())
		began, objects, counted, before := time.Now(), versions(), repeated(), map[string]map[string]float64{}
		eventsPatched := -eventPatches() // longer than the operators are watched, so it has all of theirs
		for _, pod := range pods {
			before[pod] = reader.read(pod)
		}
		time.Sleep(quietTime) // this is the measurement, not a wait for a condition
		total := map[string]float64{}
		for _, pod := range pods {
			for name, value := range reader.read(pod) {
				total[name] += value - before[pod][name]
			}
		}
		took := time.Since(began)
		eventsPatched += eventPatches()
		changed := differences(objects, versions())
		late := 0 // earlier events whose count was written now
		changed = slices.DeleteFunc(changed, func(what string) bool {
			name, _, _ := strings.Cut(what, ": ")
			if !slices.Contains(counted, name) {
				return false
			}
			late++
			return true
		})

		share := total["process_cpu_seconds_total"] / took.Seconds()
		check("in %s: %d objects and events, of which %d changed, and %d counts of events of before; %d operators used %.2f s of CPU (%.2f %% of a core); "+
			"requests to the API server: %.0f PATCH (all clients: %.0f of events), %.0f DELETE, %.0f POST (reviews of our own token), %.0f PUT (renewals of the leader's lease), %.0f GET",
			took.Round(time.Second), len(objects), len(changed), late, len(pods), total["process_cpu_seconds_total"], 100*share,
			total["rest_client_requests_total PATCH"], eventsPatched, total["rest_client_requests_total DELETE"], total["rest_client_requests_total POST"],
			total["rest_client_requests_total PUT"], total["rest_client_requests_total GET"])
		Expect(changed).To(BeEmpty())
		Expect(total).To(HaveKey("rest_client_requests_total PUT"), "the lease is renewed: requests are counted")
		Expect(total["rest_client_requests_total PATCH"]).To(BeNumerically("<=", eventsPatched), "nothing but events is patched")
		Expect(total["rest_client_requests_total DELETE"]).To(BeZero())
		// The caller's token is checked (TokenReview), and so is its right (SubjectAccessReview).
		Expect(total["rest_client_requests_total POST"]).To(BeNumerically("<=", 4*len(pods)))
		Expect(total["process_cpu_seconds_total"]).To(BeNumerically(">", 0))
		Expect(share).To(BeNumerically("<", quietShare), "cores, of all operators together")
	})
})

package suite

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// restartGrace is the default of --restart-grace: for so long the closed replicas on a server that stopped by a
// plan are not copied to others.
const restartGrace = 30 * time.Second

var recreated = regexp.MustCompile(`(?m)^ramcloud_replicas_recreated_total\{how="(copied|adopted)"\} (\S+)$`)

// replacements follows how many closed replicas the servers of a cluster copied, and how many they adopted, in
// place of lost ones. Counters end with their processes, so it reads them all the time.
type replacements struct {
	name    string
	servers int
	stop    chan struct{}
	ended   sync.WaitGroup
	most    map[string]float64 // by pod, its UID, and how
	away    time.Duration      // the longest time for which a server was away
}

func watchReplacements(name string, servers int) *replacements {
	r := &replacements{name: name, servers: servers, stop: make(chan struct{}), most: map[string]float64{}}
	r.ended.Add(1)
	go r.run()
	return r
}

// run ignores errors: pods and coordinators are restarted meanwhile.
func (r *replacements) run() {
	defer r.ended.Done()
	defer GinkgoRecover()
	whole := time.Now()
	for {
		if out, err := onCluster(r.name, "status", "-o", "json"); err == nil {
			if decode[clusterStatus](out).ServersUp == r.servers {
				whole = time.Now()
			}
			r.away = max(r.away, time.Since(whole))
		}
		r.read()
		select {
		case <-r.stop:
			return
		case <-time.After(500 * time.Millisecond):
		}
	}
}

func (r *replacements) read() {
	pods, err := kubectl("get", "pods", "-l", "ramcloud.dev/cluster="+r.name+",app.kubernetes.io/component=server", "-o",
		"jsonpath={range .items[*]}{.metadata.name}/{.metadata.uid}{\"\\n\"}{end}")
	if err != nil {
		return
	}
	for _, pod := range strings.Fields(string(pods)) {
		name, _, _ := strings.Cut(pod, "/")
		page, err := kubectl("get", "--raw", "/api/v1/namespaces/default/pods/"+name+":11202/proxy/metrics")
		if err != nil {
			continue
		}
		for _, found := range recreated.FindAllStringSubmatch(string(page), -1) {
			if count, err := strconv.ParseFloat(found[2], 64); err == nil {
				key := pod + " " + found[1]
				r.most[key] = max(r.most[key], count)
			}
		}
	}
}

// openReplicas is how many replicas of one master a stop of another server takes that were open: of the head and of
// the one that is opened ahead. If the segment closes before they are replaced, that counts as copied.
const openReplicas = 2

// onlyAdopted checks that nothing was copied but what was open when a server stopped, if each server was back within
// the grace period.
func (r *replacements) onlyAdopted() {
	GinkgoHelper()
	close(r.stop)
	r.ended.Wait()
	copied, tooMany, adopted, all := []string{}, []string{}, 0.0, 0.0
	for key, count := range r.most {
		if strings.HasSuffix(key, " adopted") {
			adopted += count
			continue
		}
		all += count
		if count > 0 {
			copied = append(copied, fmt.Sprint(key, " ", count))
		}
		if count > float64(openReplicas*(r.servers-1)) {
			tooMany = append(tooMany, key)
		}
	}
	check("a server was away for at most %s; %.0f closed replicas were adopted, copied were %v", r.away.Round(time.Second), adopted, copied)
	if r.away < restartGrace {
		Expect(tooMany).To(BeEmpty(), "each server was back within %s", restartGrace)
		Expect(adopted).To(BeNumerically(">", 2*all), "each server was back within %s", restartGrace)
	}
}

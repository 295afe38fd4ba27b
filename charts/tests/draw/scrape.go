package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"time"
)

// target is something with metrics.
type target struct {
	url, token string
	labels     map[string]string
}

// scraper reads a cluster's metrics through `kubectl proxy`, and the operators' through `kubectl port-forward`.
type scraper struct {
	client  http.Client
	targets []target
	cancel  context.CancelFunc
	helpers []*exec.Cmd
}

func (s *scraper) close() {
	s.cancel()
	for _, helper := range s.helpers {
		_ = helper.Wait()
	}
}

// helper starts a kubectl that stays, and gives what the pattern finds in its first line.
func (s *scraper) helper(ctx context.Context, pattern *regexp.Regexp, arguments ...string) (string, error) {
	command := exec.CommandContext(ctx, "kubectl", arguments...)
	command.Stderr = os.Stderr
	said, err := command.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := command.Start(); err != nil {
		return "", err
	}
	s.helpers = append(s.helpers, command)
	reader := bufio.NewReader(said)
	text, err := reader.ReadString('\n')
	found := pattern.FindStringSubmatch(text)
	if err != nil || found == nil {
		return "", fmt.Errorf("kubectl %v said %q (%v)", arguments, text, err)
	}
	go func() { _, _ = io.Copy(io.Discard, reader) }()
	return found[1], nil
}

type podList struct {
	Items []struct {
		Metadata struct {
			Name, Namespace string
			Labels          map[string]string
		}
		Spec struct {
			Containers []struct {
				Ports []struct {
					Name          string
					ContainerPort int
				}
			}
		}
	}
}

func pods(ctx context.Context, arguments ...string) (podList, error) {
	var list podList
	text, err := exec.CommandContext(ctx, "kubectl", append([]string{"get", "pods", "-o", "json"}, arguments...)...).Output()
	if err != nil {
		return list, fmt.Errorf("kubectl get pods %v: %w", arguments, err)
	}
	return list, json.Unmarshal(text, &list)
}

var (
	serving    = regexp.MustCompile(`Starting to serve on ([0-9.:]+)`)
	forwarding = regexp.MustCompile(`Forwarding from ([0-9.]+:[0-9]+)`)
)

func newScraper(parent context.Context, o *options) (*scraper, error) {
	ctx, cancel := context.WithCancel(parent)
	s := &scraper{cancel: cancel, client: http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // the operator's own certificate
	}}}
	if err := s.find(ctx, o); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// find makes the targets, with the labels that the chart's relabelling gives them.
func (s *scraper) find(ctx context.Context, o *options) error {
	proxy, err := s.helper(ctx, serving, "proxy", "--address=127.0.0.1", "--port=0")
	if err != nil {
		return err
	}
	list, err := pods(ctx, "-A", "-l", "app.kubernetes.io/managed-by=ramcloud-operator,app.kubernetes.io/name=ramcloud")
	if err != nil {
		return err
	}
	for _, pod := range list.Items {
		for _, container := range pod.Spec.Containers {
			for _, port := range container.Ports {
				if port.Name != "http" {
					continue
				}
				m := pod.Metadata
				s.targets = append(s.targets, target{
					url: fmt.Sprintf("http://%s/api/v1/namespaces/%s/pods/%s:%d/proxy/metrics", proxy, m.Namespace, m.Name, port.ContainerPort),
					labels: map[string]string{"namespace": m.Namespace, "pod": m.Name, "cluster": m.Labels["ramcloud.dev/cluster"],
						"component": m.Labels["app.kubernetes.io/component"]},
				})
			}
		}
	}
	list, err = pods(ctx, "-n", o.operator, "-l", "app.kubernetes.io/name=ramcloud-operator")
	if err != nil {
		return err
	}
	for _, pod := range list.Items {
		address, err := s.helper(ctx, forwarding, "-n", o.operator, "port-forward", "--address=127.0.0.1", "pod/"+pod.Metadata.Name, ":8443")
		if err != nil {
			return err
		}
		s.targets = append(s.targets, target{url: "https://" + address + "/metrics", token: os.Getenv("RAMCLOUD_METRICS_TOKEN"),
			labels: map[string]string{"namespace": o.operator, "pod": pod.Metadata.Name}})
	}
	if len(s.targets) == 0 {
		return fmt.Errorf("no pods with metrics")
	}
	return nil
}

// scrape reads all targets once. One that does not answer is left out this time, as Prometheus does.
func (s *scraper) scrape(ctx context.Context, into *store, at time.Time) error {
	answered := 0
	for _, t := range s.targets {
		text, err := s.read(ctx, t)
		if err != nil {
			fmt.Fprintf(os.Stderr, "warning: %s: %v\n", t.labels["pod"], err)
			continue
		}
		if err := into.add(text, t.labels, at); err != nil {
			return fmt.Errorf("%s: %w", t.labels["pod"], err)
		}
		answered++
	}
	if answered == 0 {
		return fmt.Errorf("none of %d targets answers", len(s.targets))
	}
	return nil
}

func (s *scraper) read(ctx context.Context, t target) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, t.url, nil)
	if err != nil {
		return "", err
	}
	if t.token != "" {
		request.Header.Set("Authorization", "Bearer "+t.token)
	}
	response, err := s.client.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %.100s", response.Status, body)
	}
	return string(body), err
}

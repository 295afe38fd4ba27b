package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	ramcloudv1 "ramcloud.dev/operator/api/v1alpha1"
	"ramcloud.dev/operator/internal/specs"
)

// reportLogLines limits the lines of each log in a report.
const reportLogLines = 2000

func (p *plugin) reportCommand() *cobra.Command {
	file := ""
	command := &cobra.Command{
		Use: "report [CLUSTER]", Short: "Write a redacted bundle of resources, events, logs, metrics and traces", Args: cobra.MaximumNArgs(1),
		ValidArgsFunction: p.completeCluster,
		Long: "Writes a bundle for the diagnosis of a problem by others: the cluster's objects, events, logs, metrics and traces.\n" +
			"Secrets are never read. Values of environment variables, and everything that looks like a password, key or token,\n" +
			"are left out. errors.txt in the bundle lists what could not be read.",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := p.cluster(cmd.Context(), args)
			if err != nil {
				return err
			}
			if file == "" {
				file = fmt.Sprintf("ramcloud-report-%s-%s.tar.gz", c.Name, time.Now().UTC().Format("20060102-150405"))
			}
			out, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
			if err != nil {
				return err
			}
			names, err := p.report(cmd.Context(), c, out)
			if err := errors.Join(err, out.Close()); err != nil {
				return err
			}
			fmt.Fprintf(p.out, "%s: %d files. Look through it before you send it to others.\n", file, len(names))
			return nil
		},
	}
	command.Flags().StringVarP(&file, "output", "o", "", "file to write; default: ramcloud-report-CLUSTER-TIME.tar.gz")
	return command
}

// bundle writes files into a compressed archive.
type bundle struct {
	zip   *gzip.Writer
	tar   *tar.Writer
	names []string
	lacks []string // files that could not be fetched
}

func (b *bundle) add(name string, content []byte) error {
	content = redact(content)
	header := &tar.Header{Name: "ramcloud-report/" + name, Mode: 0o600, Size: int64(len(content)), Format: tar.FormatPAX}
	if err := b.tar.WriteHeader(header); err != nil {
		return err
	}
	b.names = append(b.names, name)
	_, err := b.tar.Write(content)
	return err
}

// try adds the result of get, or notes its error.
func (b *bundle) try(name string, get func() ([]byte, error)) error {
	content, err := get()
	if err != nil {
		b.lacks = append(b.lacks, fmt.Sprintf("%s: %v", name, err))
		return nil
	}
	return b.add(name, content)
}

// report writes the bundle and returns the names of the files in it.
func (p *plugin) report(ctx context.Context, c *ramcloudv1.RAMCloudCluster, to io.Writer) ([]string, error) {
	zip := gzip.NewWriter(to)
	b := &bundle{zip: zip, tar: tar.NewWriter(zip)}
	var status bytes.Buffer
	shown := *p
	shown.out = &status
	steps := []error{
		b.try("status.txt", func() ([]byte, error) { err := shown.status(ctx, c); return status.Bytes(), err }),
		b.try("resources/cluster.yaml", func() ([]byte, error) { return clean(c) }),
	}
	for name, list := range map[string]client.ObjectList{
		"servers": &ramcloudv1.RAMCloudServerList{}, "recoveries": &ramcloudv1.RAMCloudRecoveryList{}, "pods": &corev1.PodList{}, "services": &corev1.ServiceList{},
		"volumeclaims": &corev1.PersistentVolumeClaimList{}, "configmaps": &corev1.ConfigMapList{}, "budgets": &policyv1.PodDisruptionBudgetList{},
	} {
		steps = append(steps, b.try("resources/"+name+".yaml", func() ([]byte, error) {
			if err := p.client.List(ctx, list, client.InNamespace(c.Namespace), client.MatchingLabels{specs.LabelCluster: c.Name}); err != nil {
				return nil, err
			}
			return cleanList(list)
		}))
	}
	steps = append(steps, b.try("events.yaml", func() ([]byte, error) {
		var events corev1.EventList
		if err := p.client.List(ctx, &events, client.InNamespace(c.Namespace)); err != nil {
			return nil, err
		}
		return cleanList(&events)
	}))
	pods, err := p.pods(ctx, c)
	steps = append(steps, err)
	for i := range pods {
		steps = append(steps, p.reportPod(ctx, b, &pods[i]))
	}
	if len(b.lacks) > 0 {
		steps = append(steps, b.add("errors.txt", []byte(strings.Join(b.lacks, "\n")+"\n")))
	}
	return b.names, errors.Join(append(steps, b.tar.Close(), b.zip.Close())...)
}

// reportPod adds a pod's logs, metrics and trace.
func (p *plugin) reportPod(ctx context.Context, b *bundle, pod *corev1.Pod) error {
	lines := int64(reportLogLines)
	var errs []error
	for name, previous := range map[string]bool{"log": false, "log-before": true} {
		if previous && !restarted(pod) {
			continue
		}
		errs = append(errs, b.try("pods/"+pod.Name+"/"+name, func() ([]byte, error) {
			var text bytes.Buffer
			err := p.readLog(ctx, pod.Namespace, pod.Name, &corev1.PodLogOptions{TailLines: &lines, Previous: previous},
				func(line string) { text.WriteString(line + "\n") })
			return text.Bytes(), err
		}))
	}
	port := map[string]int{specs.ComponentCoordinator: specs.CoordinatorHTTPPort, specs.ComponentServer: specs.ServerHTTPPort,
		specs.ComponentEtcd: specs.EtcdMetricsPort}[pod.Labels[specs.LabelComponent]]
	for _, page := range []string{"metrics", "trace"} {
		if page == "trace" && pod.Labels[specs.LabelComponent] == specs.ComponentEtcd {
			continue
		}
		errs = append(errs, b.try("pods/"+pod.Name+"/"+page, func() ([]byte, error) {
			return p.kubernetes.CoreV1().Pods(pod.Namespace).ProxyGet("http", pod.Name, fmt.Sprint(port), "/"+page, nil).DoRaw(ctx)
		}))
	}
	return errors.Join(errs...)
}

func restarted(pod *corev1.Pod) bool {
	for _, c := range pod.Status.ContainerStatuses {
		if c.RestartCount > 0 {
			return true
		}
	}
	return false
}

func cleanList(list client.ObjectList) ([]byte, error) {
	var out []byte
	err := meta.EachListItem(list, func(item runtime.Object) error {
		text, err := clean(item.(client.Object))
		out = append(append(out, "---\n"...), text...)
		return err
	})
	return out, err
}

// clean drops fields that are useless or may hold secrets: the last applied text and values of environment
// variables.
func clean(object client.Object) ([]byte, error) {
	object = object.DeepCopyObject().(client.Object)
	object.SetManagedFields(nil)
	annotations := object.GetAnnotations()
	delete(annotations, "kubectl.kubernetes.io/last-applied-configuration")
	object.SetAnnotations(annotations)
	if pod, ok := object.(*corev1.Pod); ok {
		for i := range pod.Spec.Containers {
			for j := range pod.Spec.Containers[i].Env {
				if pod.Spec.Containers[i].Env[j].Value != "" {
					pod.Spec.Containers[i].Env[j].Value = redacted
				}
			}
		}
	}
	return yaml.Marshal(object)
}

const redacted = "REDACTED"

var secrets = []*regexp.Regexp{
	regexp.MustCompile(`(?i)(bearer\s+)([-a-z0-9._~+/]+=*)`),
	regexp.MustCompile(`(?i)((?:password|passwd|secret|token|api[-_]?key|authorization)["']?\s*[:=]\s*["']?)([^\s"',;&]+)`),
	regexp.MustCompile(`(://[^/\s:@]+:)([^@\s/]+)(@)`),
}
var privateKey = regexp.MustCompile(`(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?-----END [A-Z ]*PRIVATE KEY-----`)

// redact removes text that looks like a password, key or token.
func redact(text []byte) []byte {
	text = privateKey.ReplaceAll(text, []byte(redacted))
	for _, pattern := range secrets[:2] {
		text = pattern.ReplaceAll(text, []byte("${1}"+redacted))
	}
	return secrets[2].ReplaceAll(text, []byte("${1}"+redacted+"${3}"))
}

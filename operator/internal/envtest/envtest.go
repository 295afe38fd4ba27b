// Package envtest starts a real API server and etcd for tests, with the project's CRDs.
package envtest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	apiruntime "k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	ramcloudv1 "ramcloud.dev/operator/api/v1alpha1"
)

// Config reaches the API server; nil when there is none (Need then skips).
var Config *rest.Config

// Scheme has Kubernetes' kinds and ours.
var Scheme = apiruntime.NewScheme()

// Main runs a package's tests with an API server, if KUBEBUILDER_ASSETS says where one is.
func Main(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	for _, add := range []func(*apiruntime.Scheme) error{clientgoscheme.AddToScheme, ramcloudv1.AddToScheme} {
		if err := add(Scheme); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		return m.Run()
	}
	crds, err := crdFolder()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	environment := &envtest.Environment{
		CRDDirectoryPaths:     []string{crds},
		ErrorIfCRDPathMissing: true,
		Scheme:                Scheme,
	}
	config, err := environment.Start()
	if err != nil {
		fmt.Fprintln(os.Stderr, "starting the API server:", err)
		if err := environment.Stop(); err != nil { // the start may have failed half-way, for example because the CRDs were refused
			fmt.Fprintln(os.Stderr, "stopping the API server:", err)
		}
		return 1
	}
	defer func() {
		if err := environment.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stopping the API server:", err)
		}
	}()
	Config = config
	return m.Run()
}

// crdFolder is manifests/crds of the repository: tests run in their package's folder, somewhere below its top.
func crdFolder() (string, error) {
	here, err := os.Getwd()
	for folder := here; err == nil; folder = filepath.Dir(folder) {
		crds := filepath.Join(folder, "manifests/crds")
		if _, missing := os.Stat(crds); missing == nil {
			return crds, nil
		}
		if folder == filepath.Dir(folder) {
			return "", fmt.Errorf("there is no manifests/crds above %s", here)
		}
	}
	return "", err
}

// Need skips the test where there is no API server.
func Need(t testing.TB) *rest.Config {
	t.Helper()
	if Config == nil {
		t.Skip("SKIP: KUBEBUILDER_ASSETS is not set; e2e/kind/components.sh envtest builds kube-apiserver and etcd and prints the folder to set it to")
	}
	return rest.CopyConfig(Config)
}

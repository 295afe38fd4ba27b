package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	authv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	ctrl "sigs.k8s.io/controller-runtime"

	"ramcloud.dev/client/testing/freeport"
	"ramcloud.dev/operator/internal/envtest"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	envtest.Main(m)
}

// TestMetricsAskWhoComes: metrics are given only to authenticated callers with the right.
func TestMetricsAskWhoComes(t *testing.T) {
	config := envtest.Need(t)
	ctx, cancel := context.WithCancel(context.Background())
	port, err := freeport.One()
	if err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprintf("127.0.0.1:%d", port)
	mgr, err := ctrl.NewManager(config, ctrl.Options{Scheme: envtest.Scheme, Logger: logr.Discard(),
		Metrics: metricsOptions(&options{metricsAddress: address, metricsSecure: true})})
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		if err := mgr.Start(ctx); err != nil {
			t.Errorf("manager: %v", err)
		}
	})
	t.Cleanup(func() { cancel(); running.Wait() })

	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	// token is that of a new service account, which may read metrics or not.
	token := func(name string, may bool) string {
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := clientset.CoreV1().ServiceAccounts("default").Create(ctx, account, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if may {
			role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}}}
			binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
				Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "default", Name: name}}}
			_, err1 := clientset.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{})
			_, err2 := clientset.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{})
			if err1 != nil || err2 != nil {
				t.Fatal(err1, err2)
			}
		}
		reply, err := clientset.CoreV1().ServiceAccounts("default").CreateToken(ctx, name, &authv1.TokenRequest{}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return reply.Status.Token
	}
	// The certificate is made by the server itself.
	browser := &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer browser.CloseIdleConnections()
	get := func(token string) (int, string) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+address+"/metrics", nil)
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			request.Header.Set("Authorization", "Bearer "+token)
		}
		reply, err := browser.Do(request)
		if err != nil {
			return 0, err.Error()
		}
		defer func() { _ = reply.Body.Close() }()
		text, err := io.ReadAll(reply.Body)
		if err != nil {
			t.Fatal(err)
		}
		return reply.StatusCode, string(text)
	}
	until := func(token string, want int) string {
		t.Helper()
		deadline := time.Now().Add(60 * time.Second)
		for {
			code, text := get(token)
			if code == want {
				return text
			}
			if time.Now().After(deadline) {
				t.Fatalf("status %d (%.200s), want %d", code, text, want)
			}
			time.Sleep(50 * time.Millisecond) // the server starts, and rights take a moment to be known
		}
	}
	until("", http.StatusUnauthorized)
	until(token("nobody", false), http.StatusForbidden)
	if text := until(token("prometheus", true), http.StatusOK); !strings.Contains(text, "controller_runtime") && !strings.Contains(text, "go_goroutines") {
		t.Errorf("no metrics: %.300s", text)
	}
}

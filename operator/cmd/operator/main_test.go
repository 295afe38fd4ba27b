package main

import (
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func TestFlags(t *testing.T) {
	none := func(string) string { return "" }
	for _, test := range []struct {
		args []string
		env  func(string) string
		want string // part of the error, empty: accepted
	}{
		{[]string{"--node-image=a:1"}, none, ""},
		{nil, func(name string) string { return map[string]string{"RAMCLOUD_NODE_IMAGE": "a:1"}[name] }, ""},
		{[]string{"--version"}, none, ""},
		{[]string{"--release-volumes"}, none, ""},
		{nil, none, "--node-image is empty; accepted"},
		{[]string{"--node-image=a:1", "--workers=0"}, none, "--workers is 0; accepted: 1 to 64"},
		{[]string{"--node-image=a:1", "--leader-elect"}, none, "--leader-elect needs --leader-election-namespace"},
		{[]string{"--node-image=a:1", "--leader-elect", "--leader-election-namespace=n"}, none, ""},
		{[]string{"--node-image=a:1", "extra"}, none, `unexpected argument "extra"`},
		{[]string{"--unknown"}, none, "unknown"},
	} {
		_, _, err := parse("test", test.args, test.env)
		if (err == nil) != (test.want == "") || (err != nil && !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%v: %v, want %q", test.args, err, test.want)
		}
	}
}

// A host name, or no host outside of a pod, does not show the IP family.
func TestTheAddressFamilyIsThatOfKubernetes(t *testing.T) {
	for host, want := range map[string]bool{"fd00:10:96::1": true, "10.96.0.1": false, "::ffff:10.96.0.1": false, "": false, "kubernetes.default": false} {
		o, _, err := parse("test", []string{"--node-image=a:1"}, func(name string) string { return map[string]string{"KUBERNETES_SERVICE_HOST": host}[name] })
		if err != nil || o.ipv6 != want {
			t.Errorf("%q: %v %v, want %v", host, o, err, want)
		}
	}
}

// However often a reconcile failed, it is tried again soon after the cause was removed.
func TestFailedReconcilesAreTriedAgainSoon(t *testing.T) {
	limiter, request := backoff(), reconcile.Request{}
	var last time.Duration
	for range 100 {
		last = limiter.When(request)
	}
	if last != 30*time.Second {
		t.Errorf("after 100 failures it waits for %s", last)
	}
}

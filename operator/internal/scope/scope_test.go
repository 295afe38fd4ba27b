package scope

import (
	"context"
	"testing"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

var quick = Timing{Lease: 2 * time.Second, Renew: time.Second, Retry: 20 * time.Millisecond}

// start runs the leases of an operator in the namespace own; the returned function ends it.
func start(t *testing.T, client *fake.Clientset, own string) (*Leases, func()) {
	leases := NewLeases(client.CoordinationV1(), own, quick, logr.Discard())
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { _ = leases.Start(ctx); close(ended) }()
	stop := func() { cancel(); <-ended }
	t.Cleanup(stop)
	return leases, stop
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(what)
		}
	}
}

func TestOneOperatorForANamespace(t *testing.T) {
	client := fake.NewClientset()
	first, end := start(t, client, "a")
	second, _ := start(t, client, "b")
	until(t, "the first gets it", func() bool { return first.Holds("n") })
	for range 20 {
		if second.Holds("n") {
			t.Fatal("both look after one namespace")
		}
		time.Sleep(5 * time.Millisecond)
	}
	if !first.Holds("a") || !second.Holds("b") {
		t.Error("an operator does not hold its own namespace, whose lease its leader election has")
	}
	until(t, "another namespace is another matter", func() bool { return second.Holds("m") })
	if first.Holds("m") {
		t.Error("both look after another namespace")
	}
	end() // gives it back
	until(t, "the second takes over", func() bool { return second.Holds("n") })
	if first.Holds("n") {
		t.Error("one that has ended holds it still")
	}
	second.Forget("n")
	until(t, "it is given back", func() bool {
		lease, err := client.CoordinationV1().Leases("n").Get(context.Background(), LeaseName, metav1.GetOptions{})
		return err == nil && *lease.Spec.HolderIdentity == ""
	})
}

// The replicas of an operator have one name: the next one to lead does not wait for the lease of one that crashed.
func TestAReplicaTakesOver(t *testing.T) {
	client := fake.NewClientset()
	crashed := NewLeases(client.CoordinationV1(), "a", Timing{Lease: time.Hour, Renew: time.Minute, Retry: time.Second}, logr.Discard())
	ctx, cancel := context.WithCancel(context.Background())
	go func() { _ = crashed.Start(ctx) }()
	until(t, "the first gets it", func() bool { return crashed.Holds("n") })
	defer cancel() // only at the end: it gives nothing back before
	next, _ := start(t, client, "a")
	until(t, "the next one takes over", func() bool { return next.Holds("n") })
}

func TestNoLeasesHoldEverything(t *testing.T) {
	var none *Leases
	if !none.Holds("n") {
		t.Error("without leases there is nothing to hold")
	}
	none.Forget("n")
}

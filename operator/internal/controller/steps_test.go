package controller

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestOutcomes(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	for _, test := range []struct {
		err  error
		want outcome
	}{
		{nil, complete},
		{apierrors.NewConflict(pods, "a", errors.New("it has changed")), retry},
		{fmt.Errorf("writing: %w", apierrors.NewConflict(pods, "a", errors.New("it has changed"))), retry},
		{apierrors.NewApplyConflict([]metav1.StatusCause{{Type: metav1.CauseTypeFieldManagerConflict}}, "another owns it"), fail},
		{apierrors.NewNotFound(pods, "a"), retry},
		{apierrors.NewTooManyRequests("slow down", 1), retry},
		{fmt.Errorf("stopping: %w", context.Canceled), retry},
		{apierrors.NewForbidden(pods, "a", errors.New("exceeded quota")), fail},
		{apierrors.NewInternalError(errors.New("webhook")), fail},
		{errors.New("anything else"), fail},
	} {
		var done steps
		if ok := done.noteOutcome("a step", test.err); ok != (test.want == complete) || done[0].outcome != test.want {
			t.Errorf("%v: %s, want %s", test.err, done[0].outcome, test.want)
		}
		if (done.err() != nil) != (test.want == fail) {
			t.Errorf("%v: the reconcile ends with %v", test.err, done.err())
		}
	}
}

func TestStepsAreSummedUp(t *testing.T) {
	var done steps
	done.noteOutcome("one", nil)
	done.noteOutcome("two", errors.New("no right"))
	done.wait("three", "there is no address yet")
	done.noteOutcome("four", nil)
	if got, want := done.summary(), "2 Complete, 1 Wait (three: there is no address yet), 1 Fail (two: no right)"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	for i := range 200 {
		done.noteOutcome(fmt.Sprint(i), errors.New("no right"))
	}
	if text := done.err().Error(); !strings.HasSuffix(text, "… and 196 more") {
		t.Error(text)
	}
}

// The own-writes rule.
func TestExpectations(t *testing.T) {
	key, now := types.NamespacedName{Namespace: "n", Name: "c"}, time.Unix(1000, 0)
	pod := func(uid, version string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: types.UID(uid), ResourceVersion: version}}
	}
	going := pod("u", "9")
	going.DeletionTimestamp = &metav1.Time{Time: now}
	for _, test := range []struct {
		name    string
		wrote   *corev1.Pod
		deleted bool
		cached  *corev1.Pod
		seen    bool
	}{
		{"written, not there yet", pod("u", "10"), false, nil, false},
		{"written, an older one is there", pod("u", "10"), false, pod("u", "9"), false},
		{"written, the one before of the name is there", pod("u", "10"), false, pod("t", "9"), false},
		{"written and there", pod("u", "10"), false, pod("u", "10"), true},
		{"written, a newer one is there", pod("u", "10"), false, pod("v", "100"), true},
		{"deleted, still there", pod("u", "10"), true, pod("u", "11"), false},
		{"deleted and going", pod("u", "10"), true, going, true},
		{"deleted and gone", pod("u", "10"), true, nil, true},
		{"deleted, the next one of the name is there", pod("u", "10"), true, pod("v", "11"), true},
	} {
		var e expectations
		e.expect(key, test.wrote, test.deleted, now)
		cached := map[string]client.Object{}
		if test.cached != nil {
			cached[objectKey(test.cached)] = test.cached
		}
		cached["*v1.Service p"] = &corev1.Service{}
		if unseen := e.unseen(key, cached, now); (len(unseen) == 0) != test.seen {
			t.Errorf("%s: %d unseen", test.name, len(unseen))
		}
		if unseen := e.unseen(types.NamespacedName{Name: "another"}, nil, now); len(unseen) > 0 {
			t.Errorf("%s: another cluster waits for it", test.name)
		}
		if unseen := e.unseen(key, cached, now.Add(expectedFor+time.Second)); len(unseen) > 0 {
			t.Errorf("%s: it is waited for without end", test.name)
		}
	}
	var e expectations
	e.expect(key, pod("u", "10"), false, now)
	e.expect(key, pod("u", "10"), true, now) // what was written is deleted
	if unseen := e.unseen(key, nil, now); len(unseen) > 0 {
		t.Errorf("%d unseen", len(unseen))
	}
	e.expect(key, pod("u", "10"), false, now)
	e.forget(key)
	if unseen := e.unseen(key, nil, now); len(unseen) > 0 {
		t.Errorf("%d unseen of a cluster that is gone", len(unseen))
	}
}

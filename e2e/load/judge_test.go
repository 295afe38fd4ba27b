package load

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"ramcloud.dev/client"
)

const (
	ms        = time.Millisecond
	disturbed = 1000 * ms
	stopped   = 2000 * ms
)

// steady is a client that reads a key every 20 ms, without those that `without` names.
func steady(number int, without func(at time.Duration) bool) (out []Operation) {
	for at := 20 * ms; at <= stopped; at += 20 * ms {
		if without == nil || !without(at) {
			out = append(out, Operation{Client: number, Key: number, Call: at - ms, Return: at})
		}
	}
	return out
}

func between(from, to time.Duration) func(time.Duration) bool {
	return func(at time.Duration) bool { return from < at && at < to }
}

func TestGaps(t *testing.T) {
	for name, test := range map[string]struct {
		without func(time.Duration) bool
		gap     float64
		silence time.Duration
		longest time.Duration
		wrong   string
	}{
		"none":                      {nil, 2, 0, 20 * ms, ""},
		"one that is accepted":      {between(1200*ms, 1240*ms), 2, 0, 40 * ms, ""},
		"one that is too long":      {between(1200*ms, 1260*ms), 2, 0, 60 * ms, "60ms without"},
		"one that is not judged":    {between(1200*ms, 1900*ms), 0, 0, 700 * ms, ""},
		"one that never ends":       {func(at time.Duration) bool { return at > 1500*ms }, 10, 0, 500 * ms, "500ms without"},
		"one over the disturbance":  {between(900*ms, 1100*ms), 5, 0, 200 * ms, "200ms without"},
		"one before, which is more": {between(500*ms, 600*ms), 1, 0, 20 * ms, ""},
		"one of silence":            {between(1200*ms, 1260*ms), 2, 20 * ms, 60 * ms, ""},
		"one beyond the silence":    {between(1200*ms, 1280*ms), 2, 20 * ms, 80 * ms, "less 20ms of silence that is 3.0 times"},
	} {
		t.Run(name, func(t *testing.T) {
			// The other client has none: of several the worst counts.
			v := judge(append(steady(0, nil), steady(1, test.without)...), disturbed, stopped, Limits{Gap: test.gap, Silence: test.silence})
			if v.Longest != test.longest {
				t.Errorf("longest: %s", v.Longest)
			}
			if (test.wrong == "") != (v.Wrong() == "") || !strings.Contains(v.Wrong(), test.wrong) {
				t.Errorf("wrong: %q", v.Wrong())
			}
		})
	}
}

// Clients that write all keys before the load, and read them after it, are idle meanwhile.
func TestClientsOfAllKeysHaveNoGaps(t *testing.T) {
	operations := append(steady(0, nil), Operation{Client: clients, Key: 1, Write: true, Value: "first-1", Call: ms, Return: 2 * ms},
		Operation{Client: clients + allAtOnce, Key: 1, Value: "first-1", Call: stopped + ms, Return: stopped + 2*ms})
	if v := judge(operations, disturbed, stopped, Limits{Gap: 2}); v.Wrong() != "" || v.Longest != 20*ms {
		t.Errorf("wrong: %q, longest: %s", v.Wrong(), v.Longest)
	}
}

// A value has its name in all its bytes: another length, or bytes of another value, are found.
func TestValuesHaveTheirNames(t *testing.T) {
	l := Load{shape: Shape{Bytes: 1000}.complete()}
	value := l.padded("3-17")
	if len(value) != 1000 || l.named(value) != "3-17" {
		t.Errorf("%d bytes, named %q", len(value), l.named(value))
	}
	for _, wrong := range []string{value[:999], value + " ", value[:500] + l.padded("3-18")[500:], "3-17"} {
		if l.named(wrong) != wrong {
			t.Errorf("%.40q of %d bytes passes for %q", wrong, len(wrong), l.named(wrong))
		}
	}
	if short := (&Load{}); short.padded("3-17") != "3-17" || short.named("3-17") != "3-17" {
		t.Error("without a length a value is its name")
	}
	if l.named("") != "" {
		t.Error("what is absent has a name")
	}
}

func TestNoFailureIsAcceptedThatWasNotExpected(t *testing.T) {
	operations := append(steady(0, nil), Operation{Client: 1, Key: 1, Call: ms, Return: 2 * ms,
		Err: fmt.Errorf("the table: %w", &client.Error{Code: client.Unavailable})})
	if v := judge(operations, disturbed, stopped, Limits{}); !strings.Contains(v.Wrong(), "1 operations failed that should not: map[read: the table: UNAVAILABLE:1]") {
		t.Errorf("wrong: %q", v.Wrong())
	}
	expected := func(o Operation) bool { return client.CodeOf(o.Err) == client.Unavailable }
	if v := judge(operations, disturbed, stopped, Limits{Expected: expected}); v.Wrong() != "" || len(v.Failures) != 1 {
		t.Errorf("wrong: %q, failures: %v", v.Wrong(), v.Failures)
	}
}

func TestWhatIsLinearizable(t *testing.T) {
	write := func(value string, at time.Duration, err error) Operation {
		return Operation{Key: 3, Write: true, Value: value, Call: at, Return: at + ms, Err: err}
	}
	read := func(value string, at time.Duration) Operation {
		return Operation{Client: 1, Key: 3, Value: value, Call: at, Return: at + ms}
	}
	refused, unknown := error(&client.Error{Code: client.Unavailable}), error(&client.Error{Code: client.Indeterminate})
	for name, test := range map[string]struct {
		operations []Operation
		good       bool
	}{
		"what was written last is read":         {[]Operation{write("a", 0, nil), write("b", 10*ms, nil), read("b", 20*ms)}, true},
		"what was written before is read":       {[]Operation{write("a", 0, nil), write("b", 10*ms, nil), read("a", 20*ms)}, false},
		"nothing is read":                       {[]Operation{write("a", 0, nil), read("", 20*ms)}, false},
		"a write of unknown outcome took place": {[]Operation{write("a", 0, nil), write("b", 10*ms, unknown), read("a", 20*ms), read("b", 30*ms)}, true},
		"it did not":                            {[]Operation{write("a", 0, nil), write("b", 10*ms, unknown), read("a", 20*ms)}, true},
		"a refused write took place":            {[]Operation{write("a", 0, nil), write("b", 10*ms, refused), read("b", 20*ms)}, false},
		"a refused write did not":               {[]Operation{write("a", 0, nil), write("b", 10*ms, refused), read("a", 20*ms)}, true},
	} {
		t.Run(name, func(t *testing.T) {
			v := judge(test.operations, disturbed, stopped, Limits{Expected: func(Operation) bool { return true }})
			if (v.Wrong() == "") != test.good || (!test.good && !strings.Contains(v.Wrong(), "not linearizable")) {
				t.Errorf("wrong: %q", v.Wrong())
			}
		})
	}
}

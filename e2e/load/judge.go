package load

import (
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"ramcloud.dev/client"
)

// checkLimit is how long the search for an order of the operations may take.
const checkLimit = 2 * time.Minute

// Limits are the disturbances and failures that a load tolerates.
type Limits struct {
	// Gap is how long a client may go without an operation that succeeds, as a multiple of its longest such time
	// in the quiet cluster. 0: not checked.
	Gap float64
	// Silence is how long the cluster waits by design before it gives up a server that is silent. That much of the longest
	// gap is not judged.
	Silence time.Duration
	// Expected says which failures the disturbance may cause. nil: none.
	Expected func(Operation) bool
}

// Verdict is the result of a load: what its clients saw, and the errors in it.
type Verdict struct {
	Succeeded int
	Took      time.Duration
	// Quiet and Longest are the longest times that a client went without an operation that succeeded, before something was
	// done to the cluster and since.
	Quiet, Longest time.Duration
	// Failures are the failed operations by kind and error, and how often each came.
	Failures map[string]int
	Problems []string

	history porcupine.LinearizationInfo
}

// String is one line for people.
func (v Verdict) String() string {
	return fmt.Sprintf("%d operations in %s (%.0f a second); a client's longest time without one: %s, and %s before (%.1f times as long); failed: %v",
		v.Succeeded, v.Took.Round(time.Second), float64(v.Succeeded)/v.Took.Seconds(), v.Longest.Round(time.Millisecond),
		v.Quiet.Round(time.Millisecond), v.times(), v.Failures)
}

func (v Verdict) times() float64 { return v.timesOf(v.Longest) }

func (v Verdict) timesOf(gap time.Duration) float64 {
	return gap.Seconds() / max(v.Quiet.Seconds(), 1.0/rate)
}

// Draw writes a picture of the history, for a browser.
func (v Verdict) Draw(path string) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	return porcupine.Visualize(registers, v.history, file)
}

// judge checks the operations of a stopped load. Until `disturbed` the cluster was quiet.
func judge(operations []Operation, disturbed, stopped time.Duration, limits Limits) Verdict {
	v := Verdict{Took: stopped, Failures: map[string]int{}}
	problem := func(format string, values ...any) { v.Problems = append(v.Problems, fmt.Sprintf(format, values...)) }
	unexpected := 0
	for _, o := range operations {
		if o.Err == nil {
			v.Succeeded++
			continue
		}
		v.Failures[failure(o)]++
		if limits.Expected == nil || !limits.Expected(o) {
			unexpected++
		}
	}
	if unexpected > 0 {
		problem("%d operations failed that should not: %v", unexpected, v.Failures)
	}
	v.Quiet, v.Longest = gaps(operations, disturbed, stopped)
	if judged := v.Longest - limits.Silence; limits.Gap > 0 && v.timesOf(judged) > limits.Gap {
		problem("a client went %s without an operation that succeeded; less %s of silence that is %.1f times the longest before (%s); accepted: %g times",
			v.Longest.Round(time.Millisecond), limits.Silence, v.timesOf(judged), v.Quiet.Round(time.Millisecond), limits.Gap)
	}
	result, history := porcupine.CheckOperationsVerbose(registers, forPorcupine(operations), checkLimit)
	if v.history = history; result != porcupine.Ok {
		problem("the history is not linearizable (%s)", result)
	}
	return v
}

// failure is the kind of a failure, because its text differs each time.
func failure(o Operation) string {
	what := "read"
	if o.Write {
		what = "write"
	}
	text := o.Err.Error()
	if runes := []rune(text); len(runes) > 60 {
		text = string(runes[:60]) + "…"
	}
	return what + ": " + text
}

// gaps are the longest times that a client went without an operation that succeeded: until disturbed, and after. The time
// before a client's first one does not count: it connects. Nor do clients that only write or read all keys once.
func gaps(operations []Operation, disturbed, stopped time.Duration) (quiet, longest time.Duration) {
	done := map[int][]time.Duration{}
	for _, o := range operations {
		if o.Err == nil && o.Client < clients {
			done[o.Client] = append(done[o.Client], o.Return)
		}
	}
	for _, times := range done {
		slices.Sort(times)
		if last := times[len(times)-1]; last < stopped {
			times = append(times, stopped)
		}
		for i := 1; i < len(times); i++ {
			if gap := times[i] - times[i-1]; times[i] <= disturbed {
				quiet = max(quiet, gap)
			} else {
				longest = max(longest, gap)
			}
		}
	}
	return quiet, longest
}

var registers = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		byKey := map[int][]porcupine.Operation{}
		for _, operation := range history {
			key := operation.Input.(Operation).Key
			byKey[key] = append(byKey[key], operation)
		}
		return slices.Collect(maps.Values(byKey))
	},
	Init: func() any { return "" },
	Step: func(state, input, _ any) (bool, any) {
		o := input.(Operation)
		if o.Write {
			return true, o.Value
		}
		return o.Value == state, state
	},
	DescribeOperation: func(input, _ any) string {
		if o := input.(Operation); o.Write {
			return fmt.Sprintf("put(%d, %s)", o.Key, o.Value)
		}
		o := input.(Operation)
		return fmt.Sprintf("get(%d) = %s", o.Key, o.Value)
	},
}

// forPorcupine leaves out operations without information: failed reads, and writes that by the client's
// answer did not happen. A write whose outcome is not known may take effect at any later time.
func forPorcupine(operations []Operation) (out []porcupine.Operation) {
	for _, o := range operations {
		end := int64(o.Return)
		switch {
		case o.Err == nil:
		case o.Write && mayHaveHappened(o.Err):
			end = math.MaxInt64
		default:
			continue
		}
		out = append(out, porcupine.Operation{ClientId: o.Client, Input: o, Call: int64(o.Call), Return: end})
	}
	return out
}

func mayHaveHappened(err error) bool {
	switch client.CodeOf(err) {
	case client.Unavailable, client.DeadlineExceeded:
		return false // the client promises that
	}
	return true
}

// Wrong lists all errors; empty if there are none.
func (v Verdict) Wrong() string { return strings.Join(v.Problems, "; ") }

package local

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// operation is a line of a history, as node/sim/history.h writes it.
type operation struct {
	Client int
	Op     string
	Key    string
	Value  string // written or read; empty: absent
	Call   int64
	Return int64 // -1: the outcome is unknown
}

// register is one key: a read returns the last write, and nothing after a delete.
var register = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		byKey := map[string][]porcupine.Operation{}
		for _, o := range history {
			key := o.Input.(operation).Key
			byKey[key] = append(byKey[key], o)
		}
		parts := make([][]porcupine.Operation, 0, len(byKey))
		for _, part := range byKey {
			parts = append(parts, part)
		}
		return parts
	},
	Init: func() any { return absent },
	Step: func(state, input, _ any) (bool, any) {
		switch o := input.(operation); o.Op {
		case "read":
			return o.Value == state.(string), state
		case "write":
			return true, o.Value
		default:
			return true, absent
		}
	},
	DescribeOperation: func(input, _ any) string {
		o := input.(operation)
		return o.Op + " " + o.Key + " " + o.Value
	},
}

func readHistory(t *testing.T, path string) []porcupine.Operation {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	var history []porcupine.Operation
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var o operation
		if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		end := o.Return
		if end < 0 {
			end = math.MaxInt64 // it may take effect at any time, or never
		}
		history = append(history, porcupine.Operation{ClientId: o.Client, Input: o, Call: o.Call, Return: end})
	}
	return history
}

// Histories of clients in simulations: the leading coordinator dies at every place where it matters (29
// seeds, one for each), under plans of faults, and with deaths at failpoints.
func TestHistoriesOfSimulationsAreLinearizable(t *testing.T) {
	t.Parallel()
	for scenario, seeds := range map[string][2]int{"failover": {500, 528}, "faults": {5000, 5004}, "failpoints": {7000, 7004},
		"recovery": {8000, 8009}} {
		t.Run(scenario, func(t *testing.T) { simulatedHistories(t, scenario, seeds[0], seeds[1]) })
	}
}

func simulatedHistories(t *testing.T, scenario string, first, last int) {
	folder := t.TempDir()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, testBuild(t, "bin/ramcloud-sim"), "--scenario", scenario,
		"--seeds", fmt.Sprintf("%d..%d", first, last), "--histories", folder)
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	paths, err := filepath.Glob(filepath.Join(folder, "*.jsonl"))
	if err != nil || len(paths) != last-first+1 {
		t.Fatalf("%d histories, %v", len(paths), err)
	}
	for _, path := range paths {
		history := readHistory(t, path)
		if len(history) < 100 {
			t.Errorf("%s: only %d operations", path, len(history))
		}
		result, info := porcupine.CheckOperationsVerbose(register, history, 2*limit)
		if result == porcupine.Ok {
			continue
		}
		picture := filepath.Join(os.TempDir(), filepath.Base(path)+".html")
		if err := porcupine.VisualizePath(register, info, picture); err != nil {
			t.Error(err)
		}
		t.Errorf("%s: %s; see %s", filepath.Base(path), result, picture)
	}
}

// The checker itself finds histories that are not linearizable.
func TestTheCheckerFindsAStaleRead(t *testing.T) {
	history := func(read string) []porcupine.Operation {
		var all []porcupine.Operation
		for i, o := range []operation{{Op: "write", Key: "k", Value: "1"}, {Op: "write", Key: "k", Value: "2"}, {Op: "read", Key: "k", Value: read}} {
			all = append(all, porcupine.Operation{ClientId: i, Input: o, Call: int64(10 * i), Return: int64(10*i + 5)})
		}
		return all
	}
	if !porcupine.CheckOperations(register, history("2")) {
		t.Error("a right history is refused")
	}
	for _, wrong := range []string{"1", absent, "3"} {
		if porcupine.CheckOperations(register, history(wrong)) {
			t.Errorf("reading %q is accepted", wrong)
		}
	}
}

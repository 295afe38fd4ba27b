package client

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// conformanceFile has the cases for all clients; its README explains the fields.
const conformanceFile = "../conformance/operations.json"

type conformanceCase struct {
	Name  string            `json:"name"`
	Span  uint32            `json:"span"`
	Steps []conformanceStep `json:"steps"`
}

type conformanceStep struct {
	Op        string            `json:"op"`
	TableID   uint64            `json:"table_id"`
	Key       conformanceBytes  `json:"key"`
	Value     *conformanceBytes `json:"value"`
	Delta     json.Number       `json:"delta"`
	If        conformanceRules  `json:"if"`
	Error     string            `json:"error"`
	Sum       json.Number       `json:"sum"`
	Save      string            `json:"save"`
	VersionIs string            `json:"version_is"`
	NewerThan string            `json:"newer_than"`

	Items     []conformanceStep  `json:"items"`
	Count     int                `json:"count"`
	KeyPrefix string             `json:"key_prefix"`
	Keys      []conformanceBytes `json:"keys"`
	Objects   int                `json:"objects"`
	Name      conformanceBytes   `json:"name"`
	Span      uint32             `json:"span"`
}

type conformanceRules struct {
	AbsentFail bool   `json:"absent_fail"`
	ExistsFail bool   `json:"exists_fail"`
	Version    string `json:"version"`
	NewerThan  string `json:"newer_than"`
}

// conformanceBytes are text, {"hex": …} or {"repeat": …, "times": …}.
type conformanceBytes []byte

func (b *conformanceBytes) UnmarshalJSON(data []byte) error {
	var text string
	if json.Unmarshal(data, &text) == nil {
		*b = []byte(text)
		return nil
	}
	var other struct {
		Hex, Repeat string
		Times       int
	}
	if err := json.Unmarshal(data, &other); err != nil {
		return err
	}
	if other.Repeat != "" {
		*b = []byte(strings.Repeat(other.Repeat, other.Times))
		return nil
	}
	raw, err := hex.DecodeString(other.Hex)
	*b = raw
	return err
}

// TestConformance does what the file says with a real cluster of one process.
func TestConformance(t *testing.T) {
	binary := os.Getenv("RAMCLOUDD_BIN")
	if binary == "" {
		t.Skip("SKIP: RAMCLOUDD_BIN is not set; make build leaves build/bin/ramcloudd, set it to that path")
	}
	text, err := os.ReadFile(conformanceFile)
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Cases []conformanceCase }
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&file); err != nil {
		t.Fatal(err)
	}
	if len(file.Cases) < 10 {
		t.Fatalf("only %d cases", len(file.Cases))
	}
	c := connect(t, startDaemon(t, binary))
	for _, one := range file.Cases {
		t.Run(one.Name, func(t *testing.T) { runCase(t, c, one) })
	}
}

type caseRunner struct {
	t     *testing.T
	ctx   context.Context
	c     *Client
	table uint64
	saved map[string]uint64
}

func runCase(t *testing.T, c *Client, one conformanceCase) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	table, err := c.CreateTable(ctx, one.Name, max(one.Span, 1))
	want(t, err, OK)
	r := &caseRunner{t, ctx, c, table.ID, map[string]uint64{"none": 0}}
	for i := range one.Steps {
		r.step(&one.Steps[i])
		if t.Failed() {
			t.Fatalf("in step %d, %s", i, one.Steps[i].Op)
		}
	}
	want(t, c.DropTable(ctx, one.Name), OK)
}

func (r *caseRunner) step(s *conformanceStep) {
	table, rules := r.tableOf(s), r.rules(s)
	switch s.Op {
	case "read":
		value, version, err := r.c.Read(r.ctx, table, s.Key, rules)
		r.check(s, Result{Value: value, Version: version, Err: err})
	case "write":
		version, err := r.c.Write(r.ctx, table, s.Key, *s.Value, rules)
		r.check(s, Result{Value: *s.Value, Version: version, Err: err})
	case "remove":
		version, err := r.c.Delete(r.ctx, table, s.Key, rules)
		r.check(s, Result{Version: version, Err: err})
	case "increment":
		delta, err := s.Delta.Int64()
		want(r.t, err, OK)
		sum, version, err := r.c.Increment(r.ctx, table, s.Key, delta, rules)
		r.check(s, Result{Version: version, Err: err})
		if wanted, _ := s.Sum.Int64(); err == nil && sum != wanted {
			r.t.Errorf("the sum is %d, want %d", sum, wanted)
		}
	case "increment_double":
		delta, err := s.Delta.Float64()
		want(r.t, err, OK)
		sum, version, err := r.c.IncrementDouble(r.ctx, table, s.Key, delta, rules)
		r.check(s, Result{Version: version, Err: err})
		if wanted, _ := s.Sum.Float64(); err == nil && sum != wanted {
			r.t.Errorf("the sum is %g, want %g", sum, wanted)
		}
	case "multi_read", "multi_write", "multi_remove":
		r.multi(s)
	case "scan", "count":
		r.scan(s)
	case "create_table":
		_, err := r.c.CreateTable(r.ctx, string(s.Name), max(s.Span, 1))
		r.check(s, Result{Err: err})
	case "open_table":
		_, err := r.c.GetTable(r.ctx, string(s.Name))
		r.check(s, Result{Err: err})
	case "drop_table":
		r.check(s, Result{Err: r.c.DropTable(r.ctx, string(s.Name))})
	default:
		r.t.Fatalf("there is no operation %s", s.Op)
	}
}

func (r *caseRunner) multi(s *conformanceStep) {
	items := s.Items
	for i := range s.Count {
		item := *s
		item.Key = []byte(s.KeyPrefix + itoa(i))
		items = append(items, item)
	}
	var objects []MultiObject
	var keys []MultiKey
	for i := range items {
		item := &items[i]
		key := MultiKey{TableID: r.tableOf(item), Key: item.Key, Conditions: r.rules(item)}
		keys = append(keys, key)
		if s.Op == "multi_write" {
			objects = append(objects, MultiObject{TableID: key.TableID, Key: key.Key, Value: *item.Value, Conditions: key.Conditions})
		}
	}
	var results []Result
	switch s.Op {
	case "multi_read":
		results = r.c.MultiRead(r.ctx, keys)
	case "multi_remove":
		results = r.c.MultiDelete(r.ctx, keys)
	default:
		results = r.c.MultiWrite(r.ctx, objects)
	}
	if len(results) != len(items) {
		r.t.Fatalf("%d results of %d items", len(results), len(items))
	}
	for i := range items {
		if s.Op == "multi_write" {
			results[i].Value = *items[i].Value // a write's value goes in, it does not come out
		}
		r.check(&items[i], results[i])
	}
}

func (r *caseRunner) scan(s *conformanceStep) {
	var got, wanted []string
	want(r.t, r.c.Enumerate(r.ctx, r.table, func(o Object) error {
		got = append(got, string(o.Key))
		return nil
	}), OK)
	if s.Op == "count" {
		if len(got) != s.Objects {
			r.t.Errorf("%d objects, want %d", len(got), s.Objects)
		}
		return
	}
	for _, key := range s.Keys {
		wanted = append(wanted, string(key))
	}
	slices.Sort(got)
	slices.Sort(wanted)
	if !slices.Equal(got, wanted) {
		r.t.Errorf("the scan gave %q, want %q", got, wanted)
	}
}

func (r *caseRunner) check(s *conformanceStep, result Result) {
	r.t.Helper()
	wanted := s.Error
	if wanted == "" {
		wanted = "OK"
	}
	if got := CodeOf(result.Err).String(); got != wanted {
		r.t.Errorf("key %.40q: got %v, want %s", []byte(s.Key), result.Err, wanted)
		return
	}
	if result.Err != nil {
		return
	}
	if s.Value != nil && !bytes.Equal(result.Value, *s.Value) {
		r.t.Errorf("key %.40q: the value has %d bytes and begins %.40q", []byte(s.Key), len(result.Value), result.Value)
	}
	if s.VersionIs != "" && result.Version != r.version(s.VersionIs) {
		r.t.Errorf("key %.40q: version %d, want %d", []byte(s.Key), result.Version, r.version(s.VersionIs))
	}
	if s.NewerThan != "" && result.Version <= r.version(s.NewerThan) {
		r.t.Errorf("key %.40q: version %d, want above %d", []byte(s.Key), result.Version, r.version(s.NewerThan))
	}
	if s.Save != "" {
		r.saved[s.Save] = result.Version
	}
}

func (r *caseRunner) version(name string) uint64 {
	version, ok := r.saved[name]
	if !ok {
		r.t.Fatalf("no version is saved as %s", name)
	}
	return version
}

func (r *caseRunner) tableOf(s *conformanceStep) uint64 {
	if s.TableID != 0 {
		return s.TableID
	}
	return r.table
}

func (r *caseRunner) rules(s *conformanceStep) (rules Conditions) {
	if s.If.AbsentFail {
		rules.Flags |= IfAbsent
	}
	if s.If.ExistsFail {
		rules.Flags |= IfExists
	}
	if s.If.Version != "" {
		rules.Flags |= IfVersionNotEqual
		rules.Version = r.version(s.If.Version)
	}
	if s.If.NewerThan != "" {
		rules.Flags |= IfVersionAtMost
		rules.Version = r.version(s.If.NewerThan)
	}
	return rules
}

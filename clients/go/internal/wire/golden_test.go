package wire

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strconv"
	"testing"
)

var update = flag.Bool("update", false, "write node/src/wire/golden/wire.json again; only for a new protocol version")

const goldenFile = "../../../../node/src/wire/golden/wire.json"

// golden is the file: every number a decimal string, byte strings in hexadecimal.
type golden struct {
	Vectors []vector     `json:"vectors"`
	Hashes  []hashVector `json:"hashes"`
}

type vector struct {
	Name    string            `json:"name"`
	Kind    string            `json:"kind"`
	Version uint16            `json:"version,omitempty"` // of the protocol, if the bytes depend on it; 0: 1
	Fields  map[string]string `json:"fields"`
	Hex     string            `json:"hex"`
}

type hashVector struct {
	TableID string `json:"table_id"`
	KeyHex  string `json:"key_hex"`
	Hash    string `json:"hash"`
}

type codec interface {
	Encode([]byte) []byte
	Decode([]byte) error
}

type sample struct {
	name, kind string
	body       codec
	fresh      codec
	fields     map[string]string
}

// in is a control body in a version of the protocol.
type in struct {
	Control
	version uint16
}

func (c in) Encode(to []byte) []byte  { return c.EncodeIn(c.version, to) }
func (c in) Decode(from []byte) error { return c.DecodeIn(c.version, from) }

func (s *sample) version() uint16 {
	if c, ok := s.body.(in); ok && c.version > 1 {
		return c.version
	}
	return 0
}

func uuid() (u [16]byte) {
	for i := range u {
		u[i] = byte(0xa0 + i)
	}
	return u
}

func samples() []sample {
	key, value := []byte("key\x00\xff"), []byte("a value")
	uuidHex := hex.EncodeToString(bytesOf(uuid()))
	reject := RejectRules{Flags: RejectIfAbsent | RejectIfVersionNotEqual, Version: 1<<63 + 5}
	keyed := &Keyed{TableID: 0x0102030405060708, Reject: reject, Key: key}
	keyedFields := map[string]string{"table_id": "72623859790382856", "reject.flags": "5", "reject.version": "9223372036854775813", "key": "6b657900ff"}
	keyedList := []Keyed{*keyed, {TableID: 4, Key: []byte("k")}}
	keyedListFields := map[string]string{"max_bytes": "1048576", "operations": "2",
		"operations.0.table_id": "72623859790382856", "operations.0.reject.flags": "5",
		"operations.0.reject.version": "9223372036854775813", "operations.0.key": "6b657900ff",
		"operations.1.table_id": "4", "operations.1.reject.flags": "0", "operations.1.reject.version": "0", "operations.1.key": "6b"}
	all := []sample{
		{"hello asking", "hello", &Hello{VersionMin: 1, VersionMax: 1, MaxBodyBytes: MaxBodyBytes}, &Hello{},
			map[string]string{"version_min": "1", "version_max": "1", "status": "0", "flags": "0", "max_body_bytes": "4194304",
				"cluster_uuid": "00000000000000000000000000000000", "server_id": "0"}},
		{"hello refusing", "hello", &Hello{VersionMin: 1, VersionMax: 2, Status: 15, Flags: 3, MaxBodyBytes: 65536, ClusterUUID: uuid(), ServerID: 1<<40 + 3}, &Hello{},
			map[string]string{"version_min": "1", "version_max": "2", "status": "15", "flags": "3", "max_body_bytes": "65536",
				"cluster_uuid": uuidHex, "server_id": "1099511627779"}},
		{"request header", "header", &Header{BodyLength: 37, Kind: KindRequest, Opcode: OpWrite, TimeoutMS: 1500, CallID: 1<<40 + 9}, &Header{},
			map[string]string{"body_length": "37", "kind": "1", "opcode": "17", "status": "0", "timeout_ms": "1500", "call_id": "1099511627785"}},
		{"reply header", "header", &Header{BodyLength: 6, Kind: KindReply, Opcode: OpRead, Status: 7, CallID: 9}, &Header{},
			map[string]string{"body_length": "6", "kind": "2", "opcode": "16", "status": "7", "timeout_ms": "0", "call_id": "9"}},
		{"read request", "ReadRequest", keyed, &Keyed{}, keyedFields},
		{"delete request", "DeleteRequest", keyed, &Keyed{}, keyedFields},
		{"read reply", "ReadReply", &ReadReply{Version: 12, Value: value}, &ReadReply{},
			map[string]string{"version": "12", "value": hex.EncodeToString(value)}},
		{"write request", "WriteRequest", &Write{TableID: 3, Key: key, Value: value}, &Write{},
			map[string]string{"table_id": "3", "reject.flags": "0", "reject.version": "0", "key": "6b657900ff", "value": hex.EncodeToString(value)}},
		{"write reply", "WriteReply", &VersionReply{Version: 13}, &VersionReply{}, map[string]string{"version": "13"}},
		{"delete reply", "DeleteReply", &VersionReply{}, &VersionReply{}, map[string]string{"version": "0"}},
		{"increment request", "IncrementRequest", &Increment{TableID: 3, Reject: RejectRules{Flags: RejectIfAbsent}, Delta: ^uint64(4), Type: Int64, Key: key}, &Increment{},
			map[string]string{"table_id": "3", "reject.flags": "1", "reject.version": "0", "delta": "18446744073709551611", "type": "1", "key": "6b657900ff"}},
		{"increment reply", "IncrementReply", &IncrementReply{Version: 14, Value: 0x3ff8000000000000}, &IncrementReply{},
			map[string]string{"version": "14", "value": "4609434218613702656"}},
		{"multi-read request", "MultiReadRequest", &MultiKeyed{MaxBytes: 1 << 20, Operations: keyedList}, &MultiKeyed{}, keyedListFields},
		{"multi-delete request", "MultiDeleteRequest", &MultiKeyed{MaxBytes: 1 << 20, Operations: keyedList}, &MultiKeyed{}, keyedListFields},
		{"multi-write request", "MultiWriteRequest", &MultiWrite{MaxBytes: 4096, Operations: []Write{
			{TableID: 3, Key: key, Value: value}, {TableID: 4, Reject: reject, Key: []byte("k")}}}, &MultiWrite{},
			map[string]string{"max_bytes": "4096", "operations": "2",
				"operations.0.table_id": "3", "operations.0.reject.flags": "0", "operations.0.reject.version": "0",
				"operations.0.key": "6b657900ff", "operations.0.value": hex.EncodeToString(value),
				"operations.1.table_id": "4", "operations.1.reject.flags": "5", "operations.1.reject.version": "9223372036854775813",
				"operations.1.key": "6b", "operations.1.value": ""}},
		{"multi reply", "MultiReply", &MultiReply{RetryAfterUS: 500, Results: []MultiResult{
			{Version: 15, Value: value}, {Status: 1}, {Version: 16}}}, &MultiReply{},
			map[string]string{"retry_after_us": "500", "results": "3",
				"results.0.status": "0", "results.0.version": "15", "results.0.value": hex.EncodeToString(value),
				"results.1.status": "1", "results.1.version": "0", "results.1.value": "",
				"results.2.status": "0", "results.2.version": "16", "results.2.value": ""}},
		{"enumerate request", "EnumerateRequest", &Enumerate{TableID: 3, StartHash: 1 << 63, Cursor: 77, MaxBytes: 1 << 20, KeysOnly: true}, &Enumerate{},
			map[string]string{"table_id": "3", "start_hash": "9223372036854775808", "cursor": "77", "max_bytes": "1048576", "flags": "1"}},
		{"enumerate request within a hash", "EnumerateRequest", &Enumerate{TableID: 3, StartHash: 1 << 63, Cursor: 77, MaxBytes: 1 << 20, SplitsHashes: true, AfterKey: key}, &Enumerate{},
			map[string]string{"table_id": "3", "start_hash": "9223372036854775808", "cursor": "77", "max_bytes": "1048576", "flags": "2", "after_key": "6b657900ff"}},
		{"enumerate reply", "EnumerateReply", &Page{NextCursor: 78, TabletEnd: ^uint64(0), Done: true, Objects: []Object{
			{Version: 1, Key: key, Value: value}, {Version: 2, Key: []byte("k"), Value: []byte{}}}}, &Page{},
			map[string]string{"next_cursor": "78", "tablet_end": "18446744073709551615", "done": "1", "objects": "2",
				"objects.0.version": "1", "objects.0.key": "6b657900ff", "objects.0.value": hex.EncodeToString(value),
				"objects.1.version": "2", "objects.1.key": "6b", "objects.1.value": ""}},
		{"enumerate reply with a place", "EnumerateReply", &Page{NextCursor: 78, TabletEnd: 9, CursorIsPlace: true}, &Page{},
			map[string]string{"next_cursor": "78", "tablet_end": "9", "done": "0", "cursor_is_place": "1", "objects": "0"}},
		{"enumerate reply within a hash", "EnumerateReply", &Page{NextCursor: 78, TabletEnd: 9, CursorIsPlace: true, WithinHash: true,
			Objects: []Object{{Version: 2, Key: []byte("k"), Value: []byte{}}}}, &Page{},
			map[string]string{"next_cursor": "78", "tablet_end": "9", "done": "0", "cursor_is_place": "1", "within_hash": "1", "objects": "1",
				"objects.0.version": "2", "objects.0.key": "6b", "objects.0.value": ""}},
		{"error body", "ErrorBody", &ErrorBody{RetryAfterUS: 2500, Message: "not now"}, &ErrorBody{},
			map[string]string{"retry_after_us": "2500", "message": "not now"}},
		{"error body with details", "ErrorDetails", &ErrorBody{Message: "nothing was written", Details: errorDetails()}, &ErrorBody{},
			map[string]string{"retry_after_us": "0", "message": "nothing was written", "flags": "1", "leader": "tcp:host=a,port=1",
				"leader_outside": "tcp:host=b,port=2", "term": "7", "details_retry_after_us": "2500"}},
	}
	for version := uint16(VersionMin); version <= VersionMax; version++ {
		all = append(all, controls(version)...)
	}
	return all
}

// controls are bodies whose bytes depend on the version.
func controls(version uint16) []sample {
	suffix := ""
	if version > 1 {
		suffix = fmt.Sprintf(", version %d", version)
	}
	table := &Table{ID: 7, Name: "books", Tablets: []Tablet{
		{StartHash: 0, EndHash: 1<<63 - 1, ServerID: 1<<32 + 1, State: TabletNormal, Locator: "tcp:host=10.0.0.1,port=11200"},
		{StartHash: 1 << 63, EndHash: ^uint64(0), ServerID: 2, State: TabletUnavailable},
	}}
	tableFields := map[string]string{
		"table_id": "7", "name": "books", "tablets": "2",
		"tablets.0.start_hash": "0", "tablets.0.end_hash": "9223372036854775807", "tablets.0.server_id": "4294967297",
		"tablets.0.state": "1", "tablets.0.locator": "tcp:host=10.0.0.1,port=11200",
		"tablets.1.start_hash": "9223372036854775808", "tablets.1.end_hash": "18446744073709551615", "tablets.1.server_id": "2",
		"tablets.1.state": "3", "tablets.1.locator": "",
	}
	info := &ClusterInfo{ClusterUUID: uuid(), ClusterName: "demo", Version: "0.1.0", AdminAddress: "a:11101", Term: 4}
	infoFields := map[string]string{"cluster_uuid": hex.EncodeToString(bytesOf(uuid())), "cluster_name": "demo", "version": "0.1.0",
		"admin_address": "a:11101", "term": "4"}
	if version >= 2 {
		info.MetadataRevision, infoFields["metadata_revision"] = 1<<33+1, "8589934593"
	}
	made := func(name, kind string, body, fresh Control, fields map[string]string) sample {
		return sample{name + suffix, kind, in{body, version}, in{fresh, version}, fields}
	}
	list := &Tables{Tables: []Table{*table, {ID: 8, Name: "empty"}}}
	listFields := map[string]string{"tables": "2", "tables.0.table_id": "7", "tables.0.name": "books", "tables.1.table_id": "8", "tables.1.name": "empty"}
	if version >= 2 {
		list.NextID, listFields["next_id"] = 9, "9"
	}
	all := []sample{
		made("cluster info", "ClusterInfo", info, &ClusterInfo{}, infoFields),
		made("create table request", "CreateTableRequest", &CreateTable{Name: "books", Span: 4}, &CreateTable{}, map[string]string{"name": "books", "span": "4"}),
		made("drop table request", "DropTableRequest", &DropTable{Name: "books"}, &DropTable{}, map[string]string{"name": "books"}),
		made("get table request", "GetTableRequest", &GetTable{ID: 7}, &GetTable{}, map[string]string{"name": "", "table_id": "7"}),
		made("table info", "TableInfo", table, &Table{}, tableFields),
		made("list tables reply", "ListTablesReply", list, &Tables{}, listFields),
	}
	if version >= 2 { // in version 1 it takes no byte
		all = append(all, made("nothing", "Empty", Empty{}, Empty{}, map[string]string{}),
			made("list tables request", "ListTablesRequest", &ListTables{FirstID: 7, MaxBytes: 1 << 20}, &ListTables{},
				map[string]string{"first_id": "7", "max_bytes": "1048576"}))
	}
	return all
}

func bytesOf(u [16]byte) []byte { return u[:] }

func hashInputs() (out []hashVector) {
	for _, length := range []int{0, 1, 3, 4, 8, 9, 16, 17, 128, 129, 240, 241, 1024, 1025} { // lengths at which XXH3 uses another algorithm
		for _, table := range []uint64{0, 1, 1<<63 + 12345} {
			key := make([]byte, length)
			for i := range key {
				key[i] = byte(i*7 + length)
			}
			out = append(out, hashVector{TableID: strconv.FormatUint(table, 10), KeyHex: hex.EncodeToString(key)})
		}
	}
	return out
}

func errorDetails() ErrorDetails {
	return ErrorDetails{Flags: NothingWritten, Leader: "tcp:host=a,port=1", LeaderOutside: "tcp:host=b,port=2", Term: 7, RetryAfterUS: 2500}
}

// extensible: bytes after the known fields belong to later versions, so they are no error.
func (s *sample) extensible() bool {
	_, isError := s.body.(*ErrorBody)
	return isError
}

func TestGolden(t *testing.T) {
	if *update {
		writeGolden(t)
	}
	text, err := os.ReadFile(goldenFile)
	if err != nil {
		t.Fatal(err)
	}
	var file golden
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	all := samples()
	if len(file.Vectors) != len(all) {
		t.Fatalf("%d vectors in the file, %d here", len(file.Vectors), len(all))
	}
	for i, s := range all {
		v := file.Vectors[i]
		if v.Name != s.name || v.Kind != s.kind || v.Version != s.version() || fmt.Sprint(v.Fields) != fmt.Sprint(s.fields) {
			t.Fatalf("vector %d is %s %s %v, want %s %s %v", i, v.Name, v.Kind, v.Fields, s.name, s.kind, s.fields)
		}
		if got := hex.EncodeToString(s.body.Encode(nil)); got != v.Hex {
			t.Errorf("%s encodes to\n%s, want\n%s", s.name, got, v.Hex)
		}
		raw, err := hex.DecodeString(v.Hex)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.fresh.Decode(raw); err != nil {
			t.Errorf("%s: %v", s.name, err)
		}
		if again := s.fresh.Encode(nil); !bytes.Equal(again, raw) {
			t.Errorf("%s decoded and encoded is\n%x, want\n%x", s.name, again, raw)
		}
	}
	for _, h := range file.Hashes {
		table, err := strconv.ParseUint(h.TableID, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		key, err := hex.DecodeString(h.KeyHex)
		if err != nil {
			t.Fatal(err)
		}
		if got := strconv.FormatUint(KeyHash(table, key), 10); got != h.Hash {
			t.Errorf("hash of a key of %d bytes in table %d is %s, want %s", len(key), table, got, h.Hash)
		}
	}
	if len(file.Hashes) < 40 {
		t.Errorf("only %d hash vectors", len(file.Hashes))
	}
}

func writeGolden(t *testing.T) {
	var file golden
	for _, s := range samples() {
		file.Vectors = append(file.Vectors, vector{s.name, s.kind, s.version(), s.fields, hex.EncodeToString(s.body.Encode(nil))})
	}
	for _, h := range hashInputs() {
		table, _ := strconv.ParseUint(h.TableID, 10, 64)
		key, _ := hex.DecodeString(h.KeyHex)
		h.Hash = strconv.FormatUint(KeyHash(table, key), 10)
		file.Hashes = append(file.Hashes, h)
	}
	text, err := json.MarshalIndent(file, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(goldenFile, append(text, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestTruncatedBytesAreRefused: no prefix of a body is a body, and none makes a decoder panic.
func TestTruncatedBytesAreRefused(t *testing.T) {
	for _, s := range samples() {
		whole := s.body.Encode(nil)
		for n := range whole {
			if s.kind == "header" && n == HeaderBytes || s.extensible() && n >= textEnd(s.body) {
				continue
			}
			if err := s.fresh.Decode(whole[:n]); err == nil {
				t.Errorf("%s: %d of %d bytes were accepted", s.name, n, len(whole))
			}
		}
		if err := s.fresh.Decode(append(whole, 0)); (err == nil) != s.extensible() {
			t.Errorf("%s: a byte too many: %v", s.name, err)
		}
	}
}

// textEnd is where the details of an error begin.
func textEnd(body any) int { return 6 + len(body.(*ErrorBody).Message) }

// TestErrorsOfOtherVersionsAreRead: an error's text is read, no matter what follows it, and so are the known
// fields of its details.
func TestErrorsOfOtherVersionsAreRead(t *testing.T) {
	whole := (&ErrorBody{RetryAfterUS: 5, Message: "not now", Details: errorDetails()}).Encode(nil)
	for n := 6 + len("not now"); n <= len(whole); n++ {
		var e ErrorBody
		if err := e.Decode(whole[:n]); err != nil || e.Message != "not now" || e.RetryAfterUS != 5 {
			t.Errorf("%d of %d bytes: %v, %+v", n, len(whole), err, e)
		}
		if want := errorDetails(); n == len(whole) && e.Details != want {
			t.Errorf("details are %+v, want %+v", e.Details, want)
		}
	}
	body := func(details ...byte) []byte {
		to := (&ErrorBody{Message: "not now"}).Encode(nil)
		return append(order.AppendUint32(to, uint32(len(details))), details...)
	}
	var e ErrorBody
	former := order.AppendUint64(nil, NothingWritten) // it knew the flags only
	if err := e.Decode(body(former...)); err != nil || e.Details != (ErrorDetails{Flags: NothingWritten}) {
		t.Errorf("details of a former version: %v, %+v", err, e.Details)
	}
	later := errorDetails()
	if err := e.Decode(body(append(later.encode(nil), 1, 2, 3)...)); err != nil || e.Details != later {
		t.Errorf("details of a later version: %v, %+v", err, e.Details)
	}
}

// TestControlBodiesCanGrow: fields that a newer peer adds are skipped, and fields that an older one lacks are
// zero.
func TestControlBodiesCanGrow(t *testing.T) {
	tablet := Tablet{EndHash: ^uint64(0), ServerID: 3, State: TabletNormal, Locator: "tcp:host=a,port=1"}
	longer := encodeIn(2, nil, func(w *writer) {
		w.structure(func() {
			w.u64(7)
			w.text("books")
			w.u32(1)
			w.structure(func() {
				w.u64(tablet.StartHash)
				w.u64(tablet.EndHash)
				w.u64(tablet.ServerID)
				w.to = append(w.to, byte(tablet.State))
				w.text(tablet.Locator)
				w.text("of the tablet")
			})
			w.u64(99)
		})
	})
	var table Table
	if err := table.DecodeIn(2, longer); err != nil || table.Name != "books" || len(table.Tablets) != 1 || table.Tablets[0] != tablet {
		t.Errorf("a table with more fields: %v, %+v", err, table)
	}
	former := encodeIn(2, nil, func(w *writer) {
		w.structure(func() {
			w.to = append(w.to, make([]byte, 16)...)
			w.text("demo")
			w.text("0.1.0")
			w.text("a:1")
			w.u64(4)
		})
	})
	info := ClusterInfo{MetadataRevision: 5}
	if err := info.DecodeIn(2, former); err != nil || info.Term != 4 || info.MetadataRevision != 0 {
		t.Errorf("what a former peer says: %v, %+v", err, info)
	}
	if err := info.DecodeIn(2, former[:len(former)-1]); err == nil {
		t.Error("a body that was cut is accepted")
	}
}

func FuzzDecode(f *testing.F) {
	for _, s := range samples() {
		f.Add(s.body.Encode(nil))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, s := range samples() {
			if s.fresh.Decode(data) != nil || s.extensible() {
				continue
			}
			again := s.fresh.Encode(nil)
			if s.version() < Extensible && len(again) != len(data) {
				t.Errorf("%s: what was accepted has another length encoded again", s.name)
			}
			if err := s.fresh.Decode(again); err != nil || !bytes.Equal(s.fresh.Encode(nil), again) {
				t.Errorf("%s: what was accepted is something else when it is sent on: %v", s.name, err)
			}
		}
	})
}

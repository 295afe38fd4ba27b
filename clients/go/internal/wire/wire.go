// Package wire is the byte format between clients and servers (docs/formats.md, "Wire"): little-endian
// integers, a hello of 64 bytes, messages of a 48-byte header and a body. The same golden bytes
// (node/src/wire/golden/wire.json) are read by its tests and by the C++ ones.
package wire

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/zeebo/xxh3"
)

// Limits and sizes.
const (
	HelloBytes        = 64
	HeaderBytes       = 48
	VersionMin        = 1
	VersionMax        = 2
	MaxBodyBytes      = 4 << 20
	MaxKeyBytes       = 65_535
	MaxValueBytes     = 1 << 20
	MaxTableNameBytes = 255
	MaxMultiCount     = 16_384
	Magic             = "RAMCLOUD"
)

// Kinds of messages.
const (
	KindRequest = 1
	KindReply   = 2
)

// Opcode is the operation of a message.
type Opcode uint16

// Operations that a client uses.
const (
	OpPing           Opcode = 1
	OpRead           Opcode = 16
	OpWrite          Opcode = 17
	OpDelete         Opcode = 18
	OpEnumerate      Opcode = 19
	OpIncrement      Opcode = 20
	OpMultiRead      Opcode = 21
	OpMultiWrite     Opcode = 22
	OpMultiDelete    Opcode = 23
	OpGetClusterInfo Opcode = 64
	OpCreateTable    Opcode = 65
	OpDropTable      Opcode = 66
	OpListTables     Opcode = 67
	OpGetTable       Opcode = 68
)

// TabletState is a tablet's state at the coordinator.
type TabletState uint8

// States of tablets.
const (
	TabletNormal      TabletState = 1
	TabletCreating    TabletState = 2
	TabletUnavailable TabletState = 3
)

// ErrMalformed means bytes that do not follow the format.
var ErrMalformed = errors.New("malformed bytes")

var order = binary.LittleEndian

// KeyHash is the hash of a key, which decides its tablet.
func KeyHash(tableID uint64, key []byte) uint64 { return xxh3.HashSeed(key, tableID) }

// Hello is what each side sends first.
type Hello struct {
	VersionMin, VersionMax uint16
	Status                 uint16
	Flags                  uint32
	MaxBodyBytes           uint32
	ClusterUUID            [16]byte
	ServerID               uint64
}

// Encode appends the hello's bytes.
func (h *Hello) Encode(to []byte) []byte {
	to = append(to, Magic...)
	to = order.AppendUint16(to, h.VersionMin)
	to = order.AppendUint16(to, h.VersionMax)
	to = order.AppendUint16(to, h.Status)
	to = order.AppendUint16(to, 0)
	to = order.AppendUint32(to, h.Flags)
	to = order.AppendUint32(to, h.MaxBodyBytes)
	to = append(to, h.ClusterUUID[:]...)
	to = order.AppendUint64(to, h.ServerID)
	return append(to, make([]byte, 16)...)
}

// Decode reads HelloBytes bytes.
func (h *Hello) Decode(from []byte) error {
	if len(from) != HelloBytes || string(from[:8]) != Magic {
		return fmt.Errorf("%w: not a RAMCloud hello", ErrMalformed)
	}
	h.VersionMin, h.VersionMax, h.Status = order.Uint16(from[8:]), order.Uint16(from[10:]), order.Uint16(from[12:])
	h.Flags, h.MaxBodyBytes = order.Uint32(from[16:]), order.Uint32(from[20:])
	copy(h.ClusterUUID[:], from[24:40])
	h.ServerID = order.Uint64(from[40:])
	return nil
}

// Header precedes every body.
type Header struct {
	BodyLength uint32
	Kind       uint8
	Opcode     Opcode
	Status     uint16
	TimeoutMS  uint32
	CallID     uint64
}

// Encode appends the header's bytes.
func (h *Header) Encode(to []byte) []byte {
	to = order.AppendUint32(to, h.BodyLength)
	to = append(to, h.Kind, 0)
	to = order.AppendUint16(to, uint16(h.Opcode))
	to = order.AppendUint16(to, h.Status)
	to = order.AppendUint16(to, 0)
	to = order.AppendUint32(to, h.TimeoutMS)
	to = order.AppendUint64(to, h.CallID)
	return append(to, make([]byte, 24)...)
}

// Decode reads HeaderBytes bytes. A body that is longer than allowed is refused here, before anything
// is allocated for it.
func (h *Header) Decode(from []byte) error {
	if len(from) != HeaderBytes {
		return fmt.Errorf("%w: header of %d bytes", ErrMalformed, len(from))
	}
	h.BodyLength, h.Kind = order.Uint32(from), from[4]
	h.Opcode, h.Status = Opcode(order.Uint16(from[6:])), order.Uint16(from[8:])
	h.TimeoutMS, h.CallID = order.Uint32(from[12:]), order.Uint64(from[16:])
	if h.BodyLength > MaxBodyBytes {
		return fmt.Errorf("%w: body of %d bytes; accepted: at most %d", ErrMalformed, h.BodyLength, MaxBodyBytes)
	}
	if h.Kind != KindRequest && h.Kind != KindReply {
		return fmt.Errorf("%w: message kind %d", ErrMalformed, h.Kind)
	}
	return nil
}

// Message appends a header and its body.
func Message(to []byte, h Header, body []byte) []byte {
	h.BodyLength = uint32(len(body))
	return append(h.Encode(to), body...)
}

// Extensible is the first version of the protocol in which every struct of a control body begins with its
// length.
const Extensible = 2

// writer builds a control body.
type writer struct {
	to      []byte
	version uint16
}

// structure writes a struct: its fields, after their length if the version has one.
func (w *writer) structure(fields func()) {
	if w.version < Extensible {
		fields()
		return
	}
	at := len(w.to)
	w.to = append(w.to, 0, 0, 0, 0)
	fields()
	order.PutUint32(w.to[at:], uint32(len(w.to)-at-4))
}

func (w *writer) u32(n uint32)  { w.to = order.AppendUint32(w.to, n) }
func (w *writer) u64(n uint64)  { w.to = order.AppendUint64(w.to, n) }
func (w *writer) text(s string) { w.to = appendText(w.to, s) }

// Reader decodes a body. After the first field that does not fit, all values are zero and Done fails.
type Reader struct {
	rest    []byte
	bad     bool
	version uint16 // of a control body
}

// structure reads a struct, and skips fields that a newer writer added.
func (r *Reader) structure(fields func()) {
	if r.version < Extensible {
		fields()
		return
	}
	part := r.Bytes(int(r.U32()))
	behind := r.rest
	r.rest = part
	fields()
	r.rest = behind
}

// since says whether a field that was added later is there: an older peer may not send it.
func (r *Reader) since(version uint16) bool {
	return r.version >= version && !r.bad && len(r.rest) > 0
}

// NewReader reads body.
func NewReader(body []byte) *Reader { return &Reader{rest: body} }

// Done checks that everything fitted and nothing is left.
func (r *Reader) Done() error {
	if r.bad || len(r.rest) > 0 {
		return fmt.Errorf("%w: a body does not have the fields of its kind", ErrMalformed)
	}
	return nil
}

// Bytes takes the next n bytes, without copying.
func (r *Reader) Bytes(n int) []byte {
	if r.bad || n < 0 || n > len(r.rest) {
		r.bad = true
		return nil
	}
	out := r.rest[:n:n]
	r.rest = r.rest[n:]
	return out
}

// U8 takes an 8-bit integer.
func (r *Reader) U8() uint8 {
	if b := r.Bytes(1); b != nil {
		return b[0]
	}
	return 0
}

// U16 takes a 16-bit integer.
func (r *Reader) U16() uint16 {
	if b := r.Bytes(2); b != nil {
		return order.Uint16(b)
	}
	return 0
}

// U32 takes a 32-bit integer.
func (r *Reader) U32() uint32 {
	if b := r.Bytes(4); b != nil {
		return order.Uint32(b)
	}
	return 0
}

// U64 takes a 64-bit integer.
func (r *Reader) U64() uint64 {
	if b := r.Bytes(8); b != nil {
		return order.Uint64(b)
	}
	return 0
}

// Text takes a string with its length before it.
func (r *Reader) Text() string { return string(r.Bytes(int(r.U32()))) }

// count takes the length of a list, of which every element has at least one byte.
func (r *Reader) count() int {
	n := r.U32()
	if r.bad || uint64(n) > uint64(len(r.rest)) {
		r.bad = true
		return 0
	}
	return int(n)
}

func appendText(to []byte, s string) []byte {
	return append(order.AppendUint32(to, uint32(len(s))), s...)
}

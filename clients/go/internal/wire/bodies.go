package wire

// RejectFlags are conditions under which an operation fails instead of taking effect.
type RejectFlags uint32

// Flags of RejectRules.
const (
	RejectIfAbsent          RejectFlags = 1
	RejectIfExists          RejectFlags = 2
	RejectIfVersionNotEqual RejectFlags = 4
	RejectIfVersionAtMost   RejectFlags = 8
)

// RejectRules make an operation conditional.
type RejectRules struct {
	Flags   RejectFlags
	Version uint64
}

func (j RejectRules) encode(to []byte) []byte {
	to = order.AppendUint32(to, uint32(j.Flags))
	to = order.AppendUint32(to, 0)
	return order.AppendUint64(to, j.Version)
}

func (r *Reader) reject() RejectRules {
	flags := RejectFlags(r.U32())
	r.U32()
	return RejectRules{Flags: flags, Version: r.U64()}
}

// Keyed is the body of a read or a delete.
type Keyed struct {
	TableID uint64
	Reject  RejectRules
	Key     []byte
}

// Encode appends the body.
func (k *Keyed) Encode(to []byte) []byte {
	to = k.Reject.encode(order.AppendUint64(to, k.TableID))
	to = order.AppendUint16(to, uint16(len(k.Key)))
	return append(append(to, make([]byte, 6)...), k.Key...)
}

// Decode reads the body.
func (k *Keyed) Decode(from []byte) error {
	r := NewReader(from)
	k.decode(r)
	return r.Done()
}

func (k *Keyed) decode(r *Reader) {
	k.TableID, k.Reject = r.U64(), r.reject()
	n := int(r.U16())
	r.Bytes(6)
	k.Key = r.Bytes(n)
}

// Write is the body of a write.
type Write struct {
	TableID uint64
	Reject  RejectRules
	Key     []byte
	Value   []byte
}

// Encode appends the body.
func (w *Write) Encode(to []byte) []byte {
	to = w.Reject.encode(order.AppendUint64(to, w.TableID))
	to = order.AppendUint32(to, uint32(len(w.Value)))
	to = order.AppendUint16(to, uint16(len(w.Key)))
	to = append(order.AppendUint16(to, 0), w.Key...)
	return append(to, w.Value...)
}

// Decode reads the body.
func (w *Write) Decode(from []byte) error {
	r := NewReader(from)
	w.decode(r)
	return r.Done()
}

func (w *Write) decode(r *Reader) {
	w.TableID, w.Reject = r.U64(), r.reject()
	value, key := int(r.U32()), int(r.U16())
	r.U16()
	w.Key, w.Value = r.Bytes(key), r.Bytes(value)
}

// ReadReply is the answer to a read.
type ReadReply struct {
	Version uint64
	Value   []byte
}

// Encode appends the body.
func (a *ReadReply) Encode(to []byte) []byte {
	to = order.AppendUint64(to, a.Version)
	to = order.AppendUint32(to, uint32(len(a.Value)))
	return append(order.AppendUint32(to, 0), a.Value...)
}

// Decode reads the body.
func (a *ReadReply) Decode(from []byte) error {
	r := NewReader(from)
	a.Version = r.U64()
	n := int(r.U32())
	r.U32()
	a.Value = r.Bytes(n)
	return r.Done()
}

// VersionReply is the answer to a write or a delete.
type VersionReply struct{ Version uint64 }

// Encode appends the body.
func (a *VersionReply) Encode(to []byte) []byte { return order.AppendUint64(to, a.Version) }

// Decode reads the body.
func (a *VersionReply) Decode(from []byte) error {
	r := NewReader(from)
	a.Version = r.U64()
	return r.Done()
}

// Enumerate asks for a page of a tablet.
type Enumerate struct {
	TableID, StartHash, Cursor uint64
	MaxBytes                   uint32
	KeysOnly                   bool
	// SplitsHashes: a page may end between objects with the same hash. The next request then has the last
	// object's key.
	SplitsHashes bool
	AfterKey     []byte
}

// Encode appends the body.
func (e *Enumerate) Encode(to []byte) []byte {
	to = order.AppendUint64(order.AppendUint64(order.AppendUint64(to, e.TableID), e.StartHash), e.Cursor)
	flags := uint16(bit(e.KeysOnly)) | uint16(bit(e.SplitsHashes))<<1
	to = order.AppendUint16(order.AppendUint32(to, e.MaxBytes), flags)
	return append(order.AppendUint16(to, uint16(len(e.AfterKey))), e.AfterKey...)
}

// Decode reads the body.
func (e *Enumerate) Decode(from []byte) error {
	r := NewReader(from)
	e.TableID, e.StartHash, e.Cursor, e.MaxBytes = r.U64(), r.U64(), r.U64(), r.U32()
	flags := r.U16()
	e.KeysOnly, e.SplitsHashes = flags&1 != 0, flags&2 != 0
	e.AfterKey = nil
	if n := int(r.U16()); n > 0 {
		e.AfterKey = r.Bytes(n)
	}
	return r.Done()
}

// Object is an element of a page.
type Object struct {
	Version    uint64
	Key, Value []byte
}

func bit(set bool) byte {
	if set {
		return 1
	}
	return 0
}

// Page is the answer to Enumerate.
type Page struct {
	NextCursor, TabletEnd uint64
	Done                  bool
	CursorIsPlace         bool // valid on every server
	WithinHash            bool // NextCursor is the last object's place; more objects with its hash follow
	Objects               []Object
}

// Encode appends the body.
func (p *Page) Encode(to []byte) []byte {
	to = order.AppendUint64(order.AppendUint64(to, p.NextCursor), p.TabletEnd)
	to = append(order.AppendUint32(to, uint32(len(p.Objects))), bit(p.Done), bit(p.CursorIsPlace), bit(p.WithinHash), 0)
	for _, o := range p.Objects {
		to = order.AppendUint32(order.AppendUint64(to, o.Version), uint32(len(o.Value)))
		to = order.AppendUint16(order.AppendUint16(to, uint16(len(o.Key))), 0)
		to = append(append(to, o.Key...), o.Value...)
	}
	return to
}

// Decode reads the body.
func (p *Page) Decode(from []byte) error {
	r := NewReader(from)
	p.NextCursor, p.TabletEnd = r.U64(), r.U64()
	n := r.count()
	p.Done, p.CursorIsPlace, p.WithinHash = r.U8() != 0, r.U8() != 0, r.U8() != 0
	r.U8()
	p.Objects = nil
	for range n {
		o := Object{Version: r.U64()}
		value, key := int(r.U32()), int(r.U16())
		r.U16()
		o.Key, o.Value = r.Bytes(key), r.Bytes(value)
		if r.bad {
			break
		}
		p.Objects = append(p.Objects, o)
	}
	return r.Done()
}

// ErrorBody is the body of a reply that is not OK. Details follow the message if they are not empty.
type ErrorBody struct {
	RetryAfterUS uint32
	Message      string
	Details      ErrorDetails
}

// ErrorDetails are the details of an error for programs. Later versions append fields.
type ErrorDetails struct {
	Flags         uint64
	Leader        string // locator of the leading coordinator, inside the cluster
	LeaderOutside string // the same, from outside
	Term          uint64
	RetryAfterUS  uint32
}

// NothingWritten is a flag of ErrorDetails: the request changed nothing that outlives it.
const NothingWritten = 1

// Encode appends the body.
func (e *ErrorBody) Encode(to []byte) []byte {
	to = order.AppendUint16(order.AppendUint32(to, e.RetryAfterUS), uint16(len(e.Message)))
	to = append(to, e.Message...)
	if e.Details == (ErrorDetails{}) {
		return to
	}
	return appendText(to, string(e.Details.encode(nil)))
}

func (d *ErrorDetails) encode(to []byte) []byte {
	to = appendText(appendText(order.AppendUint64(to, d.Flags), d.Leader), d.LeaderOutside)
	return order.AppendUint32(order.AppendUint64(to, d.Term), d.RetryAfterUS)
}

// Decode reads the body. Bytes after the message never cause an error: other versions have other details, and
// missing or cut off fields are zero.
func (e *ErrorBody) Decode(from []byte) error {
	r := NewReader(from)
	e.RetryAfterUS = r.U32()
	e.Message = string(r.Bytes(int(r.U16())))
	e.Details = ErrorDetails{}
	if r.bad {
		return r.Done()
	}
	if encoded := r.Bytes(int(r.U32())); !r.bad {
		e.Details.decode(NewReader(encoded))
	}
	return nil
}

func (d *ErrorDetails) decode(r *Reader) {
	d.Flags, d.Leader, d.LeaderOutside = r.U64(), r.Text(), r.Text()
	d.Term, d.RetryAfterUS = r.U64(), r.U32()
}

// Control is the body of an operation on tables or of the cluster. Its bytes depend on the protocol version
// of the connection.
type Control interface {
	EncodeIn(version uint16, to []byte) []byte
	DecodeIn(version uint16, from []byte) error
}

func encodeIn(version uint16, to []byte, write func(*writer)) []byte {
	w := &writer{to: to, version: version}
	write(w)
	return w.to
}

func decodeIn(version uint16, from []byte, read func(*Reader)) error {
	r := NewReader(from)
	r.version = version
	read(r)
	return r.Done()
}

// ClusterInfo is a coordinator's answer about its cluster.
type ClusterInfo struct {
	ClusterUUID      [16]byte
	ClusterName      string
	Version          string
	AdminAddress     string
	Term             uint64
	MetadataRevision uint64 // of the last change; 0: not told
}

// EncodeIn appends the body.
func (c *ClusterInfo) EncodeIn(version uint16, to []byte) []byte {
	return encodeIn(version, to, func(w *writer) {
		w.structure(func() {
			w.to = append(w.to, c.ClusterUUID[:]...)
			w.text(c.ClusterName)
			w.text(c.Version)
			w.text(c.AdminAddress)
			w.u64(c.Term)
			if version >= 2 {
				w.u64(c.MetadataRevision)
			}
		})
	})
}

// DecodeIn reads the body.
func (c *ClusterInfo) DecodeIn(version uint16, from []byte) error {
	return decodeIn(version, from, func(r *Reader) {
		r.structure(func() {
			copy(c.ClusterUUID[:], r.Bytes(16))
			c.ClusterName, c.Version, c.AdminAddress, c.Term = r.Text(), r.Text(), r.Text(), r.U64()
			c.MetadataRevision = 0
			if r.since(2) {
				c.MetadataRevision = r.U64()
			}
		})
	})
}

// Tablet is a range of a table's hashes.
type Tablet struct {
	StartHash, EndHash uint64 // inclusive
	ServerID           uint64
	State              TabletState
	Locator            string
}

// Table is a table with its tablets in the order of their hashes.
type Table struct {
	ID      uint64
	Name    string
	Tablets []Tablet
}

func (t *Table) encode(w *writer) {
	w.structure(func() {
		w.u64(t.ID)
		w.text(t.Name)
		w.u32(uint32(len(t.Tablets)))
		for _, a := range t.Tablets {
			w.structure(func() {
				w.u64(a.StartHash)
				w.u64(a.EndHash)
				w.u64(a.ServerID)
				w.to = append(w.to, byte(a.State))
				w.text(a.Locator)
			})
		}
	})
}

func (t *Table) decode(r *Reader) {
	r.structure(func() {
		t.ID, t.Name, t.Tablets = r.U64(), r.Text(), nil
		for range r.count() {
			var a Tablet
			r.structure(func() {
				a = Tablet{StartHash: r.U64(), EndHash: r.U64(), ServerID: r.U64(), State: TabletState(r.U8()), Locator: r.Text()}
			})
			if r.bad {
				return
			}
			t.Tablets = append(t.Tablets, a)
		}
	})
}

// EncodeIn appends the body.
func (t *Table) EncodeIn(version uint16, to []byte) []byte { return encodeIn(version, to, t.encode) }

// DecodeIn reads the body.
func (t *Table) DecodeIn(version uint16, from []byte) error { return decodeIn(version, from, t.decode) }

// ListTables asks for a page of the tables with ids from FirstID on. Without MaxBytes, and in version 1, it asks
// for the whole list.
type ListTables struct {
	FirstID  uint64
	MaxBytes uint32
}

// EncodeIn appends the body.
func (l *ListTables) EncodeIn(version uint16, to []byte) []byte {
	return encodeIn(version, to, func(w *writer) {
		w.structure(func() {
			if version >= Extensible {
				w.u64(l.FirstID)
				w.u32(l.MaxBytes)
			}
		})
	})
}

// DecodeIn reads the body.
func (l *ListTables) DecodeIn(version uint16, from []byte) error {
	return decodeIn(version, from, func(r *Reader) {
		r.structure(func() {
			if *l = (ListTables{}); r.since(Extensible) {
				l.FirstID, l.MaxBytes = r.U64(), r.U32()
			}
		})
	})
}

// Tables is the answer to ListTables.
type Tables struct {
	Tables []Table
	NextID uint64 // 0: there are no more
}

// EncodeIn appends the body.
func (l *Tables) EncodeIn(version uint16, to []byte) []byte {
	return encodeIn(version, to, func(w *writer) {
		w.structure(func() {
			w.u32(uint32(len(l.Tables)))
			for i := range l.Tables {
				l.Tables[i].encode(w)
			}
			if version >= Extensible {
				w.u64(l.NextID)
			}
		})
	})
}

// DecodeIn reads the body.
func (l *Tables) DecodeIn(version uint16, from []byte) error {
	return decodeIn(version, from, func(r *Reader) {
		r.structure(func() {
			l.Tables, l.NextID = nil, 0
			for range r.count() {
				var t Table
				t.decode(r)
				if r.bad {
					break
				}
				l.Tables = append(l.Tables, t)
			}
			if r.since(Extensible) {
				l.NextID = r.U64()
			}
		})
	})
}

// CreateTable asks for a table.
type CreateTable struct {
	Name string
	Span uint32
}

// EncodeIn appends the body.
func (c *CreateTable) EncodeIn(version uint16, to []byte) []byte {
	return encodeIn(version, to, func(w *writer) {
		w.structure(func() {
			w.text(c.Name)
			w.u32(c.Span)
		})
	})
}

// DecodeIn reads the body.
func (c *CreateTable) DecodeIn(version uint16, from []byte) error {
	return decodeIn(version, from, func(r *Reader) {
		r.structure(func() { c.Name, c.Span = r.Text(), r.U32() })
	})
}

// DropTable drops a table.
type DropTable struct{ Name string }

// EncodeIn appends the body.
func (d *DropTable) EncodeIn(version uint16, to []byte) []byte {
	return encodeIn(version, to, func(w *writer) {
		w.structure(func() { w.text(d.Name) })
	})
}

// DecodeIn reads the body.
func (d *DropTable) DecodeIn(version uint16, from []byte) error {
	return decodeIn(version, from, func(r *Reader) {
		r.structure(func() { d.Name = r.Text() })
	})
}

// GetTable asks for a table by name or, if that is empty, by id.
type GetTable struct {
	Name string
	ID   uint64
}

// EncodeIn appends the body.
func (g *GetTable) EncodeIn(version uint16, to []byte) []byte {
	return encodeIn(version, to, func(w *writer) {
		w.structure(func() {
			w.text(g.Name)
			w.u64(g.ID)
		})
	})
}

// DecodeIn reads the body.
func (g *GetTable) DecodeIn(version uint16, from []byte) error {
	return decodeIn(version, from, func(r *Reader) {
		r.structure(func() { g.Name, g.ID = r.Text(), r.U64() })
	})
}

// Empty is a body without fields.
type Empty struct{}

// EncodeIn appends the body.
func (Empty) EncodeIn(version uint16, to []byte) []byte {
	return encodeIn(version, to, func(w *writer) { w.structure(func() {}) })
}

// DecodeIn reads the body.
func (Empty) DecodeIn(version uint16, from []byte) error {
	return decodeIn(version, from, func(r *Reader) { r.structure(func() {}) })
}

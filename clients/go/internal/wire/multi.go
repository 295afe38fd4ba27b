package wire

// NumberType is the type of the 8 bytes of a counter.
type NumberType uint8

// Types of numbers, both little-endian.
const (
	Int64  NumberType = 1
	Double NumberType = 2
)

// Increment is the body of an increment; Delta has the bits of an int64 or a double.
type Increment struct {
	TableID uint64
	Reject  RejectRules
	Delta   uint64
	Type    NumberType
	Key     []byte
}

// Encode appends the body.
func (i *Increment) Encode(to []byte) []byte {
	to = i.Reject.encode(order.AppendUint64(to, i.TableID))
	to = order.AppendUint64(to, i.Delta)
	to = order.AppendUint16(to, uint16(len(i.Key)))
	to = append(to, byte(i.Type), 0, 0, 0, 0, 0)
	return append(to, i.Key...)
}

// Decode reads the body.
func (i *Increment) Decode(from []byte) error {
	r := NewReader(from)
	i.TableID, i.Reject, i.Delta = r.U64(), r.reject(), r.U64()
	n := int(r.U16())
	i.Type = NumberType(r.U8())
	r.Bytes(5)
	i.Key = r.Bytes(n)
	return r.Done()
}

// IncrementReply is the answer to an increment; Value has the bits of the sum.
type IncrementReply struct{ Version, Value uint64 }

// Encode appends the body.
func (a *IncrementReply) Encode(to []byte) []byte {
	return order.AppendUint64(order.AppendUint64(to, a.Version), a.Value)
}

// Decode reads the body.
func (a *IncrementReply) Decode(from []byte) error {
	r := NewReader(from)
	a.Version, a.Value = r.U64(), r.U64()
	return r.Done()
}

// MultiKeyed is the body of a multi-read or a multi-delete.
type MultiKeyed struct {
	MaxBytes   uint32
	Operations []Keyed
}

// Encode appends the body.
func (m *MultiKeyed) Encode(to []byte) []byte {
	to = order.AppendUint32(order.AppendUint32(to, uint32(len(m.Operations))), m.MaxBytes)
	for i := range m.Operations {
		to = m.Operations[i].Encode(to)
	}
	return to
}

// Decode reads the body.
func (m *MultiKeyed) Decode(from []byte) error {
	r := NewReader(from)
	n := r.U32()
	m.MaxBytes, m.Operations = r.U32(), nil
	for ; n > 0 && !r.bad; n-- {
		var k Keyed
		k.decode(r)
		m.Operations = append(m.Operations, k)
	}
	return r.Done()
}

// MultiWrite is the body of a multi-write.
type MultiWrite struct {
	MaxBytes   uint32
	Operations []Write
}

// Encode appends the body.
func (m *MultiWrite) Encode(to []byte) []byte {
	to = order.AppendUint32(order.AppendUint32(to, uint32(len(m.Operations))), m.MaxBytes)
	for i := range m.Operations {
		to = m.Operations[i].Encode(to)
	}
	return to
}

// Decode reads the body.
func (m *MultiWrite) Decode(from []byte) error {
	r := NewReader(from)
	n := r.U32()
	m.MaxBytes, m.Operations = r.U32(), nil
	for ; n > 0 && !r.bad; n-- {
		var w Write
		w.decode(r)
		m.Operations = append(m.Operations, w)
	}
	return r.Done()
}

// MultiResult is the outcome of one operation of a multi-operation.
type MultiResult struct {
	Status  uint16
	Version uint64
	Value   []byte
}

// MultiReply answers the first operations of a request; the others were not executed.
type MultiReply struct {
	RetryAfterUS uint32
	Results      []MultiResult
}

// Encode appends the body.
func (a *MultiReply) Encode(to []byte) []byte {
	to = order.AppendUint32(order.AppendUint32(to, uint32(len(a.Results))), a.RetryAfterUS)
	for _, m := range a.Results {
		to = order.AppendUint16(order.AppendUint16(to, m.Status), 0)
		to = order.AppendUint32(to, uint32(len(m.Value)))
		to = append(order.AppendUint64(to, m.Version), m.Value...)
	}
	return to
}

// Decode reads the body.
func (a *MultiReply) Decode(from []byte) error {
	r := NewReader(from)
	n := r.U32()
	a.RetryAfterUS, a.Results = r.U32(), nil
	for ; n > 0 && !r.bad; n-- {
		m := MultiResult{Status: r.U16()}
		r.U16()
		size := int(r.U32())
		m.Version = r.U64()
		m.Value = r.Bytes(size)
		a.Results = append(a.Results, m)
	}
	return r.Done()
}

package plan

import (
	"cmp"
	"slices"
)

// maxRunning is how many running recoveries get a record: all servers of a large cluster may have crashed at
// once.
const maxRunning = 50

// Recovery is the part of a recovery's state that decides about its record.
type Recovery struct {
	ID string
	// Recorded: there is a record. Listed: the coordinator lists it.
	Recorded, Listed bool
	Done             bool
	CrashedMs        int64 // Unix time
}

// History says which recoveries get or keep a record, and which records are deleted. Records of running
// recoveries are kept, and those of the latest finished ones. A record that the limit removed is not created
// again while the coordinator still lists the recovery.
func History(limit int, all []Recovery) (record, remove []string) {
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b Recovery) int { // the latest first
		return cmp.Or(cmp.Compare(b.CrashedMs, a.CrashedMs), cmp.Compare(len(b.ID), len(a.ID)), cmp.Compare(b.ID, a.ID))
	})
	running, done := 0, 0
	for _, r := range all {
		if !r.Done && r.Recorded {
			running++
		}
	}
	for _, r := range all {
		switch {
		case !r.Done && r.Recorded:
			record = append(record, r.ID)
		case !r.Done && running < maxRunning:
			running++
			record = append(record, r.ID)
		case r.Done && done < limit:
			done++
			record = append(record, r.ID)
		case r.Done && r.Recorded:
			remove = append(remove, r.ID)
		}
	}
	return record, remove
}

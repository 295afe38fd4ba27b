package plan

import (
	"cmp"
	"slices"
)

// maxRunning is how many recoveries that are not done get a record: all servers of a large cluster may have crashed at once.
const maxRunning = 50

// Recovery is what matters of one for its record.
type Recovery struct {
	ID string
	// Recorded: there is a record. Listed: the coordinator tells of it.
	Recorded, Listed bool
	Done             bool
	CrashedMs        int64 // Unix time
}

// History says which recoveries get a record or keep it, and which records are deleted: all that are not done and have one
// are kept, and of those that are done the latest. One that is deleted is not recorded again while the coordinator still
// tells of it.
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

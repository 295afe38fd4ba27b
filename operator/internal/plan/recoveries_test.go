package plan

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestHistory(t *testing.T) {
	one := func(id string, at int64, recorded, listed, done bool) Recovery {
		return Recovery{ID: id, CrashedMs: at, Recorded: recorded, Listed: listed, Done: done}
	}
	for name, test := range map[string]struct {
		limit          int
		all            []Recovery
		record, remove []string
	}{
		"the latest that are done": {2, []Recovery{one("1", 10, true, true, true), one("2", 30, true, true, true), one("3", 20, true, true, true)},
			[]string{"2", "3"}, []string{"1"}},
		"those of one moment by their ids":  {1, []Recovery{one("9", 10, true, true, true), one("10", 10, true, true, true)}, []string{"10"}, []string{"9"}},
		"one that is not done, however old": {1, []Recovery{one("1", 10, true, true, false), one("2", 30, true, false, true)}, []string{"2", "1"}, nil},
		"none":                              {0, []Recovery{one("1", 10, true, true, true), one("2", 20, false, true, false)}, []string{"2"}, []string{"1"}},
		"an old one is not recorded again":  {1, []Recovery{one("1", 10, false, true, true), one("2", 20, true, true, true)}, []string{"2"}, nil},
	} {
		record, remove := History(test.limit, test.all)
		if !slices.Equal(record, test.record) || !slices.Equal(remove, test.remove) {
			t.Errorf("%s: record %v, remove %v", name, record, remove)
		}
	}
}

// TestHistoryComesToRest: whatever there is, what was done once is not undone; no record of a recovery that is not done goes;
// and there are never more than the limits.
func TestHistoryComesToRest(t *testing.T) {
	for seed := range uint64(2000) {
		rng := rand.New(rand.NewPCG(seed, 0))
		limit, all := rng.IntN(5), []Recovery(nil)
		for i := range rng.IntN(2 * maxRunning) {
			all = append(all, Recovery{ID: fmt.Sprint(i), CrashedMs: int64(rng.IntN(20)), Recorded: rng.IntN(2) == 0, Done: rng.IntN(3) > 0, Listed: true})
		}
		record, remove := History(limit, all)
		done := 0
		for i := range all {
			r := &all[i]
			if slices.Contains(remove, r.ID) && !r.Done {
				t.Fatalf("seed %d: the record of %+v goes", seed, r)
			}
			if r.Recorded && !slices.Contains(record, r.ID) && !slices.Contains(remove, r.ID) {
				t.Fatalf("seed %d: nobody sees to the record of %+v", seed, r)
			}
			if r.Recorded = slices.Contains(record, r.ID); r.Recorded && r.Done {
				done++
			}
		}
		if done > limit || len(record)-done > maxRunning {
			t.Fatalf("seed %d: %d records of %d, %d done", seed, len(record), len(all), done)
		}
		if again, gone := History(limit, all); !slices.Equal(again, record) || gone != nil {
			t.Fatalf("seed %d: %v, and then %v without %v", seed, record, again, gone)
		}
	}
}

// TestHistoryIsBounded: a cluster of many servers of which all start again.
func TestHistoryIsBounded(t *testing.T) {
	var all []Recovery
	for i := range 10 * maxRunning {
		all = append(all, Recovery{ID: fmt.Sprint(i), Listed: true, CrashedMs: int64(i)})
	}
	if record, _ := History(20, all); len(record) != maxRunning {
		t.Errorf("%d records", len(record))
	}
}

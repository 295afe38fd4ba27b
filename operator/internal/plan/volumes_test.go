package plan

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestWhoIsAskedAbout: only when nothing uses the volume, and by the id that was noted.
func TestWhoIsAskedAbout(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*Observed, *Member)
		want   string
	}{
		"a lost volume":                         {func(*Observed, *Member) {}, "7"},
		"a claim that was deleted":              {func(_ *Observed, m *Member) { m.Volume = VolumeDeleting }, "7"},
		"listed under its id":                   {func(_ *Observed, m *Member) { m.KnownAs = "7" }, "7"},
		"listed under another":                  {func(_ *Observed, m *Member) { m.KnownAs = "8" }, ""},
		"a volume that is there":                {func(_ *Observed, m *Member) { m.Volume = VolumePresent }, ""},
		"one that is gone":                      {func(_ *Observed, m *Member) { m.Volume = VolumeNone }, ""},
		"a server that runs":                    {func(_ *Observed, m *Member) { m.Pod = running() }, ""},
		"a pod that never had the volume":       {func(_ *Observed, m *Member) { m.Pod.Mounted = false }, ""},
		"no pod":                                {func(_ *Observed, m *Member) { m.Pod = Pod{} }, ""},
		"one that the coordinator takes for up": {func(_ *Observed, m *Member) { m.Up = true }, ""},
		"a silent coordinator":                  {func(o *Observed, _ *Member) { o.Connected = false }, ""},
		"a paused cluster":                      {func(o *Observed, _ *Member) { o.Paused = true }, ""},
		"a member of etcd":                      {func(_ *Observed, m *Member) { m.ID.Kind = Etcd }, ""},
	} {
		o, m := Observed{Connected: true}, Member{ID: server(1), ServerID: "7", Volume: VolumeLost, Pod: Pod{Exists: true, Mounted: true}}
		test.change(&o, &m)
		if got := WantsRelease(o, m); got != test.want {
			t.Errorf("%s: asked about %q, want %q", name, got, test.want)
		}
	}
}

// TestFormerClaims: each goes with the coordinator's word on its own id, whatever its server does now.
func TestFormerClaims(t *testing.T) {
	kept := "volume claim data-x, which server 0 had before, is kept: "
	for name, test := range map[string]struct {
		change func(*Observed, *Claim)
		why    string
		again  bool
	}{
		"released": {func(*Observed, *Claim) {}, "", false},
		"not released": {func(_ *Observed, c *Claim) {
			c.Release = Release{ServerID: "7", Reason: "3 segments have too few replicas elsewhere"}
		}, "the coordinator does not release it (server id 7): 3 segments have too few replicas elsewhere", true},
		"the release of another": {func(_ *Observed, c *Claim) { c.Release.ServerID = "10" }, "the coordinator was not asked yet", false},
		"a silent coordinator":   {func(o *Observed, _ *Claim) { o.Connected = false }, "the coordinator, which says whether its replicas are needed, does not answer", false},
		"no id":                  {func(_ *Observed, c *Claim) { c.ServerID = "" }, "it is not known under which id a server used it, so the coordinator cannot be asked; if nothing on it is needed, remove its finalizers", false},
		"never a volume":         {func(_ *Observed, c *Claim) { c.ServerID, c.Bound = "", false }, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			o := Observed{Now: now, Wanted: 1, Coordinators: 1, CoordinatorVolume: true, Connected: true, Members: made(running())}
			c := Claim{Generation: 1, Name: "data-x", State: VolumeLost, Bound: true, ServerID: "7", Release: Release{ServerID: "7", Releasable: true}}
			test.change(&o, &c)
			o.Members[1].Generation, o.Members[1].Retired = 2, []Claim{c}
			want := Decision{Servers: []int32{0}}
			if test.why == "" {
				want.Release = []Released{{server(0), 1}}
			} else {
				want.VolumesLost = []string{kept + test.why}
			}
			if test.again {
				want.Again = AskReleaseAgain
			}
			if diff := cmp.Diff(want, Decide(o)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestEnlisted(t *testing.T) {
	former := []Claim{{Generation: 1, ServerID: "5"}}
	for _, test := range []struct {
		name, noted string
		retired     []Claim
		listed      string
		up          bool
		want        string
	}{
		{"the first time", "", nil, "3", true, "3"},
		{"of a crashed one nobody knows which volume it had", "", nil, "3", false, ""},
		{"it started again", "3", nil, "12", true, "12"},
		{"and crashed since", "3", nil, "12", false, "12"},
		{"an earlier one is still listed", "12", nil, "3", false, "12"},
		{"what is listed had the former claim", "", former, "5", false, ""},
		{"and is taken for up by a coordinator that is behind", "", former, "5", true, ""},
		{"what is listed is later", "", former, "7", false, "7"},
		{"nothing is listed", "3", former, "", false, "3"},
	} {
		if got := Enlisted(test.noted, test.retired, test.listed, test.up); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

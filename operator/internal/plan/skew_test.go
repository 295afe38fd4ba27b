package plan

import (
	"strings"
	"testing"
)

func TestVersions(t *testing.T) {
	for text, want := range map[string]string{
		"0.1.0": "0.1", "v3.5.17": "3.5", "1.20.3-12-gabcdef0": "1.20", "2.0.0+build": "2.0", "10.0.0-rc.1": "10.0",
		"": "", "test": "", "1": "", "1.2": "", "1.2.3.4": "", "1.2.x": "", "-1.2.3": "", "1.2.3999999999": "", "vv1.2.3": "",
	} {
		v, known := ParseVersion(text)
		if known != (want != "") || known && v.String() != want {
			t.Errorf("%q is %s, %t", text, v, known)
		}
	}
	for image, want := range map[string]string{
		"ramcloud/node:0.1.0": "0.1", "registry.example:5000/ramcloud/node:v0.2.1": "0.2", "registry.example:5000/node": "",
		"node@sha256:1.2.3": "", "node:0.3.0@sha256:ab": "0.3", "node": "", "": "",
	} {
		v, known := ImageVersion(image)
		if known != (want != "") || known && v.String() != want {
			t.Errorf("%q is %s, %t", image, v, known)
		}
	}
}

func TestSkew(t *testing.T) {
	node := func(tag string) string { return "registry.example:5000/ramcloud/node:" + tag }
	process := func(name, tag, says string) Process { return Process{Name: name, Image: node(tag), Says: says} }
	one := Running{Operator: "0.2.0", Processes: map[Kind][]Process{
		Coordinator: {process("c-0", "0.1.0", "")}, Server: {process("s-0", "0.1.0", "0.1.0"), process("s-1", "0.1.3", "0.1.3")},
		Etcd: {{Name: "e-0", Image: "quay.io/coreos/etcd:v3.5.1"}, {Name: "e-1", Image: "quay.io/coreos/etcd:v3.6.1"}},
	}}
	with := func(change func(*Running)) Running {
		r := one
		r.Processes = map[Kind][]Process{}
		for kind, list := range one.Processes {
			r.Processes[kind] = append([]Process(nil), list...)
		}
		change(&r)
		return r
	}
	newOperator := with(func(r *Running) { r.Operator = "0.3.0" })
	others := with(func(r *Running) { r.Processes[Server][0].Image = node("7.0.1") })
	mixed := with(func(r *Running) {
		r.Processes[Coordinator] = append(r.Processes[Coordinator], process("c-1", "0.2.0", ""))
	})
	done := with(func(r *Running) { r.Processes[Coordinator] = []Process{process("c-0", "0.2.0", "")} })
	says := with(func(r *Running) {
		r.Processes[Server] = []Process{{Name: "s-0", Image: "node@sha256:ab", Says: "0.0.9"}}
	})
	for name, c := range map[string]struct {
		running        Running
		kind           Kind
		image          string
		refused, waits string
	}{
		"the next version of coordinators":  {one, Coordinator, node("0.2.0"), "", ""},
		"a patch":                           {one, Coordinator, node("0.1.9"), "", ""},
		"servers before coordinators":       {one, Server, node("0.2.0"), "", "c-0 is still version 0.1, and coordinators go before servers"},
		"servers before one coordinator":    {mixed, Server, node("0.2.0"), "", "c-0 is still version 0.1"},
		"servers after coordinators":        {done, Server, node("0.2.0"), "", ""},
		"servers beside them":               {done, Server, node("0.1.0"), "", ""},
		"two versions at once":              {newOperator, Coordinator, node("0.3.0"), "only a version and the one before may run at the same time: c-0 is version 0.1; s-0 is version 0.1; s-1 is version 0.1", ""},
		"a later version than the operator": {one, Coordinator, node("0.3.0"), "the operator 0.2 supports only its own version and the one before", ""},
		"too old for the operator":          {newOperator, Server, node("0.1.0"), "the operator 0.3 supports only", ""},
		"another major version":             {with(func(r *Running) { r.Operator = "1.0.0" }), Coordinator, node("1.0.0"), "only a version and the one before", ""},
		"no version":                        {one, Coordinator, node("latest-build"), "", ""},
		"an operator without a version":     {with(func(r *Running) { r.Operator = "0.0.0-unknown" }), Coordinator, node("0.2.0"), "", ""},
		"tags that are no versions":         {others, Coordinator, node("8.0.0"), "", ""},
		"what a process says counts":        {says, Coordinator, node("0.2.0"), "s-0 is version 0.0", ""},
		"etcd goes up":                      {one, Etcd, "quay.io/coreos/etcd:v3.6.4", "", ""},
		"etcd goes up twice":                {one, Etcd, "quay.io/coreos/etcd:v3.7.0", "members of etcd go up by one minor version at a time, never down: e-0 is version 3.5", ""},
		"etcd goes down":                    {one, Etcd, "quay.io/coreos/etcd:v3.5.9", "e-1 is version 3.6", ""},
		"another image of etcd":             {one, Etcd, "ramcloud/etcd:0.1.0", "", ""},
	} {
		refused, waits := c.running.Skew(c.kind, c.image)
		if !strings.Contains(refused, c.refused) || !strings.Contains(waits, c.waits) || (refused == "") != (c.refused == "") || (waits == "") != (c.waits == "") {
			t.Errorf("%s: refused %q, waits %q", name, refused, waits)
		}
	}
}

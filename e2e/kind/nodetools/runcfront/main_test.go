package main

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestWithheldNamesBitsOutsideTheBoundingSet(t *testing.T) {
	missing, err := withheld("Name:\tx\nCapBnd:\t000001fffeffffff\n")
	if err != nil || len(missing) != 1 || !missing["CAP_SYS_RESOURCE"] {
		t.Fatalf("got %v, %v; want only CAP_SYS_RESOURCE (bit 24)", missing, err)
	}
	if missing, err = withheld("CapBnd:\t000001ffffffffff\n"); err != nil || len(missing) != 0 {
		t.Fatalf("full bounding set: got %v, %v", missing, err)
	}
	if _, err = withheld("Name:\tx\n"); err == nil {
		t.Fatal("a status without CapBnd was accepted")
	}
	if _, err = withheld("CapBnd:\tzz\n"); err == nil {
		t.Fatal("a CapBnd that is not hexadecimal was accepted")
	}
}

func TestRequestFindsTheFileOfTheProcess(t *testing.T) {
	for _, c := range []struct {
		args      string
		file      string
		isProcess bool
	}{
		{"--root /r create --bundle /b id", "/b/config.json", false},
		{"--root /r create --bundle=/b id", "/b/config.json", false},
		{"run -b /b id", "/b/config.json", false},
		{"create id", "config.json", false},
		{"exec --process /p.json id", "/p.json", true},
		{"exec id ls", "", true},
		{"delete --force id", "", false},
		{"state id", "", false},
	} {
		file, isProcess := request(strings.Fields(c.args))
		if file != filepath.FromSlash(c.file) || isProcess != c.isProcess {
			t.Errorf("%q: got %q, %v; want %q, %v", c.args, file, isProcess, c.file, c.isProcess)
		}
	}
}

func TestStripTakesOutOnlyMissingCapabilities(t *testing.T) {
	missing := map[string]bool{"CAP_SYS_RESOURCE": true}
	spec := `{"process":{"capabilities":{"bounding":["CAP_CHOWN","CAP_SYS_RESOURCE"]},"oomScoreAdj":-999},"hostname":"n"}`
	got, err := strip([]byte(spec), false, missing)
	want := `{"hostname":"n","process":{"capabilities":{"bounding":["CAP_CHOWN"]},"oomScoreAdj":-999}}`
	if err != nil || string(got) != want {
		t.Fatalf("got %s, %v\nwant %s", got, err, want)
	}
	got, err = strip([]byte(`{"capabilities":{"effective":["CAP_SYS_RESOURCE"]},"args":["sh"]}`), true, missing)
	if err != nil || string(got) != `{"args":["sh"],"capabilities":{"effective":[]}}` {
		t.Fatalf("exec: got %s, %v", got, err)
	}
	if got, err = strip([]byte(`{"hostname":"n"}`), false, missing); err != nil || string(got) != `{"hostname":"n"}` {
		t.Fatalf("a spec without a process: got %s, %v", got, err)
	}
	if _, err = strip([]byte(`{`), false, missing); err == nil {
		t.Fatal("cut JSON was accepted")
	}
}

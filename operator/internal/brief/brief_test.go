package brief

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

// A multi-byte character is not cut.
func TestClip(t *testing.T) {
	for text, want := range map[string]string{"": "", "0123456789": "0123456789", "0123456789a": "0123456…", "012345äöü": "012345…", "ääääää": "äää…"} {
		got := Clip(text, 10)
		if got != want || len(got) > 10 || !utf8.ValidString(got) {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
}

func TestList(t *testing.T) {
	var items []string
	for i := range 152 {
		items = append(items, fmt.Sprint(i))
	}
	for n, want := range map[int]string{0: "", 1: "0", 5: "0, 1, 2, 3, 4", 6: "0, 1, 2, 3, 4, … and 1 more", 152: "0, 1, 2, 3, 4, … and 147 more"} {
		if got := List(items[:n], ", "); got != want {
			t.Errorf("%d items: %q, want %q", n, got, want)
		}
	}
	for i := range items {
		items[i] = strings.Repeat("x", 10_000)
	}
	if got := List(items, "; "); len(got) > Message {
		t.Errorf("%d bytes", len(got))
	}
}

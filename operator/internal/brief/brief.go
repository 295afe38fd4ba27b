// Package brief keeps texts below the limits of the Kubernetes API, and readable (the bounded-text rule).
package brief

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

const (
	// Message is how long a condition's message, or another text of a status, may be. The API allows 32,768 bytes.
	Message = 4096
	// Note is how long an event's note may be. The API allows 1,024 bytes.
	Note = 1000
	// item is how long one item of a list may be, and most is how many are written.
	item = 500
	most = 5
)

// Clip cuts a text that is longer than limit bytes.
func Clip(text string, limit int) string {
	const mark = "…"
	if len(text) <= limit {
		return text
	}
	cut := limit - len(mark)
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + mark
}

// List joins the first items, and says how many more there are.
func List(items []string, separator string) string {
	shown := make([]string, 0, most+1)
	for _, text := range items[:min(len(items), most)] {
		shown = append(shown, Clip(text, item))
	}
	if more := len(items) - most; more > 0 {
		shown = append(shown, fmt.Sprintf("… and %d more", more))
	}
	return strings.Join(shown, separator)
}

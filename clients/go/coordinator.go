package client

import (
	"context"
	"errors"
	"slices"
	"strings"

	"ramcloud.dev/client/internal/wire"
)

// control calls the coordinator of this client's cluster.
func (c *Client) control(ctx context.Context, op wire.Opcode, body, answer wire.Control, again repeat) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	if err := c.introduce(ctx); err != nil {
		return err
	}
	return c.ask(ctx, op, body, answer, again)
}

// introduce learns the cluster's UUID, once. From then on servers of another cluster, perhaps re-created at
// the same addresses, are refused: the cached tables would be wrong there, because table ids are reused.
func (c *Client) introduce(ctx context.Context) error {
	c.mutex.Lock()
	known := c.cluster != (uuid{})
	c.mutex.Unlock()
	if known {
		return nil
	}
	info, err := c.Info(ctx)
	if err != nil {
		return err
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.cluster == (uuid{}) { // the first of several answers counts
		c.cluster = info.ClusterUUID
	}
	return nil
}

// repeat says whether a call may be sent again when its reply was lost.
type repeat int

const (
	unsafe     repeat = iota
	idempotent        // a repeated call gives the same answer; without an answer, it may have happened
	safe              // it changes nothing
)

// ask calls the coordinator, trying each address, until the deadline.
func (c *Client) ask(ctx context.Context, op wire.Opcode, body, answer wire.Control, again repeat) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	r := request{op: op, control: body, repeatable: again != unsafe}
	maybeDone := false
	strangers := map[string]bool{} // addresses at which another cluster answered
	for number, wait := 0, firstWait; ; number, wait = number+1, min(2*wait, lastWait) {
		asked := c.coordinator()
		last := c.attempt(ctx, number, place{address: asked}, r, answer.DecodeIn)
		if CodeOf(last) == WrongCluster {
			// A single address may have been reused; only if all addresses belong to another cluster, it is another
			// cluster.
			if strangers[asked] = true; slices.ContainsFunc(c.coordinators, func(a string) bool { return !strangers[a] }) {
				last = notThere(last)
			}
		}
		maybeDone = maybeDone || again == idempotent && mayHaveHappened(last)
		if more, err := retry(last, r.repeatable); !more {
			if code := CodeOf(err); maybeDone && (code == Cancelled || code == ProtocolError) {
				return unknown(asked, last)
			}
			return err
		}
		c.askAnother(asked, last)
		if !pause(ctx, wait, last) {
			if maybeDone {
				return unknown(asked, last)
			}
			return c.nobodyLed(ctx, last)
		}
	}
}

// unknown is the error of a call that was sent but never answered.
func unknown(asked string, last error) error {
	return failure(Indeterminate, "coordinator %s: the reply was lost (%v); it may or may not have happened", asked, last)
}

// nobodyLed is outOfTime for coordinators: even one that answers RETRY does not lead.
func (c *Client) nobodyLed(ctx context.Context, last error) error {
	code := Unavailable
	if errors.Is(ctx.Err(), context.Canceled) {
		code = Cancelled
	}
	return failure(code, "no leading coordinator answered in time at %s; the last said: %v",
		strings.Join(c.coordinators, ", "), last)
}

// coordinator is the address to ask.
func (c *Client) coordinator() string {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.redirected != "" {
		return c.redirected
	}
	return c.coordinators[c.leader]
}

// askAnother is called when an address gave no answer. The next address is the leader that a standby named,
// otherwise the next of our list. It has no effect if another call was faster.
func (c *Client) askAnother(asked string, err error) {
	if CodeOf(err) == Retry {
		return
	}
	var e *Error
	named := ""
	if errors.As(err, &e) && e.Code == NotLeader {
		named = leaderOf(e)
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	switch {
	case c.redirected != "" && asked != c.redirected, c.redirected == "" && asked != c.coordinators[c.leader]:
		return
	case named != "" && named != asked:
		c.redirected = named
		if known := slices.Index(c.coordinators, named); known >= 0 {
			c.redirected, c.leader = "", known
		}
	default:
		c.redirected = ""
		c.leader = (c.leader + 1) % len(c.coordinators)
	}
}

// leaderOf is the leader's address in a NotLeader error: in its details or, from coordinators of earlier
// versions, in the text of its message.
func leaderOf(e *Error) string {
	for _, locator := range []string{e.details.Leader, e.details.LeaderOutside} {
		if address, err := parseLocator(locator); err == nil {
			return address
		}
	}
	return leaderIn(e.Message)
}

// leaderIn finds the leader's address in the message of a NotLeader error: a word that is a locator.
func leaderIn(message string) string {
	for word := range strings.FieldsSeq(message) {
		if address, err := parseLocator(strings.TrimRight(word, ".,;'")); err == nil {
			return address
		}
	}
	return ""
}

package client

import (
	"context"
	"errors"
	"slices"
	"strings"

	"ramcloud.dev/operator/internal/wire"
)

// control calls the coordinator of the cluster that this client is of.
func (c *Client) control(ctx context.Context, op wire.Opcode, body encoder, answer decoder, repeatable bool) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	if err := c.introduce(ctx); err != nil {
		return err
	}
	return c.ask(ctx, op, body, answer, repeatable)
}

// introduce learns, once, which cluster this is: whoever is of another one, made anew at the same addresses
// perhaps, is refused from then on. What we know of tables would be wrong there, and their ids are used again.
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

// ask calls the coordinator, trying each address, until the deadline. repeatable says whether a call whose reply
// was lost may be sent again.
func (c *Client) ask(ctx context.Context, op wire.Opcode, body encoder, answer decoder, repeatable bool) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	r := request{op: op, body: body.Encode(nil), repeatable: repeatable}
	strangers := map[string]bool{} // addresses at which another cluster answered
	for number, wait := 0, firstWait; ; number, wait = number+1, min(2*wait, lastWait) {
		asked := c.coordinator()
		last := c.attempt(ctx, number, place{address: asked}, r, answer)
		if CodeOf(last) == WrongCluster {
			// One address may have been given away; all of them belong to another cluster only if it is another one.
			if strangers[asked] = true; slices.ContainsFunc(c.coordinators, func(a string) bool { return !strangers[a] }) {
				last = notThere(last)
			}
		}
		if again, err := retry(last, repeatable); !again {
			return err
		}
		c.askAnother(asked, last)
		if !pause(ctx, wait, last) {
			return c.nobodyLed(ctx, last)
		}
	}
}

// nobodyLed is outOfTime for the coordinator: even one that says RETRY has not been able to lead.
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

// askAnother is called when an address gave no answer: the leader that a coordinator on standby has
// named is next, else the next of our list. It has no effect when another call has been quicker.
func (c *Client) askAnother(asked string, err error) {
	if CodeOf(err) == Retry {
		return
	}
	var e *Error
	named := ""
	if errors.As(err, &e) && e.Code == NotLeader {
		named = leaderIn(e.Message)
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

// leaderIn finds the leader's address in the message of a NotLeader error: a word that is a locator.
func leaderIn(message string) string {
	for word := range strings.FieldsSeq(message) {
		if address, err := parseLocator(strings.TrimRight(word, ".,;'")); err == nil {
			return address
		}
	}
	return ""
}

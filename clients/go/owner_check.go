package client

import (
	"context"
	"errors"
	"time"

	"ramcloud.dev/client/internal/wire"
)

// How a client handles a server that does not answer. A suspended server keeps its connections, so the client
// does not notice that other servers own its tablets now. The client asks the coordinator for the owners, and
// ends the call when the server owns none of them any more. Whether the call is repeated at the new owner is
// decided as after a lost reply (retry). Until then the call waits: the server may be slow, and giving up a
// change makes its outcome unknown.

const (
	// How long a server may be silent before the coordinator is asked; doubled each time, up to four times as
	// long.
	firstOwnerCheck = time.Second
	// How long to wait for the coordinator; after further silence it is asked again.
	questionTime = time.Second
)

// tabletKey identifies the tablet that is called.
type tabletKey struct{ tableID, hash uint64 }

// errGivenUp ends a call whose server owns none of its tablets any more.
var errGivenUp = errors.New("the server was given up")

// askOwner is attempt at a tablet's owner, whose ownership is checked while it is silent. tablets are those
// of the call. The timer costs half a microsecond for an answered change; no goroutine runs before it fires.
func (c *Client) askOwner(ctx context.Context, number int, at place, r request, decode decode, tablets []tabletKey) error {
	if r.repeatable && patience(number) <= c.ownerCheckAfter {
		return c.attempt(ctx, number, at, r, decode) // it ends before that, and then asks for a new map
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := time.AfterFunc(c.ownerCheckAfter, func() { c.checkOwner(ctx, cancel, at.serverID, tablets) })
	defer timer.Stop()
	err := c.attempt(ctx, number, at, r, decode)
	var e *Error
	if !errors.As(err, &e) || e.Code != Cancelled || !errors.Is(context.Cause(ctx), errGivenUp) {
		return err
	}
	lost := failure(ConnectionLost, "server %d was given up: it does not answer, and the coordinator says that it does"+
		" not have the tablet any more", at.serverID)
	lost.notSent = e.notSent
	return lost
}

// checkOwner asks the coordinator until the call is over, or the server owns none of its tablets.
func (c *Client) checkOwner(ctx context.Context, giveUp context.CancelCauseFunc, serverID uint64, tablets []tabletKey) {
	for wait := c.ownerCheckAfter; ctx.Err() == nil; {
		if !c.ownsOne(ctx, serverID, tablets) {
			giveUp(errGivenUp)
			return
		}
		wait = min(2*wait, 4*c.ownerCheckAfter)
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// ownsOne finds out whether a server still owns one of the tablets. It asks for each table at most once, and
// not if the known map shows already that the server lost the tablet.
func (c *Client) ownsOne(ctx context.Context, serverID uint64, tablets []tabletKey) bool {
	asked := map[uint64]bool{}
	for _, tablet := range tablets {
		if c.owns(serverID, tablet) && !asked[tablet.tableID] {
			asked[tablet.tableID] = true
			question, cancel := context.WithTimeout(ctx, questionTime)
			_, _ = c.refresh(question, tablet.tableID) // a failed request does not tell the owner
			cancel()
		}
		if c.owns(serverID, tablet) {
			return true
		}
	}
	return false
}

// owns answers by the known map. A dropped table has no owners.
func (c *Client) owns(serverID uint64, key tabletKey) bool {
	c.mutex.Lock()
	table := c.tables[key.tableID]
	c.mutex.Unlock()
	if table == nil {
		return false
	}
	tablet := tabletOf(table, key.hash)
	return tablet.ServerID == serverID && tablet.State != wire.TabletUnavailable
}

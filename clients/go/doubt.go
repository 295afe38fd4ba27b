package client

import (
	"context"
	"errors"
	"time"

	"ramcloud.dev/client/internal/wire"
)

// What a client does about a server that does not answer: a suspended one keeps its connections, so nothing tells
// the client that others have its tablets. It asks the coordinator who has them, and ends the call when the server has
// none of them any more; whether it is made again at the new owner is decided like after a lost reply (retry). While
// the coordinator says nothing else, the call waits: a server may be slow, and to give up a change makes its outcome
// unknown.

const (
	// How long a server is silent before its tablets are doubted; doubled each time, up to four times as long.
	firstDoubt = time.Second
	// A coordinator that takes longer has said nothing; the next silence asks again.
	questionTime = time.Second
)

// tabletKey is whose tablet is called.
type tabletKey struct{ tableID, hash uint64 }

// errGivenUp ends a call whose server has none of its tablets any more.
var errGivenUp = errors.New("the server was given up")

// askOwner is attempt at a tablet's owner, doubted while it is silent. tablets are those of the call. The timer costs
// a change that is answered half a microsecond; no goroutine runs before it fires.
func (c *Client) askOwner(ctx context.Context, number int, at place, r request, decode decode, tablets []tabletKey) error {
	if r.repeatable && patience(number) <= c.doubtAfter {
		return c.attempt(ctx, number, at, r, decode) // it ends by then, and a new map is asked for
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := time.AfterFunc(c.doubtAfter, func() { c.doubt(ctx, cancel, at.serverID, tablets) })
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

// doubt asks until the call is over, or the server is found to have none of its tablets.
func (c *Client) doubt(ctx context.Context, giveUp context.CancelCauseFunc, serverID uint64, tablets []tabletKey) {
	for wait := c.doubtAfter; ctx.Err() == nil; {
		if !c.ownsOne(ctx, serverID, tablets) {
			giveUp(errGivenUp)
			return
		}
		wait = min(2*wait, 4*c.doubtAfter)
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// ownsOne finds out whether a server has one of the tablets still. Each table is asked for once at most, and not at
// all when what is known says already that the server lost the tablet.
func (c *Client) ownsOne(ctx context.Context, serverID uint64, tablets []tabletKey) bool {
	asked := map[uint64]bool{}
	for _, tablet := range tablets {
		if c.owns(serverID, tablet) && !asked[tablet.tableID] {
			asked[tablet.tableID] = true
			question, cancel := context.WithTimeout(ctx, questionTime)
			_, _ = c.refresh(question, tablet.tableID) // a failure says nothing of the owner
			cancel()
		}
		if c.owns(serverID, tablet) {
			return true
		}
	}
	return false
}

// owns, as far as is known. A table that was dropped has no owners.
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

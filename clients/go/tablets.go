package client

import (
	"context"
	"fmt"
	"math"
	"sort"
	"strconv"

	"ramcloud.dev/client/internal/wire"
)

// place is a server's id and address.
type place struct {
	address  string
	serverID uint64
}

// remember caches a table's tablets, if they cover every hash once.
func (c *Client) remember(table *Table) error {
	if err := checkMap(table); err != nil {
		return err
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.tables[table.ID] = table
	return nil
}

// checkMap checks that the tablets are in order and cover every hash once.
func checkMap(table *Table) error {
	covered, next := false, uint64(0) // covered: up to the last hash
	for _, tablet := range table.Tablets {
		if covered || tablet.StartHash != next || tablet.EndHash < tablet.StartHash {
			return failure(ProtocolError, "table %d: the coordinator's tablets overlap or leave a gap at hash %016x", table.ID, next)
		}
		covered, next = tablet.EndHash == math.MaxUint64, tablet.EndHash+1
	}
	if !covered {
		return failure(ProtocolError, "table %d: the coordinator's tablets do not reach the last hash", table.ID)
	}
	return nil
}

func (c *Client) forget(tableID uint64) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	delete(c.tables, tableID)
}

// table returns a table's tablets. stale is the map that was wrong, nil if none was tried: the coordinator is
// asked only if that is still the cached map. While the coordinator does not answer, the cached map is used.
// If the table does not exist, or the coordinators belong to another cluster, the call ends.
func (c *Client) table(ctx context.Context, id uint64, stale *Table) (*Table, error) {
	c.mutex.Lock()
	known := c.tables[id]
	c.mutex.Unlock()
	if known != nil {
		if known != stale {
			return known, nil
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, firstPatience)
		defer cancel()
	}
	table, err := c.refresh(ctx, id)
	switch code := CodeOf(err); {
	case err == nil:
		return table, nil
	case code == NotFound, code == WrongCluster:
		return nil, err
	case known != nil:
		return known, nil
	}
	return nil, err
}

// refresh asks the coordinator for a table's tablets, with one request for all concurrent callers. The
// request has the deadline of the call that began it; a call with more time asks again.
func (c *Client) refresh(ctx context.Context, id uint64) (*Table, error) {
	for {
		mine := false
		flight := c.refreshing.DoChan(strconv.FormatUint(id, 10), func() (any, error) {
			mine = true
			ctx, cancel := sameDeadline(c.alive, ctx)
			defer cancel()
			return c.askForTable(ctx, id)
		})
		select {
		case <-ctx.Done():
			return nil, c.nobodyLed(ctx, failure(Unavailable, "nothing yet"))
		case result := <-flight:
			err := result.Err
			if err == nil {
				return result.Val.(*Table), nil
			}
			if code := CodeOf(err); mine || (code != Unavailable && code != Cancelled) || ctx.Err() != nil || c.alive.Err() != nil {
				return nil, err
			}
		}
	}
}

func (c *Client) askForTable(ctx context.Context, id uint64) (*Table, error) {
	answer := &Table{}
	err := c.control(ctx, wire.OpGetTable, &wire.GetTable{ID: id}, answer, safe)
	if CodeOf(err) == NotFound {
		c.forget(id)
	}
	if err == nil {
		err = c.remember(answer)
	}
	if err != nil {
		return nil, err
	}
	return answer, nil
}

// sameDeadline is a child of parent with the deadline of another context, but without that one's
// cancellation.
func sameDeadline(parent, other context.Context) (context.Context, context.CancelFunc) {
	if deadline, ok := other.Deadline(); ok {
		return context.WithDeadline(parent, deadline)
	}
	return context.WithCancel(parent)
}

// tabletOf finds the tablet of a hash; checkMap has checked that there is one.
func tabletOf(table *Table, hash uint64) *wire.Tablet {
	return &table.Tablets[sort.Search(len(table.Tablets), func(i int) bool { return table.Tablets[i].EndHash >= hash })]
}

// reach returns the address of a tablet's server, or why it cannot be called now.
func reach(tablet *wire.Tablet) (place, error) {
	if tablet.State == wire.TabletCreating {
		return place{}, failure(Unavailable, "the tablet is being created")
	}
	if tablet.State != wire.TabletNormal || tablet.Locator == "" {
		return place{}, failure(Unavailable, "the tablet's server %d is dead", tablet.ServerID)
	}
	address, err := parseLocator(tablet.Locator)
	if err != nil {
		return place{}, failure(Unavailable, "the tablet's server %d cannot be called: %v", tablet.ServerID, err)
	}
	return place{address, tablet.ServerID}, nil
}

// where names a tablet in an error.
func where(table *Table, tablet *wire.Tablet) string {
	return fmt.Sprintf("table '%s' (id %d), tablet %016x-%016x of server %d",
		table.Name, table.ID, tablet.StartHash, tablet.EndHash, tablet.ServerID)
}

// tabletCall is a call to the server that owns the tablet of a hash.
type tabletCall struct {
	request
	tableID, hash uint64
	only          uint64 // not 0: Unavailable if another server owns the tablet
}

// data calls the server that owns a hash, until the deadline.
func (c *Client) data(ctx context.Context, tableID, hash uint64, op wire.Opcode, body encoder, answer decoder, repeatable bool) error {
	_, err := c.callTablet(ctx, tabletCall{request{op: op, body: body.Encode(nil), repeatable: repeatable}, tableID, hash, 0}, answer)
	return err
}

// callTablet makes a call, with retries until the deadline, and returns the id of the server that answered. A
// failure to find the owner does not mean that the call itself was executed.
func (c *Client) callTablet(ctx context.Context, call tabletCall, answer decoder) (uint64, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	var stale *Table
	for number, wait := 0, firstWait; ; number, wait = number+1, min(2*wait, lastWait) {
		table, err := c.table(ctx, call.tableID, stale)
		if err != nil {
			return 0, err
		}
		tablet := tabletOf(table, call.hash)
		if call.only != 0 && tablet.ServerID != call.only {
			return 0, failure(Unavailable, "%s: the tablet moved during the scan; start the scan again", where(table, tablet))
		}
		at, err := reach(tablet)
		if err == nil {
			tablets := []tabletKey{{call.tableID, call.hash}}
			err = notThere(c.askOwner(ctx, number, at, call.request, inAnyVersion(answer), tablets))
		}
		if again, result := retry(err, call.repeatable); !again {
			return at.serverID, result
		}
		if !pause(ctx, wait, err) {
			return 0, outOfTime(ctx, err, where(table, tablet))
		}
		stale = nil
		if wantsNewMap(err, number, number) {
			stale = table
		}
	}
}

package client

import (
	"context"
	"fmt"
	"sort"

	"ramcloud.dev/operator/internal/wire"
)

// place is a server where it can be called.
type place struct {
	address  string
	serverID uint64
}

func (c *Client) remember(table *Table) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.tables[table.ID] = table
}

func (c *Client) forget(tableID uint64) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	delete(c.tables, tableID)
}

// table gives a table's tablets. refresh asks the coordinator even if they are known; while it cannot be asked,
// what is known still serves.
func (c *Client) table(ctx context.Context, id uint64, refresh bool) (*Table, error) {
	c.mutex.Lock()
	known := c.tables[id]
	c.mutex.Unlock()
	if known != nil {
		if !refresh {
			return known, nil
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, firstPatience)
		defer cancel()
	}
	answer := &Table{}
	err := c.control(ctx, wire.OpGetTable, &wire.GetTable{ID: id}, answer, true)
	switch {
	case err == nil:
		c.remember(answer)
		return answer, nil
	case CodeOf(err) == NotFound:
		c.forget(id)
	case known != nil:
		return known, nil
	}
	return nil, err
}

// tabletOf finds the tablet in which a hash lies.
func tabletOf(table *Table, hash uint64) (*wire.Tablet, error) {
	i := sort.Search(len(table.Tablets), func(i int) bool { return table.Tablets[i].EndHash >= hash })
	if i == len(table.Tablets) || table.Tablets[i].StartHash > hash {
		return nil, failure(ProtocolError, "the coordinator gave no tablet of table %d for hash %d", table.ID, hash)
	}
	return &table.Tablets[i], nil
}

// reach says where a tablet's server can be called, or why it cannot be now.
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

// data calls the server that owns a hash, until the deadline. What fails in asking which one that is says
// nothing about the call itself.
func (c *Client) data(ctx context.Context, tableID, hash uint64, op wire.Opcode, body encoder, answer decoder, repeatable bool) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	r := request{op: op, body: body.Encode(nil), repeatable: repeatable}
	refresh := false
	for number, wait := 0, firstWait; ; number, wait = number+1, min(2*wait, lastWait) {
		table, err := c.table(ctx, tableID, refresh)
		if err != nil {
			return err
		}
		tablet, err := tabletOf(table, hash)
		if err != nil {
			return err
		}
		at, err := reach(tablet)
		if err == nil {
			err = c.attempt(ctx, number, at, r, answer)
		}
		again, result := retry(err, repeatable)
		if !again {
			return result
		}
		if !pause(ctx, wait, err) {
			return outOfTime(ctx, err, where(table, tablet))
		}
		refresh = wantsNewMap(err, number)
	}
}

package client

import (
	"context"
	"fmt"
	"sort"

	"ramcloud.dev/operator/internal/wire"
)

func (c *Client) remember(table *Table) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.tables[table.ID] = table
}

// tablet finds where a hash of a table lies. refresh asks the coordinator even if it is known.
func (c *Client) tablet(ctx context.Context, tableID, hash uint64, refresh bool) (*wire.Tablet, string, error) {
	c.mutex.Lock()
	table := c.tables[tableID]
	c.mutex.Unlock()
	if table == nil || refresh {
		answer := &Table{}
		if err := c.control(ctx, wire.OpGetTable, &wire.GetTable{ID: tableID}, answer, true); err != nil {
			return nil, "", err
		}
		c.remember(answer)
		table = answer
	}
	i := sort.Search(len(table.Tablets), func(i int) bool { return table.Tablets[i].EndHash >= hash })
	if i == len(table.Tablets) || table.Tablets[i].StartHash > hash {
		return nil, "", failure(ProtocolError, "the coordinator gave no tablet of table %d for hash %d", tableID, hash)
	}
	tablet := &table.Tablets[i]
	if tablet.State == wire.TabletCreating {
		return nil, "", failure(Unavailable, "table '%s', tablet %d to %d is being created",
			table.Name, tablet.StartHash, tablet.EndHash)
	}
	if tablet.State != wire.TabletNormal || tablet.Locator == "" {
		return nil, "", failure(Unavailable, "table '%s', tablet %d to %d: its server %d is dead",
			table.Name, tablet.StartHash, tablet.EndHash, tablet.ServerID)
	}
	address, err := parseLocator(tablet.Locator)
	return tablet, address, err
}

// data calls the server that owns a hash, until the deadline.
func (c *Client) data(ctx context.Context, tableID, hash uint64, op wire.Opcode, request encoder, answer decoder, repeatable bool) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	body := request.Encode(nil)
	refresh := false
	for wait := firstWait; ; wait = min(2*wait, lastWait) {
		tablet, address, err := c.tablet(ctx, tableID, hash, refresh)
		if err == nil {
			err = c.once(ctx, address, tablet.ServerID, op, body, answer)
		} else if code := CodeOf(err); code == DeadlineExceeded || code == Cancelled {
			return err // asking where to send it is not the operation
		}
		again, result := retry(err, repeatable)
		if !again {
			return result
		}
		if !pause(ctx, wait, err) {
			return outOfTime(ctx, err, fmt.Sprintf("table %d", tableID))
		}
		refresh = CodeOf(err) != Retry
	}
}

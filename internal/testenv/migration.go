// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package testenv

import "fmt"

// migrateBatch is how many keys of a slot are moved at a time.
const migrateBatch = 100

// Migration is a slot on its way from one node to another. As long as it is not
// finished, the node it comes from answers ASK for a key that it lacks, and for
// several keys of which it lacks some TRYAGAIN.
type Migration struct {
	Slot     int
	From, To *Redis

	cluster *RedisCluster
}

// StartMigration opens both ends of the way of a slot and moves nothing yet.
func (c *RedisCluster) StartMigration(slot int, to *Redis) *Migration {
	c.tb.Helper()
	from, err := c.ownerOf(to, slot)
	if err != nil {
		c.tb.Fatal(err)
	}
	c.must(to, "CLUSTER", "SETSLOT", slot, "IMPORTING", c.id(from))
	c.must(from, "CLUSTER", "SETSLOT", slot, "MIGRATING", c.id(to))
	return &Migration{Slot: slot, From: from, To: to, cluster: c}
}

// Move moves these keys of the slot, those that do not exist aside.
func (m *Migration) Move(keys ...string) {
	m.cluster.tb.Helper()
	args := []any{"MIGRATE", hostOf(m.To.Addr), portOf(m.To.Addr), "", 0, commandTimeout.Milliseconds(), "KEYS"}
	for _, key := range keys {
		args = append(args, key)
	}
	m.cluster.must(m.From, args...)
}

// Finish moves all keys that are left, makes the other node the owner and waits
// until all nodes know.
func (m *Migration) Finish() {
	c := m.cluster
	c.tb.Helper()
	for {
		keys := m.keys()
		if len(keys) == 0 {
			break
		}
		m.Move(keys...)
	}
	// The new owner first, so that there is never none.
	c.must(m.To, "CLUSTER", "SETSLOT", m.Slot, "NODE", c.id(m.To))
	c.must(m.From, "CLUSTER", "SETSLOT", m.Slot, "NODE", c.id(m.To))
	await(c.tb, fmt.Sprintf("slot %d on %s", m.Slot, m.To.Addr), func() error {
		for _, node := range c.Nodes {
			owner, err := c.ownerOf(node, m.Slot)
			if err != nil {
				return err
			}
			if owner != m.To {
				return fmt.Errorf("%s says it is on %s", node.Addr, owner.Addr)
			}
		}
		return nil
	})
}

// keys are some of those that are left.
func (m *Migration) keys() []string {
	m.cluster.tb.Helper()
	reply, _ := m.cluster.must(m.From, "CLUSTER", "GETKEYSINSLOT", m.Slot, migrateBatch).([]any)
	keys := make([]string, len(reply))
	for i, key := range reply {
		keys[i] = fmt.Sprint(key)
	}
	return keys
}

// Migrate moves a slot to a node while the cluster serves.
func (c *RedisCluster) Migrate(slot int, to *Redis) {
	c.tb.Helper()
	c.StartMigration(slot, to).Finish()
}

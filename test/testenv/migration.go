// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"fmt"
	"time"
)

// migrateBatch is the number of keys that are moved at once.
const migrateBatch = 100

// Migration moves a slot from one node to another. Until it is finished, the source
// replies ASK for a key that it no longer has, and TRYAGAIN for several keys of which it
// has only some.
type Migration struct {
	Slot     int
	From, To *Redis

	cluster *RedisCluster
}

// StartMigration prepares both nodes for the migration of a slot and moves no keys yet.
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

// Move moves keys of the slot. It ignores keys that do not exist.
func (m *Migration) Move(keys ...string) {
	m.cluster.tb.Helper()
	args := []any{"MIGRATE", hostOf(m.To.Addr), portOf(m.To.Addr), "", 0, commandTimeout.Milliseconds(), "KEYS"}
	for _, key := range keys {
		args = append(args, key)
	}
	m.cluster.must(m.From, args...)
}

// Finish moves all remaining keys, makes the target the owner and waits until all nodes
// agree. It returns how long the source may have had only some of the keys.
func (m *Migration) Finish() (divided time.Duration) {
	c := m.cluster
	c.tb.Helper()
	began := time.Now()
	for {
		keys := m.keys()
		if len(keys) == 0 {
			break
		}
		m.Move(keys...)
	}
	divided = time.Since(began)
	// The new owner first, so that the slot always has one.
	c.must(m.To, "CLUSTER", "SETSLOT", m.Slot, "NODE", c.id(m.To))
	c.must(m.From, "CLUSTER", "SETSLOT", m.Slot, "NODE", c.id(m.To))
	await(c.tb, fmt.Sprintf("slot %d on %s", m.Slot, m.To.Addr), func() error {
		for _, node := range c.Nodes {
			owner, err := c.ownerOf(node, m.Slot)
			if err != nil {
				return err
			}
			if owner != m.To {
				return fmt.Errorf("%s reports it on %s", node.Addr, owner.Addr)
			}
		}
		return nil
	})
	return divided
}

// keys returns some of the remaining keys.
func (m *Migration) keys() []string {
	m.cluster.tb.Helper()
	reply, _ := m.cluster.must(m.From, "CLUSTER", "GETKEYSINSLOT", m.Slot, migrateBatch).([]any)
	keys := make([]string, len(reply))
	for i, key := range reply {
		keys[i] = fmt.Sprint(key)
	}
	return keys
}

// Migrate moves a slot to a node while the cluster serves. It returns what Finish does.
func (c *RedisCluster) Migrate(slot int, to *Redis) (divided time.Duration) {
	c.tb.Helper()
	return c.StartMigration(slot, to).Finish()
}

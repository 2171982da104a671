// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"fmt"
	"regexp"

	"github.com/weir-dev/weir/internal/limiter/quota"
)

// The places of the first arguments of a run, counted from the last argument before the run.
const (
	atCalls = iota + 1
	atKeys
	atCallArgs
	atRunFlags
	atEntries
	atEntryFlags
)

// Flags of a run.
const (
	runDenied   = 1 << iota // the calls are denied already, outside the call
	runReceipts             // return receipts
	runDraws                // the calls have draws
	runSameKeys             // all calls have the same keys, which are in KEYS once
	runRepeated             // the calls repeat earlier calls, which took holds
	runLean                 // lean.lua may decide the calls
	runSameArgs             // all calls have the same call arguments, which follow once
)

// Flags of an entry.
const (
	entryAttempts  = 1 << iota // checks are counted, not only admitted ones
	entryShadow                // the policy is in mode Shadow
	entryPeek                  // writes nothing
	entryBlocks                // limits start blocks, on denials or on commits
	entryLog                   // a limit is a SlidingLog
	entryDryRun                // spends nothing, but repairs state after an edit or a clock change
	entryOnlyKnown             // decided only if the key is known
	entryListed                // the state of a limit is in a list
	entryLargest               // the log has a key for the largest threshold that it serves
	entryEnlarges              // the variant has a larger threshold than the policy
	entryHolds                 // keys may have holds
	entryRequested             // a limit is requested: does not settle the holds that have ended
	entryRemembers             // remembers a charge
	entryOnCommit              // commits start the blocks, denials do not

	entryActionBits = iota // the action is in the bits from here on
)

// The report of an entry begins with its verdict and these flags.
const (
	reportVerdict  = 1<<3 - 1 // the bits of the verdict
	reportBegan    = 1 << 3   // the key had no state before the call, and has now
	reportHolds    = 1 << 4   // holds follow
	reportShort    = 1 << 5   // of one check, whose limits all admit
	reportRepaired = 1 << 6   // the call replaced a value that was not a state of a limit
)

const (
	undecided     = -1           // begins the reply to a call that was not decided
	unwrittenMark = "UNWRITTEN " // begins the text of an error of a call that has written nothing
	millionths    = 1_000_000    // is the unit of shares in replies, which contain only integers
)

// Whether a limit admits the cost, and why not.
const (
	admitsNot = iota
	admitsCost
	admitsButSheds   // admits it, but Suppressed sheds the check
	admitsAfterHolds // only holds keep it from admitting the cost
)

// constants are what the Lua files call the numbers above, and numbers of package quota. The names are replaced
// when a script is assembled, so that they cost nothing.
var constants = map[string]any{
	"AT_CALLS": atCalls, "AT_KEYS": atKeys, "AT_CALL_ARGS": atCallArgs, "AT_RUN_FLAGS": atRunFlags,
	"AT_ENTRY_FLAGS": atEntryFlags,

	"RUN_DENIED": runDenied, "RUN_RECEIPTS": runReceipts, "RUN_DRAWS": runDraws, "RUN_SAME_KEYS": runSameKeys,
	"RUN_REPEATED": runRepeated, "RUN_LEAN": runLean, "RUN_SAME_ARGS": runSameArgs,

	"ENTRY_ATTEMPTS": entryAttempts, "ENTRY_SHADOW": entryShadow, "ENTRY_PEEK": entryPeek, "ENTRY_BLOCKS": entryBlocks,
	"ENTRY_LOG": entryLog, "ENTRY_DRY_RUN": entryDryRun, "ENTRY_ONLY_KNOWN": entryOnlyKnown, "ENTRY_LISTED": entryListed,
	"ENTRY_LARGEST": entryLargest, "ENTRY_ENLARGES": entryEnlarges, "ENTRY_HOLDS": entryHolds, "ENTRY_REQUESTED": entryRequested,
	"ENTRY_REMEMBERS": entryRemembers, "ENTRY_ON_COMMIT": entryOnCommit, "ENTRY_ACTION_BITS": entryActionBits,

	"ACTION_CHECK": int(quota.Check), "ACTION_RESERVE": int(quota.Reserve), "ACTION_COMMIT": int(quota.Commit),
	"ACTION_RENEW": int(quota.Renew), "ACTION_CHARGE": int(quota.Charge), "ACTION_SLICE": int(quota.TakeSlice),

	"VERDICT_ADMITTED": int(quota.Admitted), "VERDICT_DENIED": int(quota.Denied), "VERDICT_BLOCKED": int(quota.Blocked),
	"VERDICT_TRIPPED": int(quota.Tripped),

	"REPORT_BEGAN": reportBegan, "REPORT_HOLDS": reportHolds, "REPORT_SHORT": reportShort, "REPORT_REPAIRED": reportRepaired,
	"REPLY_UNDECIDED": undecided, "REPLY_UNWRITTEN": unwrittenMark, "REPLY_MILLIONTHS": millionths,

	"ADMITS_NOT": admitsNot, "ADMITS_COST": admitsCost, "ADMITS_BUT_SHEDS": admitsButSheds, "ADMITS_AFTER_HOLDS": admitsAfterHolds,

	"HOLD_NONE": int(quota.HoldNone), "HOLD_TAKEN": int(quota.HoldTaken), "HOLD_FOUND": int(quota.HoldFound),
	"HOLD_MISSING": int(quota.HoldMissing), "HOLD_FULL": int(quota.HoldsFull),

	"HOLD_MOST_SETTLED": quota.MostSettled, "HOLD_SMALLEST_SLICE": quota.SmallestSlice, "HOLD_CHARGE_MEMORY": quota.ChargeMemory.Milliseconds(),
	"HOLD_STREAM_MEMORY": quota.StreamMemory.Milliseconds(), "HOLD_STREAM_NAME": quota.ChargeName("", quota.StreamPrefix)[1:],

	"BLOCK_MARK": blockMark, "BLOCK_MARK_BYTE": blockMark[0],
}

var constantName = regexp.MustCompile(`\b(?:AT|RUN|ENTRY|ACTION|VERDICT|REPORT|REPLY|ADMITS|HOLD|BLOCK)_[A-Z_]+\b`)

// withConstants replaces the names of constants in a Lua file by their values. A name that does not exist is a
// panic.
func withConstants(text string) string {
	return constantName.ReplaceAllStringFunc(text, func(name string) string {
		value, ok := constants[name]
		if !ok {
			panic("redisstore: no constant " + name)
		}
		return fmt.Sprintf("%#v", value)
	})
}

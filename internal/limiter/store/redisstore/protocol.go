// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"fmt"
	"regexp"

	"github.com/weir-dev/weir/internal/limiter/store"
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
	runFast                 // fast.lua may decide the calls
	runSameArgs             // all calls have the same call arguments, which follow once
)

// Flags of an entry.
const (
	entryAttempts  = 1 << iota // checks are counted, not only admitted ones
	entryShadow                // the policy is in mode Shadow
	entryPeek                  // writes nothing
	entryBlocks                // limits start blocks, on denials or on commits
	entryLog                   // a limit is a SlidingLog
	entryPrecheck              // spends nothing, but repairs state after an edit or a clock change
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
	undecided = -1 // begins the reply to a call that was not decided
	// largestSum is the most units of a counter or a log, so that they stay an integer of a double.
	largestSum    = 1 << 52
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

// constants are what the Lua files call the numbers above, and numbers of package store. The names are replaced
// when a script is assembled, so that they cost nothing.
var constants = map[string]any{
	"AT_CALLS": atCalls, "AT_KEYS": atKeys, "AT_CALL_ARGS": atCallArgs, "AT_RUN_FLAGS": atRunFlags,
	"AT_ENTRY_FLAGS": atEntryFlags,

	"RUN_DENIED": runDenied, "RUN_RECEIPTS": runReceipts, "RUN_DRAWS": runDraws, "RUN_SAME_KEYS": runSameKeys,
	"RUN_REPEATED": runRepeated, "RUN_FAST": runFast, "RUN_SAME_ARGS": runSameArgs,

	"ENTRY_ATTEMPTS": entryAttempts, "ENTRY_SHADOW": entryShadow, "ENTRY_PEEK": entryPeek, "ENTRY_BLOCKS": entryBlocks,
	"ENTRY_LOG": entryLog, "ENTRY_PRECHECK": entryPrecheck, "ENTRY_ONLY_KNOWN": entryOnlyKnown, "ENTRY_LISTED": entryListed,
	"ENTRY_LARGEST": entryLargest, "ENTRY_ENLARGES": entryEnlarges, "ENTRY_HOLDS": entryHolds, "ENTRY_REQUESTED": entryRequested,
	"ENTRY_REMEMBERS": entryRemembers, "ENTRY_ON_COMMIT": entryOnCommit, "ENTRY_ACTION_BITS": entryActionBits,

	"ACTION_CHECK": int(store.Check), "ACTION_RESERVE": int(store.Reserve), "ACTION_COMMIT": int(store.Commit),
	"ACTION_RENEW": int(store.Renew), "ACTION_CHARGE": int(store.Charge), "ACTION_SLICE": int(store.TakeSlice),

	"VERDICT_ADMITTED": int(store.Admitted), "VERDICT_DENIED": int(store.Denied), "VERDICT_BLOCKED": int(store.Blocked),
	"VERDICT_BLOCK_STARTED": int(store.BlockStarted),

	"REPORT_BEGAN": reportBegan, "REPORT_HOLDS": reportHolds, "REPORT_SHORT": reportShort, "REPORT_REPAIRED": reportRepaired,
	"REPLY_UNDECIDED": undecided, "REPLY_UNWRITTEN": unwrittenMark, "REPLY_MILLIONTHS": millionths,

	"ADMITS_NOT": admitsNot, "ADMITS_COST": admitsCost, "ADMITS_BUT_SHEDS": admitsButSheds, "ADMITS_AFTER_HOLDS": admitsAfterHolds,

	"HOLD_NONE": int(store.HoldNone), "HOLD_TAKEN": int(store.HoldTaken), "HOLD_FOUND": int(store.HoldFound),
	"HOLD_MISSING": int(store.HoldMissing), "HOLD_FULL": int(store.HoldsFull),

	"HOLD_MOST_SETTLED": store.MostSettled, "HOLD_SMALLEST_SLICE": store.SmallestSlice, "HOLD_CHARGE_MEMORY": store.ChargeMemory.Milliseconds(),
	"HOLD_STREAM_MEMORY": store.StreamMemory.Milliseconds(), "HOLD_STREAM_NAME": store.ChargeName("", store.StreamPrefix)[1:],

	"SUM_LARGEST": largestSum,

	"BLOCK_MARK": blockMark, "BLOCK_MARK_BYTE": blockMark[0],
}

var constantName = regexp.MustCompile(`\b(?:AT|RUN|ENTRY|ACTION|VERDICT|REPORT|REPLY|ADMITS|HOLD|BLOCK|SUM)_[A-Z_]+\b`)

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

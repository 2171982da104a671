// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package console

import (
	"net/http"
	"strings"

	"github.com/weir-dev/weir/internal/duration"
	"github.com/weir-dev/weir/internal/limiter/frontend/httptypes"
)

// action is a change of a key.
type action struct {
	// Path is the path in the API.
	Path string
	// Question and Effect are what the confirmation shows, and Button is its button.
	Question, Effect, Button string
	// Done reports the change, and Nothing that there was nothing to change.
	Done, Nothing string
	// Grave marks a change that takes something away from a caller, or cannot be undone.
	Grave bool
}

var actions = map[string]*action{
	"lift": {
		Path: "/v1/unblock", Question: "Lift the block of this key?", Button: "Lift the block",
		Effect: "Its limits decide again. Spent units stay spent.",
		Done:   "The block is lifted.", Nothing: "The key was not blocked.",
	},
	"reset": {
		Path: "/v1/reset", Question: "Reset this key?", Button: "Reset the key", Grave: true,
		Effect: "All spent units and the block of the key are deleted. This cannot be undone.",
		Done:   "The key is reset.", Nothing: "The key had no spent units and no block.",
	},
	"block": {
		Path: "/v1/block", Question: "Block this key?", Button: "Block the key", Grave: true,
		Effect: "Every check of the key is denied. The block replaces an existing one.",
		Done:   "The key is blocked.",
	},
	"lift-all": {
		Path: "/v1/unblock", Question: "Lift all blocks of this policy?", Button: "Lift all blocks", Grave: true,
		Effect: "All listed blocks end, those by operators too. Spent units stay spent.",
		Done:   "The blocks are lifted.", Nothing: "No key was blocked.",
	},
}

// confirmPage is the data of a confirmation.
type confirmPage struct {
	*action

	Name     string
	Target   *target
	All      bool
	Duration string // of a block
}

// confirm serves the question before a change.
func (c *Console) confirm(v *visit) error {
	page, err := confirmPageOf(v)
	if err != nil {
		return err
	}
	if d, err := duration.Parse(page.Duration); page.Name == "block" && (err != nil || d <= 0) {
		return c.showKey(v, page.Target, "", "For: must be a time such as 15m or 1h30m.")
	}
	return c.render(v, http.StatusOK, "confirm", page.Question, page)
}

func confirmPageOf(v *visit) (page *confirmPage, err error) {
	form := v.r.PostForm
	name := form.Get("action")
	page = &confirmPage{action: actions[name], Name: name, Target: targetOf(form), All: name == "lift-all"}
	if name == "block" {
		page.Duration = duration.InHours(strings.TrimSpace(form.Get("duration")))
	}
	if page.action == nil {
		return nil, &problem{Status: http.StatusBadRequest, Detail: "The form names no change."}
	}
	return page, nil
}

// change serves a confirmed change.
func (c *Console) change(v *visit) error {
	page, err := confirmPageOf(v)
	if err != nil {
		return err
	}
	t := page.Target
	body := t.Target
	if page.All {
		body = httptypes.Target{Policy: t.Policy, All: true}
	}
	body.Duration = page.Duration
	var answer httptypes.Changed
	err = c.post(v.ctx(), v.session, page.Path, &body, &answer)
	notice := page.Done
	if !answer.Found {
		notice = page.Nothing
	}
	invalid, isInvalid := problemOf(err)
	switch {
	case isInvalid && !page.All:
		return c.showKey(v, t, "", invalid.Error())
	case err != nil:
		return err
	case page.All:
		return c.showPolicy(v, t.Policy, notice+" Number: "+number(*answer.Lifted)+".")
	}
	return c.showKey(v, t, notice, "")
}

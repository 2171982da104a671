// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package console

import (
	"crypto/sha256"
	"net/http"
	"sync"
	"time"
)

const (
	// sessionLife is how long a session lasts: as long as a token of kubectl weir.
	sessionLife = 10 * time.Minute
	// codeLife is how long a code can be exchanged for a session.
	codeLife = 30 * time.Second
	// maxSessions bounds the sessions, and maxCodes the codes. The oldest makes room.
	maxSessions, maxCodes = 1000, 1000
)

// session is the right of one browser to act with a token.
type session struct {
	id          string
	token       string
	claimedUser string
	ends        time.Time
	guest       bool
}

// grant is a token that waits for its code.
type grant struct {
	token, claimedUser string
	issued             time.Time
}

// sessions holds sessions and codes. It keeps only hashes of their secrets, so the time of a lookup
// reveals nothing about a secret.
type sessions struct {
	now func() time.Time

	mu   sync.Mutex
	open map[[sha256.Size]byte]*session
	code map[[sha256.Size]byte]grant
}

func newSessions(now func() time.Time) *sessions {
	return &sessions{now: now, open: map[[sha256.Size]byte]*session{}, code: map[[sha256.Size]byte]grant{}}
}

// newCode returns a code for the token.
func (s *sessions) newCode(token, claimedUser string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	code := newSecret()
	makeRoom(s.code, maxCodes, func(g grant) time.Time { return g.issued.Add(codeLife) }, s.now())
	s.code[sha256.Sum256([]byte(code))] = grant{token: token, claimedUser: claimedUser, issued: s.now()}
	return code
}

// exchange returns a new session for the code, which is then used, or nil if the code is not valid.
func (s *sessions) exchange(code string) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	hash := sha256.Sum256([]byte(code))
	g, ok := s.code[hash]
	delete(s.code, hash)
	if !ok || !s.now().Before(g.issued.Add(codeLife)) {
		return nil
	}
	// The token was issued before its code.
	return s.begin(g.token, g.claimedUser, g.issued)
}

// start returns a new session of the token.
func (s *sessions) start(token string) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.begin(token, "", s.now())
}

func (s *sessions) begin(token, claimedUser string, from time.Time) *session {
	made := &session{id: newSecret(), token: token, claimedUser: claimedUser, ends: from.Add(sessionLife)}
	makeRoom(s.open, maxSessions, func(o *session) time.Time { return o.ends }, s.now())
	s.open[sha256.Sum256([]byte(made.id))] = made
	return made
}

// find returns the session with the ID, or nil.
func (s *sessions) find(id string) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	hash := sha256.Sum256([]byte(id))
	found := s.open[hash]
	if found != nil && !s.now().Before(found.ends) {
		delete(s.open, hash)
		return nil
	}
	return found
}

// end ends the session.
func (s *sessions) end(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, sha256.Sum256([]byte(id)))
}

// makeRoom deletes what has ended and, if there are still most entries, the one that ends first.
func makeRoom[T any](entries map[[sha256.Size]byte]T, most int, ends func(T) time.Time, now time.Time) {
	if len(entries) < most {
		return
	}
	var first [sha256.Size]byte
	var firstEnd time.Time
	for hash, entry := range entries {
		end := ends(entry)
		if !now.Before(end) {
			delete(entries, hash)
		} else if firstEnd.IsZero() || end.Before(firstEnd) {
			first, firstEnd = hash, end
		}
	}
	if len(entries) >= most {
		delete(entries, first)
	}
}

// sessionOf returns the session of the request, the session of guests, or nil.
func (c *Console) sessionOf(r *http.Request) *session {
	if cookie, err := r.Cookie(c.cookie); err == nil {
		if found := c.sessions.find(cookie.Value); found != nil {
			return found
		}
	}
	return c.guest
}

// setCookie gives the session to the browser.
func (c *Console) setCookie(v *visit, s *session) {
	c.writeCookie(v, s.id, int(s.ends.Sub(c.now())/time.Second))
}

// dropCookie deletes the cookie.
func (c *Console) dropCookie(v *visit) { c.writeCookie(v, "", -1) }

func (c *Console) writeCookie(v *visit, value string, maxAge int) {
	http.SetCookie(v.w, &http.Cookie{ //nolint:gosec // Secure with TLS: some browsers reject such cookies from http://localhost
		Name: c.cookie, Value: value, Path: pathRoot, MaxAge: maxAge,
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: v.r.TLS != nil,
	})
}

// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"maps"
	"net/url"
	"strings"
)

// Bounds of the values that are read one by one: of a query, of the cookies, and of a header that a match compares.
// A longer text is unreadable: a match that reads it holds uncertainly, and a part of a key from it is ambiguous.
const (
	MaxReadBytes  = 8 << 10
	MaxReadValues = 128
)

// Values are the values of a query or of a cookie header, by name.
//
// Servers read some of them in different ways. Values has all readings, so that matches hold if one reading does,
// and a single value only where all agree.
type Values struct {
	syntax     *syntax
	text       string
	Unreadable bool
	named      map[string]*namedValue // by the name in lower case
	entries    map[Entry]bool         // in all readings, and each name without a value; nil until a match needs them
}

// namedValue is the value of one name.
type namedValue struct {
	name      string // as the request spells it
	value     string
	ambiguous bool
}

// syntax is the syntax of a list of names and values.
type syntax struct {
	separator byte
	// others also separate values for some servers.
	others string
	// decodings are the ways in which servers decode names and values; the first one is the standard.
	decodings []func(string) string
	// valid reports whether all servers read the value in the same way; nil is true.
	valid func(string) bool
}

// querySyntax is application/x-www-form-urlencoded of the URL standard (https://url.spec.whatwg.org, section 5.1).
// Other servers separate by semicolons, too, keep plus signs, decode twice or not at all, or take a fragment as part of
// the query.
var querySyntax = &syntax{
	separator: '&', others: ";#",
	decodings: []func(string) string{
		decodeForm, decodePercent, func(s string) string { return s }, func(s string) string { return decodePercent(decodeForm(s)) },
	},
}

// cookieSyntax is the syntax of RFC 6265, section 4.2.1, with the escapes and quotes that most frameworks remove. Older
// servers separate by commas (RFC 2109) or spaces, too, which RFC 6265 permits in no value.
var cookieSyntax = &syntax{
	separator: ';', others: ", \t",
	decodings: []func(string) string{decodeCookie},
	valid:     func(value string) bool { return !strings.ContainsAny(unquote(value), "\", \t\\") },
}

// read returns the values of the text.
func (s *syntax) read(text string) *Values {
	separators := strings.Count(text, string(s.separator))
	for i := range len(s.others) {
		separators += strings.Count(text, s.others[i:i+1])
	}
	if len(text) > MaxReadBytes || separators >= MaxReadValues {
		return &Values{Unreadable: true}
	}
	v := &Values{syntax: s, text: text, named: map[string]*namedValue{}}
	s.each(text, string(s.separator), v.addSingle)
	if strings.ContainsAny(text, s.others) {
		other := &Values{syntax: s, named: map[string]*namedValue{}}
		s.each(text, string(s.separator)+s.others, other.addSingle)
		v.agreeWith(other)
	}
	return v
}

// each calls add with each name and value between the separators.
func (s *syntax) each(text, separators string, add func(name, value string)) {
	for text != "" {
		pair, rest := text, ""
		if i := strings.IndexAny(text, separators); i >= 0 {
			pair, rest = text[:i], text[i+1:]
		}
		name, value, _ := strings.Cut(TrimValue(pair), "=")
		if name != "" || value != "" {
			add(name, value)
		}
		text = rest
	}
}

// aliases returns other names that servers may read: PHP and others take a[] and a[b] as lists and objects with the name
// a, and some servers decode twice.
func aliases(name string) (others []string) {
	if base, _, inBrackets := strings.Cut(name, "["); inBrackets {
		others = append(others, base)
	}
	if hasEscape(name) {
		others = append(others, decodePercent(name))
	}
	return others
}

// addSingle adds the standard reading of a name and its value, without the spaces around them.
func (v *Values) addSingle(name, value string) {
	s := v.syntax
	n := namedValue{name: strings.TrimSpace(s.decodings[0](name)), value: strings.TrimSpace(s.decodings[0](value))}
	n.ambiguous = s.valid != nil && !s.valid(value) || hasEscape(n.value)
	v.setSingle(n)
	for _, other := range aliases(n.name) {
		v.setSingle(namedValue{name: other, value: n.value, ambiguous: true})
	}
}

// addEntries adds all readings of a name and its value.
func (v *Values) addEntries(name, value string) {
	for i, decode := range v.syntax.decodings {
		if i > 0 && !strings.ContainsAny(name, "%+") && !strings.ContainsAny(value, "%+") {
			break // all decodings are equal
		}
		name, value := LowerName(strings.TrimSpace(decode(name))), strings.TrimSpace(decode(value))
		v.addEntry(name, value)
		for _, other := range aliases(name) {
			v.addEntry(LowerName(other), value)
		}
	}
}

func (v *Values) addEntry(name, value string) {
	v.entries[Entry{Key: name}] = true
	v.entries[Entry{Key: name, Value: value}] = true
}

// AllEntries returns the entries of all readings.
func (v *Values) AllEntries() map[Entry]bool {
	if v.entries == nil && !v.Unreadable {
		v.entries = map[Entry]bool{}
		v.syntax.each(v.text, string(v.syntax.separator), v.addEntries)
		if strings.ContainsAny(v.text, v.syntax.others) {
			v.syntax.each(v.text, string(v.syntax.separator)+v.syntax.others, v.addEntries)
		}
	}
	return v.entries
}

// setSingle sets the value of the name, which is ambiguous if it has one already.
func (v *Values) setSingle(n namedValue) {
	key := LowerName(n.name)
	if before := v.named[key]; before != nil {
		before.ambiguous = true
		return
	}
	v.named[key] = &n
}

// agreeWith makes the values ambiguous that another reading has not or has in another way.
func (v *Values) agreeWith(other *Values) {
	for key, n := range v.named {
		o := other.named[key]
		n.ambiguous = n.ambiguous || o == nil || o.ambiguous || o.value != n.value
	}
	for key, o := range other.named {
		if v.named[key] == nil {
			v.named[key] = &namedValue{name: o.name, value: o.value, ambiguous: true}
		}
	}
}

// Get returns the value of the name, empty if it is absent. ok is false if servers may read different values, or
// none: the name is repeated, is spelled in another case, or has characters that servers read in different ways.
func (v *Values) Get(name string) (value string, ok bool) {
	if v.Unreadable {
		return "", false
	}
	n := v.named[LowerName(name)]
	if n == nil {
		return "", true
	}
	return n.value, !n.ambiguous && n.name == name
}

// Has reports whether the name is present in any reading.
func (v *Values) Has(name string) bool { return v.named[LowerName(name)] != nil }

// All returns the values by name. ok is false if one of them is ambiguous, or all are unreadable.
func (v *Values) All() (values map[string]string, ok bool) {
	values = make(map[string]string, len(v.named))
	for _, n := range v.named {
		if n.ambiguous {
			return nil, false
		}
		values[n.name] = n.value
	}
	return values, !v.Unreadable
}

// holds reports whether the values contain all entries. uncertain is true if that cannot be known.
func (v *Values) holds(entries []Entry) (holds, uncertain bool) {
	if v.Unreadable {
		return true, true
	}
	readings := v.AllEntries()
	for _, e := range entries {
		if !readings[Entry{Key: LowerName(e.Key), Value: e.Value}] {
			return false, false
		}
	}
	return true, false
}

// LowerName returns the name with its ASCII letters in lower case: some servers ignore the case of names.
func LowerName(name string) string {
	if !strings.ContainsFunc(name, func(r rune) bool { return 'A' <= r && r <= 'Z' }) {
		return name
	}
	lower := []byte(name)
	for i, c := range lower {
		if 'A' <= c && c <= 'Z' {
			lower[i] += 'a' - 'A'
		}
	}
	return string(lower)
}

func decodeForm(text string) string { return decodePercent(strings.ReplaceAll(text, "+", " ")) }

func decodeCookie(text string) string { return decodePercent(unquote(text)) }

// unquote returns the text without the quotes around it.
func unquote(text string) string {
	if n := len(text); n >= 2 && text[0] == '"' && text[n-1] == '"' {
		return text[1 : n-1]
	}
	return text
}

// hasEscape reports whether the text has an escape.
func hasEscape(text string) bool {
	for i := strings.IndexByte(text, '%'); i >= 0 && i+2 < len(text); i++ {
		if text[i] == '%' && isHex(text[i+1]) && isHex(text[i+2]) {
			return true
		}
	}
	return false
}

// decodePercent decodes the escapes of the text. What looks like an escape and is none stays as it is.
func decodePercent(text string) string {
	if !strings.Contains(text, "%") {
		return text
	}
	decoded := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c == '%' && i+2 < len(text) && isHex(text[i+1]) && isHex(text[i+2]) {
			c = unhex(text[i+1])<<4 | unhex(text[i+2])
			i += 2
		}
		decoded = append(decoded, c)
	}
	return string(decoded)
}

// parsed are the values of a request that were read, each on first use.
type parsed struct {
	query, cookies *Values
	listed         map[string]map[string]bool // the elements of headers with commas; nil if there are too many
}

func (a *Attributes) parsedValues() *parsed {
	if a.parsed == nil {
		a.parsed = &parsed{}
	}
	return a.parsed
}

// QueryValues returns the parameters of the query.
func (a *Attributes) QueryValues() *Values {
	p := a.parsedValues()
	if p.query == nil {
		p.query = querySyntax.read(a.Query)
	}
	return p.query
}

// CookieValues returns the cookies. Of a repeated cookie header all values count, and are ambiguous.
func (a *Attributes) CookieValues() *Values {
	p := a.parsedValues()
	if p.cookies == nil {
		p.cookies = cookieSyntax.read(a.Headers["cookie"])
	}
	return p.cookies
}

// ElementsOf returns the elements of the header, whose value has a comma; nil if there are too many to read.
func (a *Attributes) ElementsOf(header, value string) map[string]bool {
	p := a.parsedValues()
	if elements, known := p.listed[header]; known {
		return elements
	}
	if p.listed == nil {
		p.listed = map[string]map[string]bool{}
	}
	if len(value) > MaxReadBytes || strings.Count(value, ",") >= MaxReadValues {
		p.listed[header] = nil
		return nil
	}
	elements := map[string]bool{}
	for element := range strings.SplitSeq(value, ",") {
		elements[TrimValue(element)] = true
	}
	p.listed[header] = elements
	return elements
}

// holdsHeaders reports whether the request has all headers: with the value, or with all elements of the value among
// its own, since repeated headers and lists are joined with commas. uncertain is true if that cannot be known.
func (a *Attributes) holdsHeaders(wanted []Entry) (holds, uncertain bool) {
	for i := range wanted {
		h, u := a.holdsHeader(&wanted[i])
		if !h {
			return false, false
		}
		uncertain = uncertain || u
	}
	return true, uncertain
}

func (a *Attributes) holdsHeader(want *Entry) (holds, uncertain bool) {
	value, present := a.Headers[want.Key]
	switch {
	case !present || want.Value == "" || value == want.Value:
		return present, false
	case !strings.Contains(value, ","):
		return false, false
	}
	elements := a.ElementsOf(want.Key, value)
	if elements == nil {
		return true, true
	}
	for element := range strings.SplitSeq(want.Value, ",") {
		if element = TrimValue(element); element != "" && !elements[element] {
			return false, false
		}
	}
	return true, false
}

// cutQuery moves the query of the path to Query. A query that is set already comes first.
func (a *Attributes) cutQuery() {
	i := strings.IndexByte(a.Path, '?')
	if i < 0 {
		return
	}
	query := a.Path[i+1:]
	if a.Query != "" && query != "" {
		query = a.Query + "&" + query
	}
	a.Query, a.Path = query, a.Path[:i]
}

// SetHeaders sets the headers of a match to the values that it wants, in a copy of Headers.
func (a *Attributes) SetHeaders(wanted []Entry) {
	headers := maps.Clone(a.Headers)
	if headers == nil {
		headers = make(map[string]string, len(wanted))
	}
	for _, e := range wanted {
		headers[e.Key] = e.Value
	}
	a.Headers, a.parsed = headers, nil
}

// AddQueryParameters adds the parameters of a match, with the values that it wants, to the query.
func (a *Attributes) AddQueryParameters(wanted []Entry) {
	for _, e := range wanted {
		if a.Query != "" {
			a.Query += "&"
		}
		a.Query += url.QueryEscape(e.Key) + "=" + url.QueryEscape(e.Value)
	}
	a.parsed = nil
}

// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package backtest

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// Format is the format of an access log.
type Format string

// The formats.
const (
	// FormatCombined is the combined log format of Apache and nginx.
	FormatCombined Format = "combined"
	// FormatJSON has one JSON object per line.
	FormatJSON Format = "json"
	// FormatEnvoy is the default format of Envoy, or the format of Istio.
	FormatEnvoy Format = "envoy"
)

// Formats are all formats.
var Formats = []Format{FormatCombined, FormatJSON, FormatEnvoy}

// Source is an access log.
type Source struct {
	// Open opens the log, which may be compressed by gzip.
	Open   func() (io.ReadCloser, error)
	Format Format
	// Fields are the fields of attributes, in place of the format's: numbers from 1 in
	// text formats, names in JSON.
	Fields map[Attribute]string
	// Host is the host of all requests; empty if the log has it.
	Host string
}

const (
	maxLine     = 1 << 20   // bytes
	sampleBytes = 256 << 10 // that are looked at to find the fields
	sampleLines = 1000
)

// lineReader reads the attributes of one line.
type lineReader interface {
	read(line string, e *entry) error
}

// scanner reads the entries of a log in the order of its lines.
type scanner struct {
	lines  *bufio.Reader
	reader lineReader
	host   string
	dates  *clock // of times in two fields, else nil
	closer io.Closer

	number     int64 // of the line
	unreadable int64
	first      error // of the unreadable lines
}

// scan opens the log and finds the fields that the plans need.
func (s *Source) scan(plans []*plan.Plan) (*scanner, error) {
	opened, err := s.Open()
	if err != nil {
		return nil, err
	}
	sc := &scanner{host: s.Host, closer: opened}
	if sc.lines, err = uncompressed(opened); err == nil {
		err = sc.findFields(s, plans)
	}
	if err != nil {
		_ = opened.Close()
		return nil, err
	}
	return sc, nil
}

func uncompressed(from io.Reader) (*bufio.Reader, error) {
	lines := bufio.NewReaderSize(from, maxLine)
	if magic, _ := lines.Peek(2); !bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		return lines, nil
	}
	unzipped, err := gzip.NewReader(lines)
	if err != nil {
		return nil, err
	}
	return bufio.NewReaderSize(unzipped, maxLine), nil
}

// findFields sets the reader, or returns an error for each attribute that the log lacks.
func (sc *scanner) findFields(s *Source, plans []*plan.Plan) (err error) {
	var has map[Attribute]bool
	needed := needed(plans)
	if s.Fields[AttributeDate] != "" {
		needed, sc.dates = append(needed, AttributeDate), &clock{}
	}
	sample, err := sc.sample()
	if err != nil {
		return err
	}
	if s.Format == FormatJSON {
		sc.reader, has, err = newJSONReader(sample, s.Fields, needed)
	} else {
		sc.reader, has, err = newTextReader(s.Format, sample, s.Fields, needed)
	}
	if err != nil {
		return err
	}
	if len(sample) == 0 {
		return errors.New("the log is empty")
	}
	if s.Host != "" {
		has[AttributeHost] = true
	}
	if !has[AttributeTime] {
		return errors.New("no line has a time; name its field with --map time=FIELD")
	}
	return errors.Join(missing(plans, has)...)
}

// sample returns the first lines, which stay to be read.
func (sc *scanner) sample() ([]string, error) {
	start, err := sc.lines.Peek(sampleBytes) // shorter at the end of the log
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	lines := strings.Split(strings.TrimSpace(string(start)), "\n")
	if len(start) == sampleBytes && len(lines) > 1 {
		lines = lines[:len(lines)-1] // it may be incomplete
	}
	if lines[0] == "" {
		return nil, nil
	}
	return lines[:min(len(lines), sampleLines)], nil
}

// next sets the entry to the next readable line. It returns io.EOF at the end.
func (sc *scanner) next(e *entry) error {
	for {
		line, err := sc.line()
		if err != nil {
			return err
		}
		if line == "" || line[0] == '#' { // the names of the fields, in the formats of CloudFront and IIS
			continue
		}
		*e = entry{}
		err = sc.reader.read(line, e)
		if err == nil && e.date != "" && e.time != "" {
			e.micros, err = sc.dates.parse(e.date + " " + e.time)
		}
		if err == nil && e.micros == 0 {
			err = errors.New("has no time")
		}
		if err == nil {
			e.attributes.Host = cmp.Or(sc.host, e.attributes.Host)
			return nil
		}
		sc.reject(err)
	}
}

func (sc *scanner) reject(err error) {
	sc.unreadable++
	if sc.first == nil {
		sc.first = fmt.Errorf("line %d: %w", sc.number, err)
	}
}

// line returns the next line that is not too long.
func (sc *scanner) line() (string, error) {
	for {
		sc.number++
		line, err := sc.lines.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			for errors.Is(err, bufio.ErrBufferFull) {
				_, err = sc.lines.ReadSlice('\n')
			}
			sc.reject(fmt.Errorf("is longer than %d MiB", maxLine>>20))
			if err == nil {
				continue
			}
			line = nil
		}
		if err != nil && (len(line) == 0 || !errors.Is(err, io.EOF)) {
			return "", err
		}
		return strings.TrimSpace(string(line)), nil
	}
}

func (sc *scanner) close() { _ = sc.closer.Close() }

package raindrop

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// never is the expiry of IDs that carry no time.
const never = math.MaxInt64

// userAgent names the client and its version to the service.
const userAgent = "raindrop-go/0.1.0"

// longestRetryAfter is the longest Retry-After that counts, unless MaxAge is longer.
const longestRetryAfter = time.Minute

// maxBody is the size of the largest answer that is read, in bytes.
const maxBody = 1 << 20

// fetch asks for up to upTo IDs of a code: first at the base URL that succeeded last, then at
// the others, but not at those whose Retry-After is not yet over, nor after an answer that every
// node would give. If all fail, it returns the last failure.
func (c *Client) fetch(ctx context.Context, code *Code, upTo int64) (*answer, *Error) {
	var failure *Error
	start, soonest := int(c.preferred.Load()), slices.Min(code.askAt)
	for i := range c.urls {
		if c.context.Err() != nil {
			return nil, closed
		}
		k, started := (start+i)%len(c.urls), time.Now()
		// The soonest is never left out, because the pause is not by the clock of [Options].
		if code.askAt[k] > max(c.now(), soonest) {
			continue
		}
		a, err := c.request(ctx, c.urls[k], code.name, upTo)
		if err == nil && code.isRepeated(a) {
			a, err = &answer{}, fail(KindInvalidAnswer, nil, "an answer that came before")
		}
		if err == nil && a.segments[0].expires <= c.now() {
			a, err = &answer{}, fail(KindTransport, nil, "the answer came when its IDs were too old")
		}
		event := Event{Kind: EventRequest, Code: code.name, URL: c.urls[k], Duration: time.Since(started),
			UpTo: upTo, IDs: a.total}
		if err != nil {
			event.Err = err
		}
		c.options.OnEvent(event)
		if err == nil {
			c.preferred.Store(int64(k))
			return a, nil
		}
		failure, code.askAt[k] = err, c.now()+int64(err.RetryAfter+rand.N(err.RetryAfter/10+1))
		if err.isCertain() {
			// Another URL would not answer otherwise, nor sooner.
			for other, at := range code.askAt {
				code.askAt[other] = max(at, code.askAt[k])
			}
			break
		}
	}
	return nil, failure
}

// isRepeated reports whether an answer came before, and remembers it. One that is too old counts, too:
// when it comes again, its IDs are older than they seem.
func (c *Code) isRepeated(a *answer) bool {
	first := a.segments[0].first
	if slices.Contains(c.seen, first) {
		return true
	}
	c.seen = append(c.seen[max(0, len(c.seen)-99):], first)
	return false
}

// token returns the bearer token. A source that panics, or ignores that its context is over, fails
// like one that returns an error.
func (c *Client) token(ctx context.Context) (string, error) {
	type result struct {
		token string
		err   error
	}
	results := make(chan result, 1)
	go func() {
		defer func() {
			if reason := recover(); reason != nil {
				results <- result{err: fmt.Errorf("the token source panicked: %v", reason)}
			}
		}()
		token, err := c.options.Token(ctx)
		results <- result{token, err}
	}()
	select {
	case r := <-results:
		return r.token, r.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// request sends one request. Its answer is empty if it failed.
func (c *Client) request(ctx context.Context, base, code string, upTo int64) (a *answer, failure *Error) {
	defer func() {
		if reason := recover(); reason != nil {
			a, failure = &answer{}, fail(KindTransport, nil, "the request panicked: %v", reason)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, c.options.RequestTimeout)
	defer cancel()
	target := base + "/ids/" + url.PathEscape(code) + "?format=range&up_to=" + strconv.FormatInt(upTo, 10)
	if c.options.Namespace != "" {
		target += "&namespace=" + url.QueryEscape(c.options.Namespace)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, target, nil)
	token, tokenErr := c.token(ctx)
	if err := cmp.Or(err, tokenErr); err != nil {
		return &answer{}, fail(KindTransport, err, "no request without a token")
	}
	request.Header.Set("Accept", "application/json")
	request.Header.Set("User-Agent", userAgent)
	// Is not sent, and lets net/http repeat the request on a new connection if a kept one turns out
	// to be dropped. IDs of a request that was sent twice are a gap.
	request.Header["Idempotency-Key"] = nil
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	sentAt := c.now()
	response, err := c.http.Do(request)
	if err != nil {
		return &answer{}, fail(KindTransport, err, "no answer")
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxBody+1))
	mediaType := mediaType(response.Header)
	switch {
	case err != nil:
		return &answer{}, fail(KindTransport, err, "half an answer")
	case response.StatusCode != http.StatusOK:
		return &answer{}, readProblem(response, mediaType, body, max(longestRetryAfter, c.options.MaxAge))
	case mediaType != "application/json" || len(body) > maxBody:
		return &answer{}, fail(KindInvalidAnswer, nil, "content type %q, %d bytes: must be application/json of at most %d bytes", mediaType, len(body), maxBody)
	}
	return readAnswer(body, upTo, sentAt, c.options.MaxAge)
}

// mediaType returns the media type of an answer, in lower case and without its
// parameters. The client ignores parameters, and [mime.ParseMediaType] would refuse some of them.
func mediaType(header http.Header) string {
	name, _, _ := strings.Cut(header.Get("Content-Type"), ";")
	return strings.ToLower(strings.TrimSpace(name))
}

// readProblem returns the error of an answer whose status is not 200. Of its Retry-After, at most
// longest counts.
func readProblem(response *http.Response, mediaType string, body []byte, longest time.Duration) *Error {
	var problem struct{ Code, Detail string }
	failure := fail(KindTransport, nil, "status %d without a problem document", response.StatusCode)
	if mediaType == "application/problem+json" && json.Unmarshal(body, &problem) == nil && problem.Code != "" {
		failure = &Error{Kind: KindProblem, Code: problem.Code, Detail: problem.Detail}
	}
	failure.Status = response.StatusCode
	text := response.Header.Get("Retry-After")
	if text == "" || strings.Trim(text, "0123456789") != "" {
		return failure
	}
	failure.RetryAfter = longest
	if seconds, err := strconv.ParseInt(text, 10, 32); err == nil {
		failure.RetryAfter = min(time.Duration(seconds)*time.Second, longest)
	}
	return failure
}

// answer is the JSON of a response, and its ranges as the buffer keeps them.
type answer struct {
	IssuedAt  time.Time `json:"issued_at"`
	Layout    *string
	Time      *timeField
	Increment json.RawMessage
	Prefix    string
	Until     *time.Time
	Ranges    []rangeBody

	segments []segment
	total    int64
}

// timeField is how an ID has its time.
type timeField struct {
	EpochMs     int64 `json:"epoch_ms"`
	UnitMs      int64 `json:"unit_ms"`
	Shift, Bits uint
}

// fits reports whether an ID, which has 63 bits, can have such a time.
func (t *timeField) fits() bool {
	return t.UnitMs >= 1 && t.Bits >= 1 && t.Bits <= 63 && t.Shift <= 63-t.Bits
}

// equals reports whether both are absent, or are how IDs of one layout have their time.
func (t *timeField) equals(other *timeField) bool {
	return t == other || t != nil && other != nil && *t == *other
}

type rangeBody struct {
	First, Last, Step, Stride string
	Count, Repeat             int64
}

// segment is one range in the buffer: IDs by index, and how many of them were taken. mark is how
// many can be taken before somebody has to look at the whole buffer.
type segment struct {
	taken, mark atomic.Int64
	// ID i is first + i*step + i/period*jump.
	first, step, period, jump, count int64
	// expires is the reading of the client's clock from which on no ID may be used.
	expires int64
	// time and prefix are those of the answer.
	time   *timeField
	prefix string
	next   *segment
}

func (s *segment) id(i int64) int64 {
	id := s.first + i*s.step
	if s.jump != 0 {
		id += i / s.period * s.jump
	}
	return id
}

// readAnswer checks the answer to a request for up to upTo IDs, which was sent when the client's
// clock read sentAt. It refuses the whole answer if any part of it is wrong.
func readAnswer(body []byte, upTo, sentAt int64, maxAge time.Duration) (*answer, *Error) {
	a := &answer{}
	err := json.Unmarshal(body, a)
	if err != nil || len(a.Ranges) == 0 || a.Until != nil && a.IssuedAt.IsZero() {
		return &answer{}, fail(KindInvalidAnswer, err, "not the JSON of ranges, or until without issued_at")
	}
	if a.Time != nil && !a.Time.fits() {
		return &answer{}, fail(KindInvalidAnswer, nil, "time %+v: has no place in an ID", *a.Time)
	}
	expires := sentAt + int64(min(maxAge, never/2))
	if a.Layout == nil && a.Increment != nil {
		expires = never
	}
	if a.Until != nil {
		// Both are readings of the service's clock, and the request was sent before the first.
		expires = min(expires, sentAt+int64(min(a.Until.Sub(a.IssuedAt), never/2)))
	}
	a.segments = make([]segment, len(a.Ranges))
	end, previous := int64(-1), &segment{}
	for i, r := range a.Ranges {
		s := &a.segments[i]
		if !r.read(s, upTo-a.total) || s.first <= end {
			return &answer{}, fail(KindInvalidAnswer, nil, "range %d, %+v: breaks the contract", i, r)
		}
		s.expires, s.time, s.prefix, end = expires, a.Time, a.Prefix, s.id(s.count-1)
		s.mark.Store(s.count)
		previous.next, previous = s, s
		a.total += s.count
	}
	a.Ranges = nil
	return a, nil
}

// read checks a range of at most room IDs, and writes it to s.
func (r rangeBody) read(s *segment, room int64) bool {
	if r.Repeat == 0 && r.Stride == "" {
		r.Repeat, r.Stride = 1, "0"
	}
	first, ok1 := parseID(r.First)
	last, ok2 := parseID(r.Last)
	step, ok3 := parseID(r.Step)
	stride, ok4 := parseID(r.Stride)
	span := last - first
	if !ok1 || !ok2 || !ok3 || !ok4 || step < 1 || r.Count < 1 || r.Repeat < 1 || r.Repeat > room/r.Count ||
		// Neither product below exceeds the span.
		r.Count-1 > span/step || r.Repeat-1 > span/max(stride, 1) {
		return false
	}
	length := (r.Count - 1) * step
	s.first, s.step, s.period, s.count = first, step, r.Count, r.Count*r.Repeat
	if r.Repeat > 1 {
		s.jump = stride - r.Count*step
	}
	return span-length == (r.Repeat-1)*stride && (r.Repeat == 1 || stride > length)
}

// parseID reads a decimal number from 0 to 2^63 - 1 as the service writes it.
func parseID(text string) (int64, bool) {
	id, err := strconv.ParseUint(text, 10, 63)
	return int64(id), err == nil && (text[0] != '0' || text == "0")
}

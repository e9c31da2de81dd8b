// Package raindrop is a client of the Raindrop ID service. It leases ranges of IDs and hands
// them out from memory, so most calls need no round trip, and the process needs no worker id.
//
// A [Client] keeps one buffer for each code and refills it in the background at the rate of use.
// All methods may be called by any number of goroutines at once.
//
// # Freshness
//
// An ID carries the time at which the service claimed it. The client hands out no ID that was
// claimed [Options].MaxAge ago or earlier. It reads a steady clock for each ID, so this also holds
// after the process was stopped. The clock is that of [time.Since]: on Linux and macOS it stands
// still while the machine is suspended, and such a time does not count.
package raindrop

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Options are the settings of a [Client]. Values of zero or less stand for the defaults.
type Options struct {
	// Token returns the bearer token before each request, so that it can rotate; see
	// [StaticToken]. Its error or panic fails the request with an error of [KindTransport]. It
	// counts towards RequestTimeout, and should return when its context is over. By default
	// requests have no token.
	Token func(context.Context) (string, error)
	// HTTPClient sends the requests, for example with TLS settings of your own. The client uses a
	// copy that follows no redirects, so that the token goes nowhere else. By default it has the
	// settings of [http.DefaultTransport] and connections of its own, which Close closes. A request
	// that a waiting call caused has the values of its context, for a transport that passes traces on.
	HTTPClient *http.Client
	// Namespace is added to each request. By default the service chooses it by the code.
	Namespace string
	// Target is how long a full buffer should last at the rate of use, 2 s by default.
	Target time.Duration
	// MinRange and MaxRange bound how many IDs a request asks for, by default 1 and 100 000.
	// MaxRange also bounds NextMany.
	MinRange, MaxRange int
	// MaxAge is the age from which on an ID is not handed out, counted from before its request
	// was sent; 10 s by default. Numbers of segment mode have no age.
	MaxAge time.Duration
	// Deadline is how long a call waits whose context has no deadline, 2 s by default.
	Deadline time.Duration
	// RequestTimeout limits each HTTP request. By default it is 5 s; with several base URLs it is
	// half of Deadline, but 1 s to 5 s, so that a call has time for the next one.
	RequestTimeout time.Duration
	// OnEvent is called with each event, for metrics. It may run on several goroutines at once,
	// also on those that draw IDs, and must return soon.
	OnEvent func(Event)
	// Logger is told of a failed refill, at most once a minute; [slog.Default] by default.
	Logger *slog.Logger
	// Clock replaces the steady clock, for tests. It returns the time since a fixed instant.
	Clock func() time.Duration
}

// StaticToken returns a source of one token, for [Options].
func StaticToken(token string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { return token, nil }
}

// What an [Event] is about. A request for UpTo IDs to URL ended after Duration, with IDs or with
// Err. IDs were dropped, because they were too old, the service moved to another layout, their
// caller failed, or the client was closed. A call found too few IDs and waited for Duration; Err is
// what it returned.
const EventRequest, EventDropped, EventWait = "request", "dropped", "wait"

// Event is what [Options].OnEvent is told. Kind is one of the constants above.
type Event struct {
	Kind, Code, URL string
	Duration        time.Duration
	UpTo, IDs       int64
	Err             error
}

// Kind tells what went wrong.
type Kind string

const (
	// KindProblem: the service answered with a problem document; see Code, Status and Detail.
	KindProblem Kind = "problem"
	// KindInvalidAnswer: the service answered, but the answer failed a check. None of it is used.
	KindInvalidAnswer Kind = "invalid_answer"
	// KindTransport: no whole answer came, or one that is neither IDs nor a problem document.
	KindTransport Kind = "transport"
	// KindDeadline: no ID came before the deadline of the call.
	KindDeadline Kind = "deadline"
	// KindCancelled: the context of the call was cancelled.
	KindCancelled Kind = "cancelled"
	// KindClosed: the client is closed.
	KindClosed Kind = "closed"
	// KindUsage: an argument is outside its range, OnEvent panicked, or no ID of the code can be a
	// UUID.
	KindUsage Kind = "usage"
)

// Error is the type of every error of this package. Callers share it, so do not change it.
type Error struct {
	Kind Kind
	// Code and Status are those of the problem document. Other kinds have no Code, and a Status
	// only if a proxy answered.
	Code, Detail string
	Status       int
	// RetryAfter is how long the service asked to wait, as far as the client follows it: at most
	// the larger of 60 s and MaxAge. It is 0 if the service did not ask.
	RetryAfter time.Duration
	// Cause is the error underneath, such as [context.DeadlineExceeded], or nil.
	Cause error
}

// Error returns the code or the kind, and the detail.
func (e *Error) Error() string {
	return fmt.Sprintf("raindrop: %s: %s", cmp.Or(e.Code, string(e.Kind)), e.Detail)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// isCertain reports whether every node would answer so, now and later.
func (e *Error) isCertain() bool {
	switch e.Status {
	case http.StatusUnauthorized, http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return false // of one node, or of one moment
	}
	return e.Kind == KindUsage || e.Kind == KindProblem && e.Status >= 400 && e.Status < 500
}

func fail(kind Kind, cause error, format string, arguments ...any) *Error {
	detail := fmt.Sprintf(format, arguments...)
	if cause != nil {
		detail += ": " + cause.Error()
	}
	return &Error{Kind: kind, Detail: detail, Cause: cause}
}

var closed = fail(KindClosed, nil, "the client is closed")

// Client leases ranges of IDs and hands them out from memory. Create it once with [New], share it
// between goroutines, and end it with [Client.Close].
type Client struct {
	options   Options
	http      http.Client
	urls      []string
	ownsHTTP  bool
	preferred atomic.Int64 // index of the URL that succeeded last
	loggedAt  atomic.Int64 // when a failure was logged last, in Unix nanoseconds
	context   context.Context
	cancel    context.CancelFunc
	// codes is read without the lock, and replaced as a whole.
	codes atomic.Pointer[map[string]*Code]
	lock  sync.Mutex
}

// New returns a client of the service with the given base URLs. A client uses the URL that
// succeeded last, and the others when it fails. New sends no request; its error is of
// [KindUsage].
func New(urls []string, options Options) (*Client, error) {
	o, started := options, time.Now()
	setDefault(&o.Token, o.Token == nil, StaticToken(""))
	setDefault(&o.Target, o.Target <= 0, 2*time.Second)
	setDefault(&o.MaxAge, o.MaxAge <= 0, 10*time.Second)
	setDefault(&o.Deadline, o.Deadline <= 0, 2*time.Second)
	timeout := 5 * time.Second
	if len(urls) > 1 {
		timeout = min(max(o.Deadline/2, time.Second), timeout)
	}
	setDefault(&o.RequestTimeout, o.RequestTimeout <= 0, timeout)
	setDefault(&o.MinRange, o.MinRange <= 0, 1)
	setDefault(&o.MaxRange, o.MaxRange <= 0, 100_000)
	setDefault(&o.OnEvent, o.OnEvent == nil, func(Event) {})
	setDefault(&o.Clock, o.Clock == nil, func() time.Duration { return time.Since(started) })
	setDefault(&o.Logger, o.Logger == nil, slog.Default())
	c := &Client{options: o, http: *cmp.Or(o.HTTPClient, http.DefaultClient)}
	if transport, ok := http.DefaultTransport.(*http.Transport); ok && o.HTTPClient == nil {
		c.http.Transport, c.ownsHTTP = transport.Clone(), true
	}
	usable := len(urls) > 0
	for _, text := range urls {
		u, err := url.Parse(text)
		usable = usable && err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https") &&
			u.User == nil && u.RawQuery == "" && u.Fragment == ""
		c.urls = append(c.urls, strings.TrimRight(text, "/"))
	}
	if !usable || o.MinRange > o.MaxRange {
		return nil, fail(KindUsage, nil, "there must be base URLs, each http:// or https:// with a host and perhaps a path, and MinRange must be at most MaxRange")
	}
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	c.context, c.cancel = context.WithCancel(context.Background())
	c.codes.Store(&map[string]*Code{})
	return c, nil
}

func setDefault[T any](option *T, missing bool, value T) {
	if missing {
		*option = value
	}
}

// Code returns the handle of a code. Keep it where many IDs are drawn: it saves the look-up by
// name. The first call for a code creates its buffer, which stays until Close; it copies the map
// of codes, so a client is for thousands of codes, not for millions. The service refuses what is
// no code.
func (c *Client) Code(name string) *Code {
	if code := (*c.codes.Load())[name]; code != nil {
		return code
	}
	c.lock.Lock()
	defer c.lock.Unlock()
	codes := maps.Clone(*c.codes.Load())
	if codes[name] == nil {
		codes[name] = newCode(c, name)
		c.codes.Store(&codes)
	}
	return codes[name]
}

// Next returns one ID of a code. See [Code.Next].
func (c *Client) Next(ctx context.Context, code string) (int64, error) { return c.Code(code).Next(ctx) }

// NextMany returns n ascending IDs of a code. See [Code.NextMany].
func (c *Client) NextMany(ctx context.Context, code string, n int) ([]int64, error) {
	return c.Code(code).NextMany(ctx, n)
}

// NextText returns one ID of a code as text. See [Code.NextText].
func (c *Client) NextText(ctx context.Context, code string) (string, error) {
	return c.Code(code).NextText(ctx)
}

// NextTextMany returns n ascending IDs of a code as texts. See [Code.NextTextMany].
func (c *Client) NextTextMany(ctx context.Context, code string, n int) ([]string, error) {
	return c.Code(code).NextTextMany(ctx, n)
}

// NextUUID returns one ID of a code as a UUID. See [Code.NextUUID].
func (c *Client) NextUUID(ctx context.Context, code string) ([16]byte, error) {
	return c.Code(code).NextUUID(ctx)
}

// NextUUIDMany returns n ascending IDs of a code as UUIDs. See [Code.NextUUIDMany].
func (c *Client) NextUUIDMany(ctx context.Context, code string, n int) ([][16]byte, error) {
	return c.Code(code).NextUUIDMany(ctx, n)
}

// WarmUp waits until the buffer of a code has an ID. See [Code.WarmUp].
func (c *Client) WarmUp(ctx context.Context, code string) error { return c.Code(code).WarmUp(ctx) }

// TimeOf returns when the service claimed an ID of a code. See [Code.TimeOf].
func (c *Client) TimeOf(code string, id int64) (time.Time, bool) { return c.Code(code).TimeOf(id) }

// Close ends the background work and drops all buffers. Callers that wait, and later calls, get
// an error of [KindClosed].
func (c *Client) Close() {
	c.cancel()
	for _, code := range *c.codes.Load() {
		code.empty()
	}
	if c.ownsHTTP {
		c.http.CloseIdleConnections()
	}
}

// logFailure logs the error of a refill, unless one was logged less than a minute ago.
func (c *Client) logFailure(code string, err *Error) {
	now, last := time.Now().UnixNano(), c.loggedAt.Load()
	if now-last >= int64(time.Minute) && c.loggedAt.CompareAndSwap(last, now) {
		c.options.Logger.Warn("raindrop: refill failed", "code", code, "error", err)
	}
}

// now returns the reading of the steady clock, in nanoseconds.
func (c *Client) now() int64 { return int64(c.options.Clock()) }

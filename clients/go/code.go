package raindrop

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// Code is the handle of one code of a [Client], with its buffer: a chain of ranges. Taking from
// the current range needs no lock.
type Code struct {
	client *Client
	name   string
	// current is the range that IDs are taken from. The last one stays when it is used up.
	current atomic.Pointer[segment]
	latest  atomic.Pointer[answer]

	lock sync.Mutex
	last *segment
	// supply is how many IDs were fetched and not dropped, queued how many are in ranges after the
	// current one, lacking how many the waiting callers need.
	supply, queued, lacking int64
	// refill is the one under way, or nil. It alone changes ceiling, the most to ask for.
	refill  *refill
	ceiling int64
	// seen are the first IDs of the latest answers, changed by the refill alone, too. So is askAt:
	// the readings of the clock before which each URL asked not to be asked again.
	seen, askAt []int64
	// failure is what callers get until the clock reads retryAt; a success unsets all three.
	failure  *Error
	retryAt  int64
	failures int
	// usage is how many IDs are used in half of the target time, at the present rate. It was
	// measured at an instant at which measuredUse IDs of the supply had been used.
	usage                   float64
	measuredAt, measuredUse int64
}

// refill is one attempt to fetch IDs, which timer starts. err may be read when done is closed.
type refill struct {
	timer *time.Timer
	done  chan struct{}
	err   error
}

func newCode(client *Client, name string) *Code {
	c := &Code{client: client, name: name, last: &segment{}, ceiling: int64(client.options.MaxRange),
		askAt: make([]int64, len(client.urls)), measuredAt: client.now()}
	c.current.Store(c.last)
	return c
}

// Next returns one ID. With a warm buffer it returns at once, whatever ctx says; otherwise it
// waits until ctx is over, or for [Options].Deadline if ctx has no deadline.
//
// Errors are of type [*Error]. After a failed request, calls fail with its error at once until
// the next attempt is due, unless that is before their deadline.
func (c *Code) Next(ctx context.Context) (int64, error) {
	if s, i, n := c.take(1); n == 1 {
		return s.id(i), nil
	}
	ids, err := c.draw(ctx, 1)
	return append(ids, 0)[0], err
}

// TryNext returns one ID of the warm buffer, and false if the buffer is empty: then call
// [Code.Next], which fills it. A buffer that gets low is refilled in the background.
func (c *Code) TryNext() (int64, bool) {
	s, i, n := c.take(1)
	if n == 0 {
		return 0, false
	}
	return s.id(i), true
}

// NextMany returns n ascending IDs: 1 to [Options].MaxRange. It returns all of them or an error;
// IDs that a failed call had taken are lost. It waits like [Code.Next].
func (c *Code) NextMany(ctx context.Context, n int) ([]int64, error) {
	if n < 1 || n > c.client.options.MaxRange {
		return nil, fail(KindUsage, nil, "%d IDs: must be 1 to MaxRange, %d", n, c.client.options.MaxRange)
	}
	ids, err := c.draw(ctx, n)
	// After a fail-over, the ranges of two nodes can overlap.
	slices.Sort(ids)
	return ids, err
}

// NextText returns one ID in decimal, after the prefix of the code. It waits like [Code.Next].
func (c *Code) NextText(ctx context.Context) (string, error) {
	texts, err := c.NextTextMany(ctx, 1)
	return append(texts, "")[0], err
}

// NextTextMany returns the IDs of [Code.NextMany] as texts like those of [Code.NextText].
func (c *Code) NextTextMany(ctx context.Context, n int) ([]string, error) {
	ids, err := c.NextMany(ctx, n)
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = c.latest.Load().Prefix + strconv.FormatInt(id, 10)
	}
	return texts, err
}

// TimeOf returns when the service claimed an ID, by the layout of the last answer. It returns
// false before the first answer, and for IDs that carry no time, such as those of segment mode.
func (c *Code) TimeOf(id int64) (time.Time, bool) {
	a := c.latest.Load()
	if a == nil || a.Time == nil {
		return time.Time{}, false
	}
	return time.UnixMilli(a.Time.EpochMs + id>>a.Time.Shift&(1<<a.Time.Bits-1)*a.Time.UnitMs), true
}

// take takes up to n IDs of one range. It returns the range, the first index and how many; none
// if the buffer is empty.
func (c *Code) take(n int64) (*segment, int64, int64) {
	s := c.current.Load()
	from := s.taken.Add(n) - n
	if from+n <= s.mark.Load() && (s.expires == never || c.client.now() < s.expires) {
		return s, from, n
	}
	if got, empty := c.settle(s, from, n); got > 0 || empty {
		return s, from, got
	}
	return c.take(n)
}

// settle returns how many of n IDs, taken from an index on, exist and may be used, and whether
// the buffer is empty. It replaces a range that is used up or too old, and begins a refill if the
// buffer is low.
func (c *Code) settle(s *segment, from, n int64) (got int64, empty bool) {
	now, dropped := c.client.now(), int64(0)
	got = min(n, max(s.count-from, 0))
	if now >= s.expires {
		got, dropped = 0, got
	}
	c.lock.Lock()
	dropped += c.advance(now)
	c.supply -= dropped
	// A caller with too few goes on with the next range, or begins a refill that has room for it.
	if got == n && c.refill == nil && now >= c.retryAt {
		if c.measure(now); float64(c.rest()) < math.Round(c.usage) {
			c.begin(now, 0)
		}
	}
	c.setMark()
	empty = c.rest() == 0
	c.lock.Unlock()
	c.observeDropped(dropped)
	return got, empty
}

// advance makes the first range current that has IDs which are not too old, if there is one. It
// returns how many IDs it dropped.
func (c *Code) advance(now int64) (dropped int64) {
	for s := c.current.Load(); now >= s.expires || s.taken.Load() >= s.count; s = s.next {
		// Callers that already have an index keep it; later ones find the range used up.
		dropped += max(s.count-s.taken.Swap(s.count), 0)
		if s.next == nil {
			break
		}
		c.queued -= s.next.count
		c.current.Store(s.next)
	}
	return dropped
}

// setMark sets when takers must look at the whole buffer next: when a quarter of it is used, or
// the current range. What waiting callers take tells no rate: perhaps they need no more.
func (c *Code) setMark() {
	s := c.current.Load()
	mark := s.count
	if c.lacking == 0 {
		mark = min(mark, s.taken.Load()+c.rest()/4+1)
	}
	s.mark.Store(mark)
}

// rest returns how many IDs the buffer has.
func (c *Code) rest() int64 {
	s := c.current.Load()
	return c.queued + max(s.count-s.taken.Load(), 0)
}

// draw takes n IDs, and waits where the buffer has too few.
func (c *Code) draw(ctx context.Context, n int) ([]int64, error) {
	ids, oldest := c.takeAll(make([]int64, 0, n), never)
	if len(ids) == n {
		return ids, nil
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.client.options.Deadline)
		defer cancel()
	}
	var err error
	since, announced, dropped := time.Now(), 0, 0
	for err == nil && len(ids) < n {
		more := n - len(ids) - announced
		announced += more
		var r *refill
		if r, err = c.join(ctx, int64(more)); r != nil {
			select {
			case <-r.done:
				err = r.err
			case <-ctx.Done():
				err = c.interrupted(ctx)
			case <-c.client.context.Done():
				err = closed
			}
		}
		if err == nil {
			ids, oldest = c.takeAll(ids, oldest)
		}
		// IDs can become too old while their caller waits for more.
		if err != nil || c.client.now() >= oldest {
			dropped += len(ids)
			ids, oldest = ids[:0], never
		}
	}
	c.lock.Lock()
	c.lacking -= int64(announced)
	c.setMark()
	c.lock.Unlock()
	c.observeDropped(int64(dropped))
	c.client.options.Observer(Event{Kind: EventWait, Code: c.name, Duration: time.Since(since), Err: err})
	return ids, err
}

// takeAll appends IDs until ids is full or the buffer is empty. It returns the earliest expiry.
func (c *Code) takeAll(ids []int64, oldest int64) ([]int64, int64) {
	for len(ids) < cap(ids) {
		s, from, got := c.take(int64(cap(ids) - len(ids)))
		if got == 0 {
			break
		}
		for i := from; i < from+got; i++ {
			ids = append(ids, s.id(i))
		}
		oldest = min(oldest, s.expires)
	}
	return ids, oldest
}

func (c *Code) observeDropped(ids int64) {
	if ids > 0 {
		c.client.options.Observer(Event{Kind: EventDropped, Code: c.name, IDs: ids})
	}
}

// join returns the refill to wait for, which it begins if there is none, or nil if there is an
// error, or the buffer has IDs. more is how many IDs the caller lacks beyond what it said before.
func (c *Code) join(ctx context.Context, more int64) (*refill, error) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.lacking += more
	now := c.client.now()
	pause := time.Duration(c.retryAt - now)
	deadline, _ := ctx.Deadline()
	switch {
	case c.client.context.Err() != nil:
		return nil, closed
	case ctx.Err() != nil:
		return nil, c.interrupted(ctx)
	case c.rest() > 0:
		return nil, nil
	case c.failure != nil && pause > 0 && time.Until(deadline) <= pause:
		return nil, c.failure
	case c.refill == nil:
		c.begin(now, pause)
	}
	return c.refill, nil
}

// interrupted returns the error of a caller whose context is over.
func (c *Code) interrupted(ctx context.Context) error {
	kind := KindDeadline
	if ctx.Err() == context.Canceled {
		kind = KindCancelled
	}
	return fail(kind, ctx.Err(), "no ID of code %s", c.name)
}

// begin begins a refill. Its request is sent after a pause, for what is used within the target
// and what callers lack.
func (c *Code) begin(now int64, pause time.Duration) {
	c.measure(now)
	size := max(int64(min(2*c.usage, float64(c.ceiling)))+c.lacking, int64(c.client.options.MinRange))
	r := &refill{done: make(chan struct{})}
	c.refill = r
	r.timer = time.AfterFunc(pause, func() { c.run(r, min(size, c.ceiling)) })
}

// measure brings usage up to date: a mean that forgets, with half of the target as its time
// constant.
func (c *Code) measure(now int64) {
	used := c.supply - c.rest()
	elapsed := max(float64(now-c.measuredAt), 1) / float64(c.client.options.Target/2)
	// The newly used IDs count as if they were used evenly in the time that elapsed.
	share := -math.Expm1(-elapsed) / elapsed
	c.usage = c.usage*math.Exp(-elapsed) + float64(max(used-c.measuredUse, 0))*share
	c.measuredAt, c.measuredUse = now, used
}

// run fetches IDs. However it ends, also if the observer panics, it wakes those who wait.
func (c *Code) run(r *refill, size int64) {
	var a *answer
	err := fail(KindTransport, nil, "the refill ended early")
	defer func() {
		if reason := recover(); reason != nil {
			err = fail(KindTransport, nil, "the observer panicked: %v", reason)
		}
		c.finish(r, a, err)
	}()
	for ; ; size = c.ceiling {
		a, err = c.client.fetch(c, size)
		if err == nil || err.Code != "invalid_count" || size == 1 {
			return
		}
		// The service or the layout allows less than the client's options.
		c.ceiling = size / 2
	}
}

// finish keeps what a refill came to.
func (c *Code) finish(r *refill, a *answer, err *Error) {
	c.lock.Lock()
	defer c.lock.Unlock()
	if c.client.context.Err() != nil {
		return
	}
	c.refill, c.failure = nil, err
	if err != nil {
		r.err = err
		c.failures++
		c.retryAt = max(c.client.now()+int64(backOff(c.failures)), slices.Min(c.askAt))
	} else {
		c.failures, c.retryAt = 0, 0
		c.latest.Store(a)
		c.supply += a.total
		c.queued += a.total
		c.last.next = &a.segments[0]
		c.last = &a.segments[len(a.segments)-1]
	}
	close(r.done)
}

// backOff returns how long to wait after so many failures in a row, with jitter.
func backOff(failures int) time.Duration {
	longest := min(100*time.Millisecond<<min(failures, 10), 10*time.Second)
	return longest/2 + rand.N(longest/2+1)
}

// empty drops the buffer of a closed client, and the refill that waits for its pause.
func (c *Code) empty() {
	c.lock.Lock()
	defer c.lock.Unlock()
	if c.refill != nil {
		c.refill.timer.Stop()
	}
	c.queued = 0
	c.current.Store(&segment{})
}

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

// longestBackOff is the longest pause after failures. A caller that waits is reason to ask again
// after it, whatever Retry-After said.
const longestBackOff = 10 * time.Second

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
	// seen are the first IDs of the latest answers, used or not. askAt are the readings of the clock before
	// which each URL asked not to be asked again. The refill alone changes both.
	seen, askAt []int64
	// failure is of the last refill, at failedAt. The next one may begin when the clock reads
	// retryAt. A success unsets all but failedAt.
	failure           *Error
	failedAt, retryAt int64
	failures          int
	// fetched is how many IDs the last answer had, which came at fetchedAt.
	fetched, fetchedAt int64
	// usage is how many IDs are used in half of the target time, at the present rate. It was
	// measured at an instant at which measuredUse IDs of the supply had been used.
	usage                   float64
	measuredAt, measuredUse int64
}

// refill is one attempt to fetch IDs, which timer starts. err may be read when done is closed.
type refill struct {
	timer *time.Timer
	done  chan struct{}
	err   *Error
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
// Errors are of type [*Error]. After a failed request, calls wait for the next attempt if it is
// due before their deadline; otherwise they fail with its error at once. What every node would
// answer, such as a wrong code, fails those who wait at once, too.
func (c *Code) Next(ctx context.Context) (int64, error) {
	if s, i, n := c.take(1); n == 1 {
		return s.id(i), nil
	}
	b := newBatch(1)
	err := c.draw(ctx, b)
	return append(b.ids, 0)[0], err
}

// TryNext returns one ID of the warm buffer, and false if the buffer is empty. It never waits. A
// refill begins in the background if the buffer is low or empty, unless one is under way or the
// last one failed just now.
func (c *Code) TryNext() (int64, bool) {
	s, i, n := c.take(1)
	if n == 1 {
		return s.id(i), true
	}
	c.lock.Lock()
	defer c.lock.Unlock()
	if now := c.client.now(); c.refill == nil && now >= c.retryAt && c.rest() == 0 && c.client.context.Err() == nil {
		c.begin(c.client.context, now, 0)
	}
	return 0, false
}

// WarmUp waits until the buffer has an ID, and takes none: for example before a process says that
// it is ready. It waits and fails like [Code.Next]. With [Options].MinRange, the buffer then has
// as many IDs.
func (c *Code) WarmUp(ctx context.Context) error {
	if c.isWarm() {
		return nil
	}
	w, cancel := c.newWait(ctx)
	defer cancel()
	defer c.lack(-1)
	since := time.Now()
	err := c.await(w, 1)
	for err == nil && !c.isWarm() {
		err = c.await(w, 0)
	}
	c.observeWait(since, err)
	return err
}

// isWarm reports whether the buffer has IDs, after it has dropped what is too old.
func (c *Code) isWarm() bool {
	c.lock.Lock()
	dropped := c.advance(c.client.now())
	c.supply -= dropped
	isWarm := c.rest() > 0
	c.lock.Unlock()
	c.observeDropped(dropped)
	return isWarm
}

// NextMany returns n ascending IDs: 1 to [Options].MaxRange. It returns all of them or an error;
// IDs that a failed call had taken are lost. It waits like [Code.Next].
func (c *Code) NextMany(ctx context.Context, n int) ([]int64, error) {
	if err := c.checkCount(n); err != nil {
		return nil, err
	}
	b := newBatch(n)
	err := c.draw(ctx, b)
	return b.ids, err
}

func (c *Code) checkCount(n int) error {
	if n < 1 || n > c.client.options.MaxRange {
		return fail(KindUsage, nil, "%d IDs: must be 1 to MaxRange, %d", n, c.client.options.MaxRange)
	}
	return nil
}

// NextText returns one ID in decimal, after the prefix of the code. It waits like [Code.Next].
func (c *Code) NextText(ctx context.Context) (string, error) {
	if s, i, n := c.take(1); n == 1 {
		return s.prefix + strconv.FormatInt(s.id(i), 10), nil
	}
	texts, err := c.NextTextMany(ctx, 1)
	return append(texts, "")[0], err
}

// NextTextMany returns the IDs of [Code.NextMany] as texts like those of [Code.NextText].
func (c *Code) NextTextMany(ctx context.Context, n int) ([]string, error) {
	if err := c.checkCount(n); err != nil {
		return nil, err
	}
	b := newBatch(n)
	b.prefixes = make(map[int64]string, n)
	err := c.draw(ctx, b)
	texts := make([]string, len(b.ids))
	for i, id := range b.ids {
		texts[i] = b.prefixes[id] + strconv.FormatInt(id, 10)
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
			c.begin(c.client.context, now, 0)
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

// batch is what a call has drawn, as many IDs as ids has room for when it is full.
type batch struct {
	ids []int64
	// oldest is the reading of the clock from which on one of the IDs is too old.
	oldest int64
	// oneTime is whether all IDs must have come with the same time, which is that of the last one.
	oneTime bool
	time    *timeField
	// prefixes are those of the IDs, or nil if the call makes no texts.
	prefixes map[int64]string
}

func newBatch(n int) *batch { return &batch{ids: make([]int64, 0, n), oldest: never} }

// drop empties the batch, and returns how many IDs it had.
func (b *batch) drop() int {
	dropped := len(b.ids)
	b.ids, b.oldest = b.ids[:0], never
	return dropped
}

// draw fills a batch with ascending IDs, and waits where the buffer has too few.
func (c *Code) draw(ctx context.Context, b *batch) error {
	dropped := c.takeAll(b)
	var err error
	if n := cap(b.ids); len(b.ids) < n {
		w, cancel := c.newWait(ctx)
		defer cancel()
		since, announced := time.Now(), 0
		for err == nil && len(b.ids) < n {
			more := n - len(b.ids) - announced
			announced += more
			err = c.await(w, int64(more))
			if err == nil {
				dropped += c.takeAll(b)
			}
			// IDs can become too old while their caller waits for more.
			if err != nil || c.client.now() >= b.oldest {
				dropped += b.drop()
			}
		}
		c.lack(-int64(announced))
		defer c.observeWait(since, err)
	}
	c.observeDropped(int64(dropped))
	// After a fail-over, the ranges of two nodes can overlap.
	slices.Sort(b.ids)
	return err
}

// wait is a call that waits for IDs, and why the last refill failed meanwhile, if it did.
type wait struct {
	ctx     context.Context
	failure *Error
}

// newWait returns the wait of a call, which ends with ctx or after [Options].Deadline.
func (c *Code) newWait(ctx context.Context) (*wait, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return &wait{ctx: ctx}, func() {}
	}
	ctx, cancel := context.WithTimeout(ctx, c.client.options.Deadline)
	return &wait{ctx: ctx}, cancel
}

// await waits for the end of a refill, which it begins if there is none, and returns an error if
// the call must not go on waiting. more is how many IDs the caller lacks beyond what it said before.
func (c *Code) await(w *wait, more int64) error {
	r, err := c.join(w.ctx, more)
	if err == nil && r != nil {
		select {
		case <-r.done:
			if r.err != nil {
				w.failure = r.err
			}
			if r.err != nil && r.err.isCertain() {
				err = r.err
			}
		case <-w.ctx.Done():
			err = c.interrupted(w.ctx)
		case <-c.client.context.Done():
			err = closed
		}
	}
	if err != nil && err.Kind == KindDeadline && w.failure != nil {
		err = w.failure // It says more than that the time is over.
	}
	if err == nil {
		return nil // not a nil pointer in an error
	}
	return err
}

// lack adds to how many IDs the waiting callers need.
func (c *Code) lack(more int64) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.lacking += more
	c.setMark()
}

// takeAll takes IDs until the batch is full or the buffer is empty. It returns how many IDs of the
// batch it dropped because later ones came with another time.
func (c *Code) takeAll(b *batch) (dropped int) {
	for len(b.ids) < cap(b.ids) {
		s, from, got := c.take(int64(cap(b.ids) - len(b.ids)))
		if got == 0 {
			break
		}
		if b.oneTime && !b.time.equals(s.time) {
			dropped += b.drop()
		}
		for i := from; i < from+got; i++ {
			b.ids = append(b.ids, s.id(i))
			if b.prefixes != nil {
				b.prefixes[s.id(i)] = s.prefix
			}
		}
		b.oldest, b.time = min(b.oldest, s.expires), s.time
	}
	return dropped
}

func (c *Code) observeDropped(ids int64) {
	if ids > 0 {
		c.client.options.OnEvent(Event{Kind: EventDropped, Code: c.name, IDs: ids})
	}
}

// observeWait tells OnEvent that a call which found too few IDs has ended.
func (c *Code) observeWait(since time.Time, err error) {
	c.client.options.OnEvent(Event{Kind: EventWait, Code: c.name, Duration: time.Since(since), Err: err})
}

// join returns the refill to wait for, which it begins if there is none, or nil if there is an
// error, or the buffer has IDs. more is how many IDs the caller lacks beyond what it said before.
func (c *Code) join(ctx context.Context, more int64) (*refill, *Error) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.lacking += more
	now := c.client.now()
	pause := time.Duration(min(c.retryAt, c.failedAt+int64(longestBackOff)) - now)
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
		c.begin(valuesOf{c.client.context, ctx}, now, pause)
	}
	return c.refill, nil
}

// interrupted returns the error of a caller whose context is over.
func (c *Code) interrupted(ctx context.Context) *Error {
	kind := KindDeadline
	if ctx.Err() == context.Canceled {
		kind = KindCancelled
	}
	return fail(kind, ctx.Err(), "no ID of code %s", c.name)
}

// valuesOf is the context of the client with the values of a caller, such as the span of a tracer.
// The request outlives the call if others wait for it, too.
type valuesOf struct {
	context.Context
	caller context.Context
}

func (v valuesOf) Value(key any) any {
	if value := v.Context.Value(key); value != nil {
		return value
	}
	return v.caller.Value(key)
}

// begin begins a refill in a context of the client. Its request is sent after a pause, for what is used within the target
// and what callers lack. While callers wait, they can use little, so a buffer that ran dry within
// the target is followed by twice as many IDs.
func (c *Code) begin(ctx context.Context, now int64, pause time.Duration) {
	c.measure(now)
	size := max(int64(min(2*c.usage, float64(c.ceiling)))+c.lacking, int64(c.client.options.MinRange))
	if c.rest() == 0 && now-c.fetchedAt < int64(c.client.options.Target) {
		size = max(size, 2*c.fetched)
	}
	r := &refill{done: make(chan struct{})}
	c.refill = r
	r.timer = time.AfterFunc(pause, func() { c.run(ctx, r, min(size, c.ceiling)) })
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

// run fetches IDs. However it ends, also if OnEvent panics, it wakes those who wait.
func (c *Code) run(ctx context.Context, r *refill, size int64) {
	var a *answer
	err := fail(KindUsage, nil, "OnEvent ended the refill")
	defer func() {
		if reason := recover(); reason != nil {
			err = fail(KindUsage, nil, "OnEvent panicked: %v", reason)
		}
		c.finish(r, a, err)
		if err != nil && c.client.context.Err() == nil {
			c.client.logFailure(c.name, err)
		}
	}()
	for ; ; size = c.ceiling {
		a, err = c.client.fetch(ctx, c, size)
		if err == nil {
			c.dropUnlike(a)
		}
		if err == nil || err.Code != "invalid_count" || size == 1 {
			return
		}
		// The service or the layout allows less than the client's options.
		c.ceiling = size / 2
	}
}

// dropUnlike drops the buffer if an answer has another time than the last one: the service has moved
// to another layout. The IDs of this answer and of later ones are read by the new time.
func (c *Code) dropUnlike(a *answer) {
	c.lock.Lock()
	dropped := int64(0)
	if latest := c.latest.Load(); latest != nil && !latest.Time.equals(a.Time) {
		dropped = c.drain()
	}
	c.lock.Unlock()
	c.observeDropped(dropped)
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
		c.failedAt = c.client.now()
		c.retryAt = max(c.failedAt+int64(backOff(c.failures)), slices.Min(c.askAt))
	} else {
		c.failures, c.retryAt = 0, 0
		c.fetched, c.fetchedAt = a.total, c.client.now()
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
	longest := min(100*time.Millisecond<<min(failures, 10), longestBackOff)
	return longest/2 + rand.N(longest/2+1)
}

// empty drops the buffer of a closed client, and the refill that waits for its pause.
func (c *Code) empty() {
	c.lock.Lock()
	if c.refill != nil {
		c.refill.timer.Stop()
	}
	dropped := c.drain()
	c.lock.Unlock()
	c.observeDropped(dropped)
}

// drain takes all IDs of the buffer, and returns how many they were.
func (c *Code) drain() int64 {
	c.last = &segment{}
	s := c.current.Swap(c.last)
	dropped := c.queued + max(s.count-s.taken.Swap(s.count), 0)
	c.queued = 0
	c.supply -= dropped
	return dropped
}

package raindrop

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// service is a fake of the service. It answers with as many IDs as were asked for, but at most
// with most, unless reply is set.
type service struct {
	*httptest.Server
	lock     sync.Mutex
	next     int64
	most     int64
	requests []*http.Request
	upTo     []int64
	reply    http.HandlerFunc
}

const layoutTime = `"layout":"millisecond","time":{"epoch_ms":1735689600000,"unit_ms":1,"shift":22,"bits":41},`

func newService(t *testing.T) *service {
	s := &service{next: 252201579132751872, most: 1 << 40}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	upTo, _ := strconv.ParseInt(r.URL.Query().Get("up_to"), 10, 64)
	s.lock.Lock()
	s.requests = append(s.requests, r)
	s.upTo = append(s.upTo, upTo)
	reply := s.reply
	s.lock.Unlock()
	if reply != nil {
		reply(w, r)
		return
	}
	s.issue(w, upTo)
}

// issue answers with one range.
func (s *service) issue(w http.ResponseWriter, upTo int64) {
	s.lock.Lock()
	n := min(upTo, s.most)
	first := s.next
	s.next += n
	s.lock.Unlock()
	writeJSON(w, fmt.Sprintf(`{"issued_at":"2026-11-28T09:30:00.123Z",%s"prefix":"ORD-","ranges":[%s]}`,
		layoutTime, rangeOf(first, n)))
}

func rangeOf(first, count int64) string {
	return fmt.Sprintf(`{"first":"%d","last":"%d","step":"1","count":%d}`, first, first+count-1, count)
}

func writeJSON(w http.ResponseWriter, body string) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprint(w, body)
}

func (s *service) setReply(reply http.HandlerFunc) {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.reply = reply
}

// asked returns the sizes of the requests so far.
func (s *service) asked() []int64 {
	s.lock.Lock()
	defer s.lock.Unlock()
	return slices.Clone(s.upTo)
}

func problem(status int, code, retryAfter string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		if retryAfter != "" {
			w.Header().Set("Retry-After", retryAfter)
		}
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"type":"urn:raindrop:problem:%s","status":%d,"code":"%[1]s","detail":"why"}`, code, status)
	}
}

// fakeClock moves only when a test says so.
type fakeClock struct{ atomic.Int64 }

func (c *fakeClock) now() time.Duration       { return time.Duration(c.Load()) }
func (c *fakeClock) advance(by time.Duration) { c.Add(int64(by)) }

// events counts what OnEvent was told.
type events struct {
	lock                    sync.Mutex
	requests, failed, waits int
	fetched, dropped        int64
	upTo                    []int64
	errors                  []error
}

func (e *events) observe(event Event) {
	e.lock.Lock()
	defer e.lock.Unlock()
	switch event.Kind {
	case EventRequest:
		e.requests++
		e.fetched += event.IDs
		e.upTo = append(e.upTo, event.UpTo)
		if event.Err != nil {
			e.failed++
			e.errors = append(e.errors, event.Err)
		}
	case EventDropped:
		e.dropped += event.IDs
	case EventWait:
		e.waits++
	}
}

func newClient(t *testing.T, urls []string, options Options) *Client {
	t.Helper()
	c, err := New(urls, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func (s *service) client(t *testing.T, options Options) *Client {
	t.Helper()
	return newClient(t, []string{s.URL}, options)
}

func must[T any](t *testing.T) func(T, error) T {
	return func(value T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

func wantKind(t *testing.T, err error, kind Kind) *Error {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || e.Kind != kind {
		t.Fatalf("got %v, want an error of kind %s", err, kind)
	}
	return e
}

// eventually waits until a condition holds that another goroutine brings about.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !condition(); time.Sleep(50 * time.Microsecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

func (b *Code) idle() bool {
	b.lock.Lock()
	defer b.lock.Unlock()
	return b.refill == nil
}

var background = context.Background()

func TestIDsAreUniqueAndAscendInEachGoroutine(t *testing.T) {
	s := newService(t)
	s.most = 3000
	c := s.client(t, Options{Deadline: time.Minute})
	var drawn [8][]int64
	var group sync.WaitGroup
	for g := range drawn {
		group.Add(1)
		go func() {
			defer group.Done()
			code := c.Code("order")
			for k := range 20_000 {
				var ids []int64
				var err error
				switch k % 4 {
				case 0:
					ids, err = c.NextMany(background, "order", 7)
				case 1:
					if id, ok := code.TryNext(); ok {
						ids = []int64{id}
					}
				default:
					ids = make([]int64, 1)
					ids[0], err = code.Next(background)
				}
				if err != nil {
					t.Error(err)
					return
				}
				drawn[g] = append(drawn[g], ids...)
			}
		}()
	}
	group.Wait()
	all := slices.Concat(drawn[:]...)
	for _, ids := range drawn {
		if !slices.IsSorted(ids) {
			t.Error("a goroutine got a smaller ID after a larger one")
		}
	}
	slices.Sort(all)
	if n := len(slices.Compact(all)); n != len(all) || n < 8*45_000 {
		t.Errorf("%d IDs, of which %d differ", len(all), n)
	}
}

func TestOneRequestAsksForTheCodeAndTheNamespace(t *testing.T) {
	s := newService(t)
	c := newClient(t, []string{s.URL + "/raindrop/"}, Options{Namespace: "a&b", Token: StaticToken("secret")})
	id := must[int64](t)(c.Next(background, "a/b?c"))
	if id != 252201579132751872 {
		t.Errorf("got %d", id)
	}
	r := s.requests[0]
	if len(s.requests) != 1 || r.Method != "POST" || r.URL.EscapedPath() != "/raindrop/ids/a%2Fb%3Fc" || r.ContentLength != 0 ||
		r.URL.RawQuery != "format=range&up_to=1&namespace=a%26b" || r.Header.Get("Authorization") != "Bearer secret" ||
		r.Header.Get("User-Agent") != "raindrop-go/0.1.0" || r.Header.Get("Idempotency-Key") != "" {
		t.Errorf("sent %s %s, %v", r.Method, r.URL, r.Header)
	}
}

func TestSingleCallsFetchNoMoreThanTheyNeed(t *testing.T) {
	s, clock := newService(t), &fakeClock{}
	c := s.client(t, Options{Clock: clock.now})
	for range 5 {
		must[[]int64](t)(c.NextMany(background, "order", 1000))
		if !c.Code("order").idle() {
			t.Error("a refill began that nobody needs")
		}
		clock.advance(time.Minute)
	}
	// The calls are a mean of 17 IDs a second, of which a buffer holds 2 s.
	if asked := s.asked(); len(asked) != 5 || asked[0] != 1000 || slices.Max(asked) > 1034 {
		t.Errorf("asked for %v", asked)
	}
	for range 5 {
		must[int64](t)(c.Next(background, "single"))
		clock.advance(5 * time.Second)
	}
	if asked := s.asked(); !slices.Equal(asked[5:], []int64{1, 1, 1, 1, 1}) {
		t.Errorf("asked for %v", asked)
	}
}

// drive draws perStep IDs each 10 ms of a fake clock, and lets each refill end before the next
// step. It returns how many requests each second had.
func drive(t *testing.T, s *service, code *Code, clock *fakeClock, perStep, seconds int) []int {
	t.Helper()
	var requests []int
	for range seconds {
		before := len(s.asked())
		for range 100 {
			clock.advance(10 * time.Millisecond)
			for k := 0; k < perStep; k += 1000 {
				must[[]int64](t)(code.NextMany(background, min(1000, perStep-k)))
			}
			eventually(t, "refill ends", code.idle)
		}
		requests = append(requests, len(s.asked())-before)
	}
	return requests
}

func TestRequestsFollowTheRate(t *testing.T) {
	s, clock := newService(t), &fakeClock{}
	s.most = 45_000
	code := s.client(t, Options{Clock: clock.now, Deadline: time.Minute}).Code("order")

	// 10 000 a second: a request each 2 s.
	requests := drive(t, s, code, clock, 100, 21)
	if total := sumOf(requests[1:]); requests[0] > 20 || total > 12 || total < 8 {
		t.Errorf("at 10 000 IDs/s: %v requests", requests)
	}
	// 1 000 000 a second.
	requests = drive(t, s, code, clock, 10_000, 6)
	if sumOf(requests[:2]) > 80 || slices.Max(requests[2:]) > 25 {
		t.Errorf("at 1 000 000 IDs/s: %v requests", requests)
	}
	// 100 a second: what is left gets too old, and the next sizes fit the rate.
	requests = drive(t, s, code, clock, 1, 30)
	asked := s.asked()
	if sumOf(requests) > 15 || asked[len(asked)-1] > 300 || asked[len(asked)-1] < 150 {
		t.Errorf("at 100 IDs/s: %v requests, the last for %d", requests, asked[len(asked)-1])
	}
	// A burst of a hundred times as many.
	requests = drive(t, s, code, clock, 100, 1)
	if requests[0] > 15 {
		t.Errorf("in a burst: %v requests", requests)
	}
}

func sumOf(numbers []int) (total int) {
	for _, n := range numbers {
		total += n
	}
	return total
}

func TestTheBufferIsRefilledBeforeItIsEmpty(t *testing.T) {
	s, clock, seen := newService(t), &fakeClock{}, &events{}
	code := s.client(t, Options{Clock: clock.now, OnEvent: seen.observe}).Code("order")
	drive(t, s, code, clock, 10, 5)
	waits := seen.waits
	drive(t, s, code, clock, 10, 20)
	if seen.waits != waits || waits == 0 {
		t.Errorf("%d calls waited at a steady rate, %d before", seen.waits-waits, waits)
	}
}

func TestMinAndMaxRangeBoundTheSize(t *testing.T) {
	s, clock := newService(t), &fakeClock{}
	code := s.client(t, Options{Clock: clock.now, MinRange: 50, MaxRange: 1000}).Code("order")
	drive(t, s, code, clock, 200, 2)
	if asked := s.asked(); slices.Min(asked) < 50 || slices.Max(asked) != 1000 {
		t.Errorf("asked for %v", asked)
	}
}

func TestIDsAreDroppedAtMaxAgeAndNotBefore(t *testing.T) {
	s, clock, seen := newService(t), &fakeClock{}, &events{}
	c := s.client(t, Options{Clock: clock.now, MinRange: 100, OnEvent: seen.observe})
	first := must[int64](t)(c.Next(background, "order"))
	clock.advance(10*time.Second - 1)
	if id := must[int64](t)(c.Next(background, "order")); id != first+1 {
		t.Errorf("got %d after %d", id, first)
	}
	clock.advance(1)
	if id := must[int64](t)(c.Next(background, "order")); id != first+100 {
		t.Errorf("got %d, which is too old", id-first)
	}
	clock.advance(10 * time.Second)
	if id, ok := c.Code("order").TryNext(); ok {
		t.Errorf("got %d, which is too old", id-first)
	}
	if seen.dropped != 98+99 {
		t.Errorf("%d IDs dropped", seen.dropped)
	}
}

func TestAgeCountsFromBeforeTheRequest(t *testing.T) {
	s, clock := newService(t), &fakeClock{}
	slow := true
	s.reply = func(w http.ResponseWriter, r *http.Request) {
		if slow {
			clock.advance(10 * time.Second)
			slow = false
		}
		s.issue(w, 10)
	}
	c := s.client(t, Options{Clock: clock.now, MinRange: 10})
	if id := must[int64](t)(c.Next(background, "order")); id != 252201579132751872+10 || len(s.asked()) != 2 {
		t.Errorf("got %d from %d requests", id, len(s.asked()))
	}
}

func TestAnAnswerThatCameTooLateDoesNotComeAgain(t *testing.T) {
	s, clock := newService(t), &fakeClock{}
	var requests int
	s.reply = func(w http.ResponseWriter, r *http.Request) {
		requests++
		switch requests {
		case 1:
			clock.advance(10 * time.Second)
			s.issue(w, 10)
		case 2:
			// A cache repeats it, and the request for it is new.
			writeJSON(w, fmt.Sprintf(`{%s"ranges":[%s]}`, layoutTime, rangeOf(252201579132751872, 10)))
		default:
			s.issue(w, 10)
		}
	}
	c := s.client(t, Options{Clock: clock.now, MinRange: 10, Deadline: time.Minute})
	if id := must[int64](t)(c.Next(background, "order")); id != 252201579132751872+10 || requests != 3 {
		t.Errorf("got %d from %d requests", id, requests)
	}
}

func TestIDsThatAgedWhileTheirCallerWaitedAreReplaced(t *testing.T) {
	s, clock, seen := newService(t), &fakeClock{}, &events{}
	s.most = 10
	s.reply = func(w http.ResponseWriter, r *http.Request) {
		if len(s.asked()) == 2 {
			clock.advance(6 * time.Second)
		}
		if len(s.asked()) == 3 {
			clock.advance(5 * time.Second)
		}
		asked := s.asked()
		s.issue(w, asked[len(asked)-1])
	}
	c := s.client(t, Options{Clock: clock.now, OnEvent: seen.observe})
	ids := must[[]int64](t)(c.NextMany(background, "order", 30))
	if len(ids) != 30 || ids[0] < 252201579132751872+20 || !slices.IsSorted(ids) || seen.dropped < 20 {
		t.Errorf("got %d IDs from %d on; %d dropped", len(ids), ids[0]-252201579132751872, seen.dropped)
	}
}

func TestNumbersOfSegmentModeHaveNoAge(t *testing.T) {
	s, clock := newService(t), &fakeClock{}
	s.reply = func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, `{"issued_at":"2026-11-28T09:30:00Z","increment":"5","ranges":[{"first":"5","last":"20","step":"5","count":4}]}`)
	}
	c := s.client(t, Options{Clock: clock.now, MinRange: 4})
	for want := int64(5); want <= 20; want += 5 {
		if id := must[int64](t)(c.Next(background, "order")); id != want {
			t.Errorf("got %d, want %d", id, want)
		}
		clock.advance(24 * time.Hour)
	}
	if at, ok := c.TimeOf("order", 5); ok {
		t.Errorf("a number has the time %v", at)
	}
}

func TestNextManyIsBoundedByMaxRange(t *testing.T) {
	s := newService(t)
	s.most = 300
	c := s.client(t, Options{MaxRange: 1000, Deadline: time.Minute})
	ids := must[[]int64](t)(c.NextMany(background, "order", 1000))
	if len(ids) != 1000 || !slices.IsSorted(ids) || ids[999]-ids[0] != 999 {
		t.Errorf("got %d IDs", len(ids))
	}
	for _, n := range []int{0, -1, 1001} {
		_, err := c.NextMany(background, "order", n)
		wantKind(t, err, KindUsage)
		_, err = c.NextTextMany(background, "order", n)
		wantKind(t, err, KindUsage)
	}
}

func TestIDsOfTwoNodesAreReturnedInOrder(t *testing.T) {
	s := newService(t)
	firsts := []int64{500, 100}
	s.reply = func(w http.ResponseWriter, _ *http.Request) {
		n := len(s.asked()) - 1
		writeJSON(w, `{`+layoutTime+`"ranges":[`+rangeOf(firsts[n], 2)+`]}`)
	}
	ids := must[[]int64](t)(s.client(t, Options{}).NextMany(background, "order", 4))
	if !slices.Equal(ids, []int64{100, 101, 500, 501}) {
		t.Errorf("got %v", ids)
	}
}

func TestTextsHaveThePrefix(t *testing.T) {
	c := newService(t).client(t, Options{})
	for k := range 3 {
		if text := must[string](t)(c.NextText(background, "order")); text != fmt.Sprintf("ORD-%d", 252201579132751872+k) {
			t.Errorf("got %s", text)
		}
	}
	texts := must[[]string](t)(c.NextTextMany(background, "order", 2))
	if len(texts) != 2 || !strings.HasPrefix(texts[1], "ORD-2522015791327518") {
		t.Errorf("got %v", texts)
	}
}

// prefixes makes the service reply to the nth request with up to 4 IDs from 1 on, after the prefix "n-".
func (s *service) prefixes() {
	var next, n int64 = 1, 0
	s.reply = func(w http.ResponseWriter, r *http.Request) {
		n++
		upTo, _ := strconv.ParseInt(r.URL.Query().Get("up_to"), 10, 64)
		upTo = min(upTo, 4)
		writeJSON(w, fmt.Sprintf(`{%s"prefix":"%d-","ranges":[%s]}`, layoutTime, n, rangeOf(next, upTo)))
		next += upTo
	}
}

func TestATextHasThePrefixOfItsOwnAnswer(t *testing.T) {
	s := newService(t)
	s.prefixes()
	code := s.client(t, Options{Deadline: time.Minute, MinRange: 4}).Code("order")
	if texts := must[[]string](t)(code.NextTextMany(background, 6)); !slices.Equal(texts, []string{"1-1", "1-2", "1-3", "1-4", "2-5", "2-6"}) {
		t.Error(texts)
	}
	// IDs of the second answer are left when the third one comes.
	code.refillNow(t)
	if texts := []string{must[string](t)(code.NextText(background)), must[string](t)(code.NextText(background)),
		must[string](t)(code.NextText(background))}; !slices.Equal(texts, []string{"2-7", "2-8", "3-9"}) {
		t.Error(texts)
	}
}

func TestTimeOfReadsTheLayoutOfTheLastAnswer(t *testing.T) {
	c := newService(t).client(t, Options{})
	if _, ok := c.TimeOf("order", 252201579132751872); ok {
		t.Error("a time before the first answer")
	}
	must[int64](t)(c.Next(background, "order"))
	at, ok := c.TimeOf("order", 252201579132751872)
	if want := int64(1735689600000 + 252201579132751872>>22); !ok || at.UnixMilli() != want {
		t.Errorf("got %v, want %d", at, want)
	}
}

func TestTryNextTakesFromTheBufferOnly(t *testing.T) {
	s := newService(t)
	code := s.client(t, Options{MinRange: 3}).Code("order")
	if _, ok := code.TryNext(); ok {
		t.Error("an ID from nowhere")
	}
	eventually(t, "refill ends", code.idle)
	if _, ok := code.TryNext(); !ok {
		t.Error("no refill began")
	}
	id := must[int64](t)(code.Next(background))
	if next, ok := code.TryNext(); !ok || next != id+1 {
		t.Errorf("got %d, %v after %d", next, ok, id)
	}
}

func TestWrongArguments(t *testing.T) {
	for _, urls := range [][]string{nil, {""}, {"localhost:8080"}, {"ftp://a"}, {"http://"}, {"http://u:p@a"}, {"http://a?b"}, {"http://a#b"}, {"http://a", "::"}} {
		_, err := New(urls, Options{})
		wantKind(t, err, KindUsage)
	}
	_, err := New([]string{"http://a"}, Options{MinRange: 5, MaxRange: 4})
	wantKind(t, err, KindUsage)
}

func TestOptionsOfZeroAndLessStandForTheDefaults(t *testing.T) {
	for _, options := range []Options{{}, {Target: -1, MaxAge: -1, Deadline: -1, RequestTimeout: -1, MinRange: -1, MaxRange: -1}} {
		o := newClient(t, []string{"http://a"}, options).options
		if o.Target != 2*time.Second || o.MaxAge != 10*time.Second || o.Deadline != 2*time.Second ||
			o.RequestTimeout != 5*time.Second || o.MinRange != 1 || o.MaxRange != 100_000 {
			t.Errorf("got %+v", o)
		}
	}
}

func TestAHangingServiceEndsEachCallAtItsDeadline(t *testing.T) {
	s := newService(t)
	release := make(chan struct{})
	s.reply = func(_ http.ResponseWriter, r *http.Request) { <-release }
	t.Cleanup(func() { close(release) })
	c := s.client(t, Options{Deadline: 20 * time.Millisecond})
	_, err := c.Next(background, "order")
	wantKind(t, err, KindDeadline)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v is no context.DeadlineExceeded", err)
	}
	ctx, cancel := context.WithTimeout(background, time.Minute)
	time.AfterFunc(20*time.Millisecond, cancel)
	_, err = c.Next(ctx, "order")
	wantKind(t, err, KindCancelled)
	_, err = c.Next(ctx, "another")
	wantKind(t, err, KindCancelled)
	if n := len(s.asked()); n != 1 {
		t.Errorf("%d requests", n)
	}
}

func TestACallThatEndsWhileTheNextAttemptHangsGetsTheErrorOfTheOneBefore(t *testing.T) {
	s := newService(t)
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	s.reply = func(w http.ResponseWriter, r *http.Request) {
		if len(s.asked()) > 1 {
			<-release
		}
		problem(503, "store_unavailable", "")(w, r)
	}
	c := s.client(t, Options{Deadline: time.Second})
	_, err := c.Next(background, "order")
	wantKind(t, err, KindProblem)
	if n := len(s.asked()); n != 2 {
		t.Errorf("%d requests", n)
	}
}

func TestARequestThatTakesTooLongFails(t *testing.T) {
	s, seen := newService(t), &events{}
	release := make(chan struct{})
	s.reply = func(_ http.ResponseWriter, r *http.Request) { <-release }
	t.Cleanup(func() { close(release) })
	c := s.client(t, Options{RequestTimeout: 20 * time.Millisecond, OnEvent: seen.observe, Deadline: 500 * time.Millisecond})
	_, err := c.Next(background, "order")
	wantKind(t, err, KindTransport)
	if seen.failed == 0 {
		t.Errorf("%d failures observed", seen.failed)
	}
}

func TestAllWhoWaitGetTheErrorOfTheRequest(t *testing.T) {
	s := newService(t)
	release := make(chan struct{})
	s.reply = func(w http.ResponseWriter, r *http.Request) {
		<-release
		problem(404, "unknown_code", "")(w, r)
	}
	c := s.client(t, Options{Deadline: time.Minute})
	failures := make(chan error)
	for range 20 {
		go func() {
			_, err := c.Next(background, "order")
			failures <- err
		}()
	}
	b := c.Code("order")
	eventually(t, "all wait", func() bool { b.lock.Lock(); defer b.lock.Unlock(); return b.lacking == 20 })
	close(release)
	for range 20 {
		e := wantKind(t, <-failures, KindProblem)
		if e.Code != "unknown_code" || e.Status != 404 || e.Detail != "why" {
			t.Errorf("got %v", e)
		}
	}
	if n := len(s.asked()); n != 1 {
		t.Errorf("%d requests", n)
	}
}

func TestCallsFailAtOnceWhileBackingOff(t *testing.T) {
	s := newService(t)
	s.reply = problem(503, "store_unavailable", "3600")
	c := s.client(t, Options{Deadline: 5 * time.Second})
	for range 3 {
		_, err := c.Next(background, "order")
		if e := wantKind(t, err, KindProblem); e.RetryAfter != time.Minute {
			t.Errorf("retry after %v", e.RetryAfter)
		}
	}
	if _, ok := c.Code("order").TryNext(); ok || len(s.asked()) != 1 {
		t.Errorf("%d requests", len(s.asked()))
	}
}

func TestCallsWaitForAnAttemptThatIsDueBeforeTheirDeadline(t *testing.T) {
	s := newService(t)
	s.reply = func(w http.ResponseWriter, r *http.Request) {
		if len(s.asked()) < 3 {
			problem(503, "store_unavailable", "")(w, r)
		} else {
			s.issue(w, 1)
		}
	}
	c := s.client(t, Options{Deadline: time.Minute})
	must[int64](t)(c.Next(background, "order"))
	if n := len(s.asked()); n != 3 {
		t.Errorf("%d requests", n)
	}
}

func TestACallerLooksAgainAfterTheLongestBackOff(t *testing.T) {
	s, clock := newService(t), &fakeClock{}
	s.reply = problem(503, "overloaded", "86400")
	c := s.client(t, Options{Clock: clock.now})
	_, err := c.Next(background, "order")
	wantKind(t, err, KindProblem)
	if at := time.Duration(c.Code("order").retryAt); at < time.Minute || at > 66*time.Second {
		t.Errorf("without callers, the next attempt is at %v", at)
	}
	s.setReply(nil)
	clock.advance(10 * time.Second)
	if _, ok := c.Code("order").TryNext(); ok || len(s.asked()) != 1 {
		t.Errorf("%d requests, though nobody waits", len(s.asked()))
	}
	must[int64](t)(c.Next(background, "order"))
}

func TestABufferThatRunsDryIsFollowedByTwiceAsMany(t *testing.T) {
	s, clock := newService(t), &fakeClock{}
	c := s.client(t, Options{Clock: clock.now})
	for range 100 {
		must[int64](t)(c.Next(background, "order"))
		eventually(t, "refill ends", c.Code("order").idle)
	}
	if asked := s.asked(); len(asked) > 9 {
		t.Errorf("asked for %v", asked)
	}
}

func TestATokenSourceThatHangsFailsTheRequest(t *testing.T) {
	s := newService(t)
	var calls atomic.Int64
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	c := s.client(t, Options{RequestTimeout: 20 * time.Millisecond, Deadline: time.Minute, Token: func(context.Context) (string, error) {
		if calls.Add(1) == 1 {
			<-release
		}
		return "t", nil
	}})
	must[int64](t)(c.Next(background, "order"))
}

func TestWarmUpTakesNothing(t *testing.T) {
	s, seen := newService(t), &events{}
	c := s.client(t, Options{MinRange: 10, OnEvent: seen.observe})
	for range 2 {
		if err := c.WarmUp(background, "order"); err != nil {
			t.Fatal(err)
		}
	}
	if seen.waits != 1 {
		t.Errorf("OnEvent was told of %d waits", seen.waits)
	}
	if id, ok := c.Code("order").TryNext(); !ok || id != 252201579132751872 || len(s.asked()) != 1 {
		t.Errorf("got %d, %v after %d requests", id, ok, len(s.asked()))
	}
	s.setReply(problem(404, "unknown_code", ""))
	wantKind(t, c.WarmUp(background, "unknown"), KindProblem)
	if code := c.Code("unknown"); code.lacking != 0 {
		t.Errorf("%d IDs are still lacking", code.lacking)
	}
}

func TestAFailedRefillIsLoggedOnceAMinute(t *testing.T) {
	s, text := newService(t), &strings.Builder{}
	s.reply = problem(404, "unknown_code", "")
	c := s.client(t, Options{Logger: slog.New(slog.NewTextHandler(text, nil))})
	for _, code := range []string{"a", "b"} {
		_, err := c.Next(background, code)
		wantKind(t, err, KindProblem)
		eventually(t, "the failure is logged", func() bool { return c.loggedAt.Load() != 0 })
	}
	c.loggedAt.Add(-int64(time.Minute))
	c.logFailure("a", fail(KindTransport, nil, "later"))
	if n := strings.Count(text.String(), "refill failed"); n != 2 {
		t.Errorf("logged %d times: %s", n, text)
	}
}

func TestRequestsLeaveTimeForTheNextURL(t *testing.T) {
	for _, test := range []struct{ deadline, one, two time.Duration }{
		{0, 5 * time.Second, time.Second},
		{4 * time.Second, 5 * time.Second, 2 * time.Second},
		{time.Minute, 5 * time.Second, 5 * time.Second},
		{time.Millisecond, 5 * time.Second, time.Second},
	} {
		one := newClient(t, []string{"http://a"}, Options{Deadline: test.deadline})
		two := newClient(t, []string{"http://a", "http://b"}, Options{Deadline: test.deadline})
		if one.options.RequestTimeout != test.one || two.options.RequestTimeout != test.two {
			t.Errorf("deadline %v: %v, %v", test.deadline, one.options.RequestTimeout, two.options.RequestTimeout)
		}
	}
}

func TestCloseClosesTheIdleConnectionsOfTheClient(t *testing.T) {
	s := newService(t)
	var connections atomic.Int64
	counted := httptest.NewUnstartedServer(s)
	counted.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			connections.Add(1)
		case http.StateClosed:
			connections.Add(-1)
		}
	}
	counted.Start()
	t.Cleanup(counted.Close)
	c := newClient(t, []string{counted.URL}, Options{})
	must[int64](t)(c.Next(background, "order"))
	c.Close()
	eventually(t, "the connection is closed", func() bool { return connections.Load() == 0 })
}

func TestBackOffGrows(t *testing.T) {
	for range 200 {
		for failures, most := range []time.Duration{0, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000} {
			most *= time.Millisecond
			if failures == 0 {
				continue
			}
			if pause := backOff(failures); pause < most/2 || pause > most {
				t.Fatalf("after %d failures: %v", failures, pause)
			}
		}
		if pause := backOff(1000); pause < 5*time.Second || pause > 10*time.Second {
			t.Fatalf("after 1000 failures: %v", pause)
		}
	}
}

func TestAFailedRefillAheadOfDemandIsTriedAgain(t *testing.T) {
	s, clock, seen := newService(t), &fakeClock{}, &events{}
	c := s.client(t, Options{Clock: clock.now, MinRange: 1000, Target: 24 * time.Hour, MaxAge: time.Hour, OnEvent: seen.observe})
	code := c.Code("order")
	must[[]int64](t)(code.NextMany(background, 100))
	s.setReply(problem(503, "store_unavailable", ""))
	for range 700 {
		must[int64](t)(code.Next(background))
		eventually(t, "refill ends", code.idle)
	}
	if seen.failed != 1 || code.failure == nil {
		t.Fatalf("%d failures while backing off", seen.failed)
	}
	s.setReply(nil)
	clock.advance(10 * time.Second)
	for range 100 {
		must[int64](t)(code.Next(background))
	}
	eventually(t, "refill ends", code.idle)
	if seen.failed != 1 || seen.waits != 1 || code.failure != nil || code.queued < 1000 {
		t.Errorf("%d failures, %d calls waited, %d IDs queued", seen.failed, seen.waits, code.queued)
	}
}

func TestFailOver(t *testing.T) {
	good := newService(t)
	for name, reply := range map[string]http.HandlerFunc{
		"502 of a proxy": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(502) },
		"503":            problem(503, "shutting_down", "1"),
		"504":            problem(504, "timeout", ""),
		"401":            problem(401, "unauthorized", ""),
		"429":            problem(429, "too_many_requests", "60"),
		"500":            problem(500, "internal", ""),
		"200 with HTML": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, "<html>")
		},
		"cut JSON": func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, `{"ranges":[`) },
		"403 of a proxy": func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "forbidden", 403)
		},
		"redirect": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, good.URL+r.URL.String(), 307) },
		"broken": func(w http.ResponseWriter, _ *http.Request) {
			panic(http.ErrAbortHandler)
		},
		"half": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			writeJSON(w, `{"ranges":[`+rangeOf(1, 1)+`]}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			bad, other, seen := newService(t), newService(t), &events{}
			bad.reply = reply
			c := newClient(t, []string{bad.URL, other.URL}, Options{OnEvent: seen.observe})
			before := len(good.asked())
			must[int64](t)(c.Next(background, "a"))
			must[int64](t)(c.Next(background, "b"))
			if n, m := len(bad.asked()), len(other.asked()); n != 1 || m != 2 || seen.failed != 1 {
				t.Errorf("%d requests to the bad URL, %d to the other; %d failures observed", n, m, seen.failed)
			}
			if len(good.asked()) != before {
				t.Error("followed a redirect")
			}
		})
	}
}

func TestARetryAfterBelongsToTheURLThatSentIt(t *testing.T) {
	one, two, clock := newService(t), newService(t), &fakeClock{}
	one.reply = func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	two.reply = problem(503, "overloaded", "50")
	c := newClient(t, []string{one.URL, two.URL}, Options{Clock: clock.now})
	for _, step := range []struct {
		at       time.Duration
		one, two int
	}{{0, 1, 1}, {200 * time.Millisecond, 2, 1}, {49 * time.Second, 3, 1}, {56 * time.Second, 4, 2}} {
		clock.Store(int64(step.at))
		if _, ok := c.Code("order").TryNext(); ok {
			t.Error("an ID from nowhere")
		}
		eventually(t, "refill ends", c.Code("order").idle)
		if n, m := len(one.asked()), len(two.asked()); n != step.one || m != step.two {
			t.Errorf("at %v: %d requests to the first URL, %d to the other; want %+v", step.at, n, m, step)
		}
	}
}

func TestThePauseEndsWhenTheFirstURLMayBeAskedAgain(t *testing.T) {
	one, two, clock := newService(t), newService(t), &fakeClock{}
	one.reply, two.reply = problem(503, "overloaded", "30"), problem(503, "overloaded", "20")
	c := newClient(t, []string{one.URL, two.URL}, Options{Clock: clock.now})
	_, err := c.Next(background, "order")
	wantKind(t, err, KindProblem)
	if at := time.Duration(c.Code("order").retryAt); at < 20*time.Second || at > 22*time.Second {
		t.Errorf("the next attempt is at %v", at)
	}
	clock.advance(22 * time.Second)
	two.setReply(nil)
	must[int64](t)(c.Next(background, "order"))
	if n, m := len(one.asked()), len(two.asked()); n != 1 || m != 2 {
		t.Errorf("%d requests to the first URL, %d to the other", n, m)
	}
}

func TestProblemsOfTheRequestDoNotFailOver(t *testing.T) {
	for status, code := range map[int]string{400: "invalid_parameter", 403: "forbidden", 404: "unknown_code", 422: "unprocessable"} {
		bad, other, clock := newService(t), newService(t), &fakeClock{}
		bad.reply = problem(status, code, "20")
		c := newClient(t, []string{bad.URL, other.URL}, Options{Clock: clock.now})
		_, err := c.Next(background, "order")
		if e := wantKind(t, err, KindProblem); e.Code != code || len(other.asked()) != 0 {
			t.Errorf("%v, with %d requests to the other URL", e, len(other.asked()))
		}
		if at := time.Duration(c.Code("order").retryAt); at < 20*time.Second || at > 22*time.Second {
			t.Errorf("%s: the next attempt is at %v", code, at)
		}
	}
}

func TestAnswersThatAreNotIDs(t *testing.T) {
	s := newService(t)
	for name, test := range map[string]struct {
		kind  Kind
		reply http.HandlerFunc
	}{
		"text": {KindInvalidAnswer, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain")
			fmt.Fprint(w, "1")
		}},
		"no JSON": {KindInvalidAnswer, func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, `{"ranges":[`) }},
		"more than was asked for": {KindInvalidAnswer, func(w http.ResponseWriter, _ *http.Request) {
			writeJSON(w, `{"ranges":[`+rangeOf(1, 2)+`]}`)
		}},
		"too large": {KindInvalidAnswer, func(w http.ResponseWriter, _ *http.Request) {
			writeJSON(w, `{"ranges":[`+rangeOf(1, 1)+`]}`+strings.Repeat(" ", maxBody))
		}},
		"204": {KindTransport, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) }},
		"404 of a proxy": {KindTransport, func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "not found", 404)
		}},
		"problem without a code": {KindTransport, problem(400, "", "")},
	} {
		t.Run(name, func(t *testing.T) {
			s.setReply(test.reply)
			c := s.client(t, Options{Deadline: 500 * time.Millisecond})
			_, err := c.Next(background, "order")
			wantKind(t, err, test.kind)
		})
	}
}

func TestAnAnswerThatCameBeforeIsRefused(t *testing.T) {
	s, seen := newService(t), &events{}
	s.reply = func(w http.ResponseWriter, _ *http.Request) {
		first := []int64{100, 200, 0, 100, 300}[len(s.asked())-1]
		writeJSON(w, `{`+layoutTime+`"ranges":[`+rangeOf(first, 2)+`]}`)
	}
	c := s.client(t, Options{OnEvent: seen.observe})
	for _, want := range []int64{100, 200, 0} {
		if ids := must[[]int64](t)(c.NextMany(background, "order", 2)); ids[0] != want {
			t.Errorf("got %v, want %d", ids, want)
		}
	}
	if ids := must[[]int64](t)(c.NextMany(background, "order", 2)); ids[0] != 300 || seen.failed != 1 || seen.fetched != 8 {
		t.Errorf("got %v; %d failures and %d IDs observed", ids, seen.failed, seen.fetched)
	}
}

func TestASmallerLimitOfTheServiceIsFound(t *testing.T) {
	s, clock, seen := newService(t), &fakeClock{}, &events{}
	s.reply = func(w http.ResponseWriter, r *http.Request) {
		asked := s.asked()
		if upTo := asked[len(asked)-1]; upTo <= 100 {
			s.issue(w, upTo)
		} else {
			problem(400, "invalid_count", "")(w, r)
		}
	}
	c := s.client(t, Options{Clock: clock.now, Deadline: time.Minute, OnEvent: seen.observe})
	for range 2 {
		if ids := must[[]int64](t)(c.NextMany(background, "order", 350)); len(ids) != 350 {
			t.Errorf("got %d IDs", len(ids))
		}
	}
	if asked := s.asked(); !slices.Equal(seen.upTo, asked) {
		t.Errorf("the events are of requests for %v, but %v came", seen.upTo, asked)
	}
	refused := 0
	for _, upTo := range s.asked() {
		if upTo > 100 {
			refused++
		}
	}
	if refused > 2 {
		t.Errorf("asked for %v", s.asked())
	}
}

func TestTheTokenRotates(t *testing.T) {
	s := newService(t)
	tokens := 0
	c := s.client(t, Options{Token: func(context.Context) (string, error) {
		tokens++
		return fmt.Sprint("token-", tokens), nil
	}})
	must[int64](t)(c.Next(background, "a"))
	must[int64](t)(c.Next(background, "b"))
	if a, b := s.requests[0].Header.Get("Authorization"), s.requests[1].Header.Get("Authorization"); a != "Bearer token-1" || b != "Bearer token-2" {
		t.Errorf("sent %q and %q", a, b)
	}
}

func TestARefillThatDiesFailsItsCallersAndTheNextOneBegins(t *testing.T) {
	var broken atomic.Bool
	noToken := errors.New("no token today")
	for name, options := range map[string]Options{
		"OnEvent panics": {OnEvent: func(e Event) {
			if e.Kind == EventRequest && broken.Load() {
				panic("hook")
			}
		}},
		"OnEvent ends the goroutine": {OnEvent: func(e Event) {
			if e.Kind == EventRequest && broken.Load() {
				runtime.Goexit()
			}
		}},
		"the token source panics": {Token: func(context.Context) (string, error) {
			if broken.Load() {
				panic("source")
			}
			return "t", nil
		}},
		"the token source fails": {Token: func(context.Context) (string, error) {
			if broken.Load() {
				return "", noToken
			}
			return "t", nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			options.Deadline = time.Minute
			c := newService(t).client(t, options)
			broken.Store(true)
			ctx, cancel := context.WithTimeout(background, 500*time.Millisecond)
			defer cancel()
			_, err := c.Next(ctx, "order")
			kind := KindTransport
			if options.OnEvent != nil {
				kind = KindUsage
			}
			wantKind(t, err, kind)
			if name == "the token source fails" && !errors.Is(err, noToken) {
				t.Errorf("%v does not say why", err)
			}
			broken.Store(false)
			must[int64](t)(c.Next(background, "order"))
		})
	}
}

func TestAPanicOfTheTokenSourceIsObserved(t *testing.T) {
	seen := &events{}
	c := newService(t).client(t, Options{OnEvent: seen.observe, Deadline: 300 * time.Millisecond,
		Token: func(context.Context) (string, error) { panic("source") }})
	_, err := c.Next(background, "order")
	if n := len(seen.errors); n == 0 || seen.errors[n-1] != err {
		t.Errorf("observed %v, returned %v", seen.errors, err)
	}
}

func TestClose(t *testing.T) {
	s, seen := newService(t), &events{}
	c := s.client(t, Options{MinRange: 10, Deadline: time.Minute, OnEvent: seen.observe})
	must[int64](t)(c.Next(background, "warm"))
	warm := c.Code("warm")
	s.setReply(problem(503, "overloaded", "20"))
	soon, cancel := context.WithTimeout(background, 5*time.Second)
	defer cancel()
	_, err := c.Next(soon, "backing-off")
	wantKind(t, err, KindProblem)
	ended := make(chan struct{})
	s.setReply(func(_ http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
		close(ended)
	})
	failures := make(chan error)
	for _, name := range []string{"cold", "cold", "backing-off"} {
		go func() {
			_, err := c.Next(background, name)
			failures <- err
		}()
	}
	b, paused := c.Code("cold"), c.Code("backing-off")
	eventually(t, "both wait", func() bool { b.lock.Lock(); defer b.lock.Unlock(); return b.lacking == 2 && len(s.asked()) == 3 })
	eventually(t, "a refill waits for its pause", func() bool { return !paused.idle() })
	c.Close()
	c.Close()
	if seen.dropped != 9 {
		t.Errorf("OnEvent was told of %d dropped IDs", seen.dropped)
	}
	if paused.refill.timer.Stop() {
		t.Error("a refill of a closed client went on waiting")
	}
	for range 3 {
		wantKind(t, <-failures, KindClosed)
	}
	<-ended
	if _, ok := warm.TryNext(); ok {
		t.Error("an ID of a closed client")
	}
	for _, code := range []*Code{warm, c.Code("cold"), c.Code("new")} {
		_, err := code.Next(background)
		wantKind(t, err, KindClosed)
		_, err = code.NextMany(background, 2)
		wantKind(t, err, KindClosed)
		_, err = code.NextText(background)
		wantKind(t, err, KindClosed)
	}
	if n := len(s.asked()); n != 3 {
		t.Errorf("%d requests", n)
	}
}

func TestAClosedClientAsksNoURL(t *testing.T) {
	s, tokens := newService(t), 0
	s.reply = problem(503, "overloaded", "")
	var c *Client
	c = newClient(t, []string{s.URL, s.URL + "/other"}, Options{
		Token:   func(context.Context) (string, error) { tokens++; return "", nil },
		OnEvent: func(Event) { c.Close() },
	})
	// The first is closed after its first URL has failed, the second was closed before.
	for range 2 {
		c.Code("order").run(background, &refill{}, 1)
	}
	if n := len(s.asked()); n != 1 || tokens != 1 {
		t.Errorf("%d requests, %d tokens", n, tokens)
	}
}

func TestACodeHasOneHandle(t *testing.T) {
	c := newService(t).client(t, Options{})
	const codes = 300
	var handles [8][codes]*Code
	var group sync.WaitGroup
	for g := range handles {
		group.Add(1)
		go func() {
			defer group.Done()
			for range 3 {
				for k := range codes {
					handles[g][k] = c.Code(fmt.Sprint("code-", k))
				}
			}
		}()
	}
	group.Wait()
	for g := range handles {
		if handles[g] != handles[0] {
			t.Error("two handles of one code")
		}
	}
}

func TestAWarmBufferAllocatesNothing(t *testing.T) {
	c := full(t, false)
	code := c.Code("order")
	for name, draw := range map[string]func(){
		"Code.Next":    func() { code.Next(background) },
		"Code.TryNext": func() { code.TryNext() },
		"Client.Next":  func() { c.Next(background, "order") },
	} {
		if n := testing.AllocsPerRun(1000, draw); n != 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
}

func TestTheClientUsesACopyOfTheHTTPClient(t *testing.T) {
	s := newService(t)
	used := false
	own := &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		used = true
		return http.DefaultTransport.RoundTrip(r)
	})}
	must[int64](t)(s.client(t, Options{HTTPClient: own}).Next(background, "order"))
	if !used || own.CheckRedirect != nil {
		t.Errorf("used: %v; changed: %v", used, own.CheckRedirect != nil)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestErrorTextsSayWhatIsWrong(t *testing.T) {
	for want, err := range map[string]error{
		"raindrop: store_lost: why":           &Error{Kind: KindProblem, Code: "store_lost", Status: 503, Detail: "why"},
		"raindrop: transport: no answer: EOF": fail(KindTransport, io.EOF, "no answer"),
	} {
		if err.Error() != want {
			t.Errorf("got %s, want %s", err, want)
		}
	}
	if !errors.Is(fail(KindTransport, io.EOF, "no answer"), io.EOF) {
		t.Error("the cause is lost")
	}
}

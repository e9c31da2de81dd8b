// The driver of the client for the conformance suite; clients/conformance/README.md describes the
// lines that it reads and writes.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	raindrop "git.example.org/raindrop/clients/go"
)

type request struct {
	Do    string
	URLs  []string
	Token string
	// TokenFaults are what the first calls of the token function do: "hang" or "throw".
	TokenFaults []string `json:"token_faults"`
	Code        string
	N           *int
	Threads     int
	Count       int
	File        string
	PerSecond   float64 `json:"per_second"`
	DeadlineMs  float64 `json:"deadline_ms"`
	ID          string
	Background  bool
	Started     int
	Options     struct {
		TargetMs         float64 `json:"target_ms"`
		MaxAgeMs         float64 `json:"max_age_ms"`
		MinRange         int     `json:"min_range"`
		MaxRange         int     `json:"max_range"`
		DeadlineMs       float64 `json:"deadline_ms"`
		RequestTimeoutMs float64 `json:"request_timeout_ms"`
	}
}

type answer = map[string]any

type driver struct {
	client *raindrop.Client
	lock   sync.Mutex
	counts struct{ requests, failed, fetched, dropped int64 }
}

func main() {
	d := &driver{}
	background := map[int]chan answer{}
	lines, out := bufio.NewReader(os.Stdin), json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var r request
		switch err := json.Unmarshal(line, &r); {
		case err != nil:
			out.Encode(failure(&raindrop.Error{Kind: raindrop.KindUsage, Detail: err.Error()}))
		case r.Do == "await":
			out.Encode(<-background[r.Started])
		case r.Background:
			result := make(chan answer, 1)
			background[len(background)+1] = result
			go func() { result <- d.do(&r) }()
			out.Encode(answer{"started": len(background)})
		default:
			out.Encode(d.do(&r))
		}
	}
}

func (d *driver) do(r *request) answer {
	switch r.Do {
	case "open":
		return d.open(r)
	case "next", "text", "uuid":
		return d.draw(r)
	case "try":
		if id, ok := d.client.Code(r.Code).TryNext(); ok {
			return answer{"ids": []string{strconv.FormatInt(id, 10)}}
		}
		return answer{"error": answer{"kind": "empty"}}
	case "warm_up":
		if err := d.client.WarmUp(context.Background(), r.Code); err != nil {
			return failure(err)
		}
		return answer{"ok": true}
	case "burst":
		return d.burst(r)
	case "time_of":
		id, err := strconv.ParseInt(r.ID, 10, 64)
		at, ok := d.client.TimeOf(r.Code, id)
		if err != nil || !ok {
			return failure(&raindrop.Error{Kind: raindrop.KindUsage, Detail: "no time of " + r.ID})
		}
		return answer{"unix_ms": at.UnixMilli()}
	case "stats":
		d.lock.Lock()
		defer d.lock.Unlock()
		return answer{"requests": d.counts.requests, "failed_requests": d.counts.failed,
			"ids_fetched": d.counts.fetched, "ids_dropped": d.counts.dropped, "memory_bytes": memory()}
	case "close":
		d.client.Close()
		return answer{"ok": true}
	}
	return failure(&raindrop.Error{Kind: raindrop.KindUsage, Detail: "unknown: " + r.Do})
}

func milliseconds(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }

func since(start time.Time) float64 { return float64(time.Since(start)) / float64(time.Millisecond) }

func (d *driver) open(r *request) answer {
	o := raindrop.Options{
		Target: milliseconds(r.Options.TargetMs), MaxAge: milliseconds(r.Options.MaxAgeMs),
		MinRange: r.Options.MinRange, MaxRange: r.Options.MaxRange,
		Deadline:       milliseconds(r.Options.DeadlineMs),
		RequestTimeout: milliseconds(r.Options.RequestTimeoutMs),
		OnEvent:        d.observe,
	}
	if r.Token != "" {
		o.Token = tokenSource(r.Token, r.TokenFaults)
	}
	client, err := raindrop.New(r.URLs, o)
	if err != nil {
		return failure(err)
	}
	d.client = client
	return answer{"ok": true}
}

// tokenSource returns a token function whose first calls fail as faults say.
func tokenSource(token string, faults []string) func(context.Context) (string, error) {
	var calls atomic.Int64
	return func(context.Context) (string, error) {
		if k := int(calls.Add(1)) - 1; k < len(faults) {
			if faults[k] == "hang" {
				select {}
			}
			return "", errors.New("no token today")
		}
		return token, nil
	}
}

func (d *driver) observe(e raindrop.Event) {
	d.lock.Lock()
	defer d.lock.Unlock()
	switch e.Kind {
	case raindrop.EventRequest:
		d.counts.requests++
		d.counts.fetched += e.IDs
		if e.Err != nil {
			d.counts.failed++
		}
	case raindrop.EventDropped:
		d.counts.dropped += e.IDs
	}
}

// deadline returns a context with the deadline of a request, if it has one.
func deadline(r *request) (context.Context, context.CancelFunc) {
	if r.DeadlineMs > 0 {
		return context.WithTimeout(context.Background(), milliseconds(r.DeadlineMs))
	}
	return context.Background(), func() {}
}

func (d *driver) draw(r *request) answer {
	ctx, cancel := deadline(r)
	defer cancel()
	start := time.Now()
	var texts []string
	var err error
	switch r.Do {
	case "text":
		if r.N == nil {
			texts = make([]string, 1)
			texts[0], err = d.client.NextText(ctx, r.Code)
		} else {
			texts, err = d.client.NextTextMany(ctx, r.Code, *r.N)
		}
	case "uuid":
		uuids := make([][16]byte, 1)
		if r.N == nil {
			uuids[0], err = d.client.NextUUID(ctx, r.Code)
		} else {
			uuids, err = d.client.NextUUIDMany(ctx, r.Code, *r.N)
		}
		for _, u := range uuids {
			texts = append(texts, fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:]))
		}
	default:
		var ids []int64
		if r.N == nil {
			ids = make([]int64, 1)
			ids[0], err = d.client.Next(ctx, r.Code)
		} else {
			ids, err = d.client.NextMany(ctx, r.Code, *r.N)
		}
		for _, id := range ids {
			texts = append(texts, strconv.FormatInt(id, 10))
		}
	}
	result := answer{"ids": texts}
	if err != nil {
		result = failure(err)
	}
	result["waited_ms"] = since(start)
	return result
}

func failure(err error) answer {
	var e *raindrop.Error
	if !errors.As(err, &e) {
		return answer{"error": answer{"kind": "unknown", "message": err.Error()}}
	}
	told := answer{"kind": e.Kind, "message": e.Detail}
	if e.Code != "" {
		told["code"] = e.Code
	}
	if e.Status != 0 {
		told["status"] = e.Status
	}
	if e.RetryAfter > 0 {
		told["retry_after_ms"] = e.RetryAfter.Milliseconds()
	}
	return answer{"error": told}
}

// drawn is what one goroutine of a burst drew.
type drawn struct {
	ids, failed int
	longestWait float64
	oldest      time.Duration
	hasTime     bool
}

func (d *driver) burst(r *request) answer {
	file, err := os.OpenFile(r.File, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if r.File != "" && err != nil {
		return failure(&raindrop.Error{Kind: raindrop.KindUsage, Detail: err.Error()})
	}
	defer file.Close()
	results := make([]drawn, max(r.Threads, 1))
	var group sync.WaitGroup
	for k := range results {
		group.Add(1)
		go func() {
			defer group.Done()
			results[k] = d.drawMany(r, file)
		}()
	}
	group.Wait()
	var all drawn
	for _, one := range results {
		all.ids += one.ids
		all.failed += one.failed
		all.longestWait = max(all.longestWait, one.longestWait)
		all.oldest = max(all.oldest, one.oldest)
		all.hasTime = all.hasTime || one.hasTime
	}
	result := answer{"drawn": all.ids, "failed": all.failed, "longest_wait_ms": all.longestWait, "oldest_ms": nil}
	if all.hasTime {
		result["oldest_ms"] = float64(all.oldest) / float64(time.Millisecond)
	}
	return result
}

func (d *driver) drawMany(r *request, file *os.File) (result drawn) {
	code := d.client.Code(r.Code)
	start := time.Now()
	var lines []byte
	// Each write has whole lines, so that those of other goroutines do not come between.
	flush := func() {
		if r.File != "" {
			if _, err := file.Write(lines); err != nil {
				panic(err)
			}
		}
		lines = lines[:0]
	}
	defer func() { flush() }()
	for k := range r.Count {
		if r.PerSecond > 0 {
			time.Sleep(time.Until(start.Add(time.Duration(float64(k) / r.PerSecond * float64(time.Second)))))
		}
		id, ok := code.TryNext()
		if !ok {
			called := time.Now()
			ctx, cancel := deadline(r)
			var err error
			id, err = code.Next(ctx)
			cancel()
			result.longestWait = max(result.longestWait, since(called))
			if err != nil {
				result.failed++
				continue
			}
		}
		result.ids++
		if at, ok := code.TimeOf(id); ok {
			result.hasTime = true
			result.oldest = max(result.oldest, time.Since(at))
		}
		if lines = append(strconv.AppendInt(lines, id, 10), '\n'); len(lines) > 60_000 {
			flush()
		}
	}
	return result
}

// memory returns how much memory the process has, in bytes.
func memory() int64 {
	if text, err := os.ReadFile("/proc/self/statm"); err == nil {
		if fields := strings.Fields(string(text)); len(fields) > 1 {
			if pages, err := strconv.ParseInt(fields[1], 10, 64); err == nil {
				return pages * int64(os.Getpagesize())
			}
		}
	}
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.Sys)
}

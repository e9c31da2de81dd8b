// Go-bench compares the client with other generators: what an ID costs, and how many requests a rate
// of IDs takes. Only ratios of one run are meaningful. RAINDROP names the service; without it, the
// requests are left out.
package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	raindrop "git.example.org/raindrop/clients/go"
	"github.com/bwmarrin/snowflake"
	"github.com/sony/sonyflake"
)

const (
	// Rounds are short, so that on a busy machine most of them are not disturbed.
	rounds = 201
	calls  = 5_000
	many   = 100
	// IDs of a buffer that never becomes empty.
	endless = 1 << 40
	// Sonyflake has 256 IDs in 10 ms, and sleeps when they are used up.
	burst = 200
)

var (
	ctx  = context.Background()
	sink int64
)

// endlessService answers every request in the process with as many IDs as it asks for: rows of 4096,
// as the service does for each millisecond, or numbers of segment mode.
type endlessService struct{ segment bool }

func (s endlessService) RoundTrip(request *http.Request) (*http.Response, error) {
	n, err := strconv.ParseInt(request.URL.Query().Get("up_to"), 10, 64)
	if err != nil {
		return nil, err
	}
	const first, row, stride = 252201579132751872, 4096, 1 << 22
	rows := n / row
	body := fmt.Sprintf(`{"layout":"benchmark","time":{"epoch_ms":1735689600000,"unit_ms":1,"shift":22,"bits":41},
		"ranges":[{"first":"%d","last":"%d","step":"1","count":%d,"repeat":%d,"stride":"%d"}]}`,
		first, first+(rows-1)*stride+row-1, row, rows, stride)
	if s.segment {
		body = fmt.Sprintf(`{"increment":"1","ranges":[{"first":"1","last":"%d","step":"1","count":%[1]d}]}`, n)
	}
	return &http.Response{
		StatusCode: 200,
		Header:     http.Header{"Content-Type": {"application/json"}},
		Body:       io.NopCloser(bytes.NewReader([]byte(body))),
		Request:    request,
	}, nil
}

// warm returns the handle of a code with a full buffer.
func warm(segment bool) *raindrop.Code {
	client, err := raindrop.New([]string{"http://ids.example.org"}, raindrop.Options{
		MinRange: endless, MaxRange: endless, MaxAge: time.Hour,
		HTTPClient: &http.Client{Transport: endlessService{segment}},
	})
	check(err)
	code := client.Code("order")
	_, err = code.Next(ctx)
	check(err)
	return code
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// contestant draws n IDs.
type contestant struct {
	name string
	draw func(n int)
	// How many calls a round has, if not as many as the others, and the pause before.
	calls int
	pause time.Duration
}

func contestants() []contestant {
	var counter atomic.Int64
	started := time.Now()
	withTime := warm(false)
	segment := warm(true)
	node, err := snowflake.NewNode(1)
	check(err)
	snowflake.NodeBits, snowflake.StepBits = 0, 22
	unlimited, err := snowflake.NewNode(0)
	check(err)
	sony, err := sonyflake.New(sonyflake.Settings{MachineID: func() (uint16, error) { return 1, nil }})
	check(err)
	next := func(code *raindrop.Code) func(int) {
		return func(n int) {
			for range n {
				id, err := code.Next(ctx)
				if err != nil {
					log.Fatal(err)
				}
				sink += id
			}
		}
	}
	generate := func(node *snowflake.Node) func(int) {
		return func(n int) {
			for range n {
				sink += node.Generate().Int64()
			}
		}
	}
	return []contestant{
		{name: "atomic increment", draw: func(n int) {
			for range n {
				sink += counter.Add(1)
			}
		}},
		{name: "`time.Since` alone", draw: func(n int) {
			for range n {
				sink += int64(time.Since(started))
			}
		}},
		{name: "Raindrop, `Code.Next`, IDs with a time", draw: next(withTime)},
		{name: "Raindrop, `Code.Next`, segment numbers", draw: next(segment)},
		{name: "Raindrop, `Code.NextMany` of 100, IDs with a time", draw: func(n int) {
			for range n / many {
				ids, err := withTime.NextMany(ctx, many)
				if err != nil {
					log.Fatal(err)
				}
				sink += ids[0]
			}
		}},
		{name: "bwmarrin/snowflake, 22 sequence bits, never waits", draw: generate(unlimited)},
		{name: "bwmarrin/snowflake, as it comes, waits for its 4096 a ms", draw: generate(node), calls: 4 * calls},
		{name: "sony/sonyflake, bursts without its waits", draw: func(n int) {
			for range n {
				id, err := sony.NextID()
				if err != nil {
					log.Fatal(err)
				}
				sink += int64(id)
			}
		}, calls: burst, pause: 11 * time.Millisecond},
	}
}

// compare prints what an ID costs. The contestants take turns; a ratio is the median of the ratios
// within each round.
func compare() {
	all := contestants()
	times := make([][]float64, len(all))
	for round := range rounds {
		for i := range all {
			// Each round starts with another one.
			at := (i + round) % len(all)
			c := all[at]
			n := cmp.Or(c.calls, calls)
			time.Sleep(c.pause)
			start := time.Now()
			c.draw(n)
			times[at] = append(times[at], float64(time.Since(start))/float64(n))
		}
	}
	fmt.Printf("One ID, one goroutine, median of %d rounds:\n\n| generator | ns | atomic increments |\n|---|--:|--:|\n", rounds)
	for i, c := range all {
		ratios := make([]float64, rounds)
		for round := range ratios {
			ratios[round] = times[i][round] / times[0][round]
		}
		fmt.Printf("| %s | %.1f | %.1f |\n", c.name, median(times[i]), median(ratios))
	}
}

func median(values []float64) float64 {
	values = slices.Clone(values)
	slices.Sort(values)
	return values[len(values)/2]
}

// requests prints how many requests each rate takes, of the real service.
func requests(url string) {
	const learning, measured = 2 * time.Second, 6 * time.Second
	fmt.Printf("\nRequests of one process, over %v:\n\n| IDs/s | drawn/s | requests/s | IDs for each | calls that waited |\n|--:|--:|--:|--:|--:|\n", measured)
	for _, rate := range []int{10_000, 1_000_000} {
		var sent, waited atomic.Int64
		var closing atomic.Bool // a request under way fails then
		client, err := raindrop.New([]string{url}, raindrop.Options{OnEvent: func(e raindrop.Event) {
			switch e.Kind {
			case raindrop.EventRequest:
				sent.Add(1)
			case raindrop.EventWait:
				waited.Add(1)
			}
			if e.Err != nil && !closing.Load() {
				log.Fatal(e.Err)
			}
		}})
		check(err)
		code := client.Code("order")
		draw(code, rate, learning)
		sent.Store(0)
		waited.Store(0)
		drawn := draw(code, rate, measured)
		seconds, n := measured.Seconds(), sent.Load()
		fmt.Printf("| %d | %.0f | %.1f | %.0f | %d |\n", rate, float64(drawn)/seconds, float64(n)/seconds, float64(drawn)/max(float64(n), 1), waited.Load())
		closing.Store(true)
		client.Close()
	}
}

// draw draws one ID after the other at a rate, and returns how many.
func draw(code *raindrop.Code, rate int, length time.Duration) (drawn int) {
	for start := time.Now(); time.Since(start) < length; time.Sleep(time.Millisecond) {
		for due := int(time.Since(start).Seconds() * float64(rate)); drawn < due; drawn++ {
			_, err := code.Next(ctx)
			check(err)
		}
	}
	return drawn
}

// serve starts the service until stop is called.
func serve(binary string) (url string, stop func()) {
	folder, err := os.MkdirTemp("", "raindrop-go-bench-")
	check(err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	address := listener.Addr().String()
	listener.Close()
	config := filepath.Join(folder, "raindrop.toml")
	text := fmt.Sprintf("[http]\nlisten = %q\n\n[store]\nurl = \"sqlite://%s/raindrop.db\"\n", address, folder)
	check(os.WriteFile(config, []byte(text), 0o600))
	service := exec.Command(binary, "serve", "--config", config)
	check(service.Start())
	url = "http://" + address
	for ends := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if answer, err := http.Get(url + "/readyz"); err == nil && answer.StatusCode == 200 {
			break
		}
		if time.Now().After(ends) {
			service.Process.Kill()
			log.Fatal("the service is not ready")
		}
	}
	return url, func() {
		service.Process.Kill()
		service.Wait()
		os.RemoveAll(folder)
	}
}

func main() {
	compare()
	if binary := os.Getenv("RAINDROP"); binary != "" {
		url, stop := serve(binary)
		defer stop()
		requests(url)
	}
}

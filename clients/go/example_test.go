package raindrop_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	raindrop "git.example.org/raindrop/clients/go"
)

var (
	client *raindrop.Client
	ctx    = context.Background()
	got    atomic.Value
)

// What the example of traces uses.
type (
	traceparent  struct{}
	roundTripper func(*http.Request) (*http.Response, error)
)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func lastTraceparent() any { return got.Load() }

// TestMain answers for the hosts that the examples name.
func TestMain(m *testing.M) {
	var first atomic.Int64
	first.Store(252201579132751872)
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got.Store(r.Header.Get("traceparent"))
		if strings.HasSuffix(r.URL.Path, "/unknown") {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(404)
			fmt.Fprint(w, `{"code":"unknown_code","status":404,"detail":"the code is not in codes.allow"}`)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		id := first.Add(1)
		fmt.Fprintf(w, `{"layout":"millisecond","time":{"epoch_ms":1735689600000,"unit_ms":1,"shift":22,"bits":41},
			"ranges":[{"first":"%d","last":"%[1]d","step":"1","count":1}]}`, id)
	}))
	transport := http.DefaultTransport.(*http.Transport)
	dial := transport.DialContext
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		if address == "127.0.0.1:8080" || strings.HasPrefix(address, "ids") {
			address = service.Listener.Addr().String()
		}
		return dial(ctx, network, address)
	}
	var err error
	if client, err = raindrop.New([]string{"http://ids.example.org"}, raindrop.Options{}); err != nil {
		log.Fatal(err)
	}
	status := m.Run()
	client.Close()
	service.Close()
	os.Exit(status)
}

func Example() {
	client, err := raindrop.New([]string{"http://127.0.0.1:8080"}, raindrop.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	id, err := client.Next(ctx, "order") // int64
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(id > 0)
	// Output: true
}

func ExampleClient_Code() {
	order := client.Code("order")
	id, err := order.Next(ctx)
	if err != nil {
		log.Fatal(err)
	}
	if claimed, ok := order.TimeOf(id); ok {
		fmt.Println(claimed.Year() > 2000)
	}
	// Output: true
}

func ExampleOptions() {
	client, err := raindrop.New([]string{"https://ids.example.org"}, raindrop.Options{
		Token:    raindrop.StaticToken("secret"),
		MaxAge:   time.Second,
		Deadline: 500 * time.Millisecond,
		OnEvent: func(event raindrop.Event) {
			if event.Err != nil {
				log.Printf("%s of code %s failed: %v", event.Kind, event.Code, event.Err)
			}
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	client.Close()
	// Output:
}

func ExampleOptions_traces() {
	traced := func(r *http.Request) (*http.Response, error) {
		if parent, ok := r.Context().Value(traceparent{}).(string); ok {
			r = r.Clone(r.Context())
			r.Header.Set("traceparent", parent)
		}
		return http.DefaultTransport.RoundTrip(r)
	}
	client, err := raindrop.New([]string{"http://127.0.0.1:8080"}, raindrop.Options{
		HTTPClient: &http.Client{Transport: roundTripper(traced)},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	span := context.WithValue(ctx, traceparent{}, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	_, err = client.Next(span, "order")
	fmt.Println(err, lastTraceparent())
	// Output: <nil> 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01
}

func ExampleError() {
	_, err := client.Next(ctx, "unknown")
	var e *raindrop.Error
	if errors.As(err, &e) {
		fmt.Println(e.Kind, e.Code, e.Status)
	}
	// Output: problem unknown_code 404
}

// The examples above are those of the README, and run.
func TestTheReadmeHasTheExamples(t *testing.T) {
	source, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	var examples, blocks []string
	for _, match := range regexp.MustCompile(`(?ms)^func Example\w*\(\) \{\n(.*?)^\t// Output:.*?^\}`).FindAllSubmatch(source, -1) {
		examples = append(examples, regexp.MustCompile(`(?m)^\t`).ReplaceAllString(string(match[1]), ""))
	}
	for _, match := range regexp.MustCompile("(?ms)^```go\n(.*?)^```").FindAllSubmatch(readme, -1) {
		blocks = append(blocks, string(match[1]))
	}
	if len(examples) != 5 || strings.Join(examples, "---\n") != strings.Join(blocks, "---\n") {
		t.Errorf("README.md:\n%s\nexample_test.go:\n%s", strings.Join(blocks, "---\n"), strings.Join(examples, "---\n"))
	}
}

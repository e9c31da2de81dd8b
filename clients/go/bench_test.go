package raindrop

import (
	"context"
	"sync/atomic"
	"testing"
)

// full returns a client whose buffer of the code "order" holds one range without end, of IDs with
// a time or of segment mode.
func full(tb testing.TB, ageless bool) *Client {
	c, err := New([]string{"http://127.0.0.1:1"}, Options{})
	if err != nil {
		tb.Fatal(err)
	}
	s := &segment{count: 1 << 62, step: 1, expires: 1 << 62}
	if ageless {
		s.expires = never
	}
	s.mark.Store(s.count)
	c.Code("order").current.Store(s)
	for _, other := range []string{"user", "invoice", "parcel", "ticket"} {
		for range 8 {
			c.Code(other)
		}
	}
	return c
}

var sum int64

// The yardstick of the others.
func BenchmarkAtomicAdd(b *testing.B) {
	var counter int64
	for range b.N {
		sum += atomic.AddInt64(&counter, 1)
	}
}

func BenchmarkHandle(b *testing.B)        { benchmarkHandle(b, false) }
func BenchmarkHandleSegment(b *testing.B) { benchmarkHandle(b, true) }

func benchmarkHandle(b *testing.B, ageless bool) {
	code, ctx := full(b, ageless).Code("order"), context.Background()
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		id, _ := code.Next(ctx)
		sum += id
	}
}

func BenchmarkTryNext(b *testing.B) {
	code := full(b, false).Code("order")
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		id, _ := code.TryNext()
		sum += id
	}
}

func BenchmarkByName(b *testing.B)        { benchmarkByName(b, false) }
func BenchmarkByNameSegment(b *testing.B) { benchmarkByName(b, true) }

func benchmarkByName(b *testing.B, ageless bool) {
	c, ctx := full(b, ageless), context.Background()
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		id, _ := c.Next(ctx, "order")
		sum += id
	}
}

// Time is per ID.
func BenchmarkNextMany100(b *testing.B) {
	code, ctx := full(b, false).Code("order"), context.Background()
	b.ReportAllocs()
	b.ResetTimer()
	for n := 0; n < b.N; n += 100 {
		ids, _ := code.NextMany(ctx, 100)
		sum += ids[0]
	}
}

func BenchmarkHandleParallel(b *testing.B) {
	code, ctx := full(b, false).Code("order"), context.Background()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			code.Next(ctx)
		}
	})
}

func BenchmarkSteadyClock(b *testing.B) {
	c := full(b, false)
	b.ResetTimer()
	for range b.N {
		sum += c.now()
	}
}

func BenchmarkNextUUID(b *testing.B) {
	client, ctx := full(b, false), context.Background()
	code := client.Code("order")
	code.latest.Store(&answer{Time: &timeField{UnitMs: 1, Shift: 22, Bits: 41}})
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		uuid, _ := code.NextUUID(ctx)
		sum += int64(uuid[15])
	}
}

package raindrop

import (
	"fmt"
	"math"
	"math/rand"
	"strings"
	"testing"
	"time"
)

func TestRangesAreReadWithoutExpandingThem(t *testing.T) {
	random := rand.New(rand.NewSource(1))
	for round := range 3000 {
		count, repeat := 1+random.Int63n(1+int64(round%200)), 1+random.Int63n(50)
		step := 1 + random.Int63n(1<<uint(random.Intn(20)))
		stride := (count-1)*step + 1 + random.Int63n(1<<uint(random.Intn(30)))
		first := random.Int63n(1 << 55)
		last := first + (repeat-1)*stride + (count-1)*step
		body := fmt.Sprintf(`{"ranges":[{"first":"%d","last":"%d","step":"%d","count":%d,"repeat":%d,"stride":"%d"}]}`,
			first, last, step, count, repeat, stride)
		a, err := readAnswer([]byte(body), count*repeat, 0, time.Second)
		if err != nil || len(a.segments) != 1 || a.total != count*repeat {
			t.Fatalf("%s: %v", body, err)
		}
		for i := range count * repeat {
			if want := first + i/count*stride + i%count*step; a.segments[0].id(i) != want {
				t.Fatalf("%s: ID %d is %d, want %d", body, i, a.segments[0].id(i), want)
			}
		}
	}
}

func TestTheLargestRangesKeepEveryDigit(t *testing.T) {
	// The last index of the most IDs, and rounds of a count that is no power of two.
	const count, repeat = 999_999_999 / 3, 3
	body := fmt.Sprintf(`{"ranges":[{"first":"1","last":"%d","step":"3","count":%d,"repeat":%d,"stride":"%d"}]}`,
		1+2*int64(1<<60)+(count-1)*3, count, repeat, int64(1)<<60)
	a, err := readAnswer([]byte(body), count*repeat, 0, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range []int64{0, count - 1, count, 2*count - 1, 2 * count, 3*count - 1} {
		if want := 1 + i/count<<60 + i%count*3; a.segments[0].id(i) != want {
			t.Errorf("ID %d is %d, want %d", i, a.segments[0].id(i), want)
		}
	}
	body = fmt.Sprintf(`{"ranges":[{"first":"0","last":"%d","step":"%[1]d","count":2}]}`, int64(math.MaxInt64))
	if a, err = readAnswer([]byte(body), 2, 0, time.Second); err != nil || a.segments[0].id(1) != math.MaxInt64 {
		t.Error(err)
	}
}

func TestWrongAnswersAreRefusedWhole(t *testing.T) {
	good := `{"first":"10","last":"12","step":"1","count":3}`
	repeated := `{"first":"10","last":"112","step":"1","count":3,"repeat":2,"stride":"100"}`
	for _, body := range []string{good, repeated, `{"first":"20","last":"20","step":"1","count":1}`} {
		if _, err := readAnswer([]byte(`{"later":[{}],"ranges":[`+body+`]}`), 6, 0, time.Second); err != nil {
			t.Errorf("%s: %v", body, err)
		}
	}
	change := func(of, from, to string) string {
		changed := strings.Replace(of, from, to, 1)
		if changed == of {
			t.Fatalf("%q is not in %s", from, of)
		}
		return changed
	}
	ranges := []string{
		``,
		good + "," + good,
		good + `,{"first":"12","last":"13","step":"1","count":2}`,
		`{"first":"20","last":"22","step":"1","count":3},` + good,
		good + `,{"first":"20","last":"23","step":"1","count":4}`,
		change(good, `"12"`, `"13"`),
		change(good, `"12"`, `"9"`),
		change(good, `"10"`, `"010"`),
		change(good, `"10"`, `"-10"`),
		change(good, `"10"`, `"+10"`),
		change(good, `"10"`, `""`),
		change(good, `"10"`, `"1e1"`),
		change(good, `"10"`, `10`),
		change(good, `"first":"10",`, ``),
		change(good, `"step":"1",`, ``),
		change(good, `,"count":3`, ``),
		change(good, `"step":"1"`, `"step":"0"`),
		change(good, `3`, `0`),
		change(good, `3`, `-3`),
		change(good, `3`, `3.0`),
		change(good, `3`, `"3"`),
		change(good, `3`, `9223372036854775807`),
		change(good, `3}`, `3,"repeat":1}`),
		change(good, `3}`, `3,"stride":"5"}`),
		change(repeated, `"repeat":2`, `"repeat":0`),
		change(repeated, `"repeat":2`, `"repeat":-1`),
		change(repeated, `"repeat":2`, `"repeat":3`),
		change(repeated, `"repeat":2`, `"repeat":9223372036854775807`),
		change(change(repeated, `"100"`, `"2"`), `"112"`, `"14"`),
		change(repeated, `"100"`, `"9223372036854775807"`),
		change(repeated, `"100"`, `"x"`),
		`{"first":"9223372036854775807","last":"9223372036854775808","step":"1","count":2}`,
		`{"first":"9223372036854775807","last":"0","step":"1","count":2}`,
		`{"first":"0","last":"2","step":"9223372036854775807","count":3}`,
		`{"first":"1","last":"1","step":"9223372036854775807","count":3}`,
	}
	var bodies []string
	for _, r := range ranges {
		bodies = append(bodies, `{"ranges":[`+r+`]}`)
	}
	head := func(fields string) string { return `{` + fields + `,"ranges":[` + good + `]}` }
	bodies = append(bodies, ``, `[]`, `{}`, `{"ranges":null}`, `{"ranges":{}}`, `{"ranges":[`+good+`]}x`, `{"ranges":[`+good+`]`,
		head(`"time":{"epoch_ms":0,"unit_ms":1,"shift":-1,"bits":41}`),
		head(`"time":{"epoch_ms":0.5,"unit_ms":1,"shift":22,"bits":41}`),
		head(`"time":{"epoch_ms":0,"unit_ms":0,"shift":22,"bits":41}`),
		head(`"time":{"epoch_ms":0,"unit_ms":1,"shift":22,"bits":0}`),
		head(`"time":{"epoch_ms":0,"unit_ms":1,"shift":22,"bits":42}`),
		head(`"time":{"epoch_ms":0,"unit_ms":1,"shift":18446744073709551615,"bits":41}`),
		head(`"until":"soon","issued_at":"2026-11-28T09:30:00Z"`),
		head(`"until":"2026-11-28T09:30:00Z"`),
	)
	for _, body := range bodies {
		if a, err := readAnswer([]byte(body), 6, 0, time.Second); err == nil || err.Kind != KindInvalidAnswer {
			t.Errorf("%s: %v, %v", body, a, err)
		}
	}
}

func TestExpiry(t *testing.T) {
	const sentAt, maxAge = int64(1_000_000), 10 * time.Second
	for fields, want := range map[string]int64{
		`"layout":"x"`:                 sentAt + int64(maxAge),
		`"prefix":"A-"`:                sentAt + int64(maxAge),
		`"layout":"x","increment":"1"`: sentAt + int64(maxAge),
		`"increment":"1"`:              never,
		`"increment":1`:                never,
		`"layout":"x","issued_at":"2026-11-28T09:30:00.5Z","until":"2026-11-28T09:30:03Z"`:      sentAt + int64(2500*time.Millisecond),
		`"layout":"x","issued_at":"2026-11-28T09:30:00Z","until":"2026-11-28T10:30:03+01:00"`:   sentAt + int64(3*time.Second),
		`"layout":"x","issued_at":"2026-11-28T09:30:00Z","until":"9026-11-28T09:30:03Z"`:        sentAt + int64(maxAge),
		`"increment":"1","issued_at":"2026-11-28T09:30:00Z","until":"2026-11-28T10:30:00Z"`:     sentAt + int64(time.Hour),
		`"increment":"1","issued_at":"2026-11-28T09:30:00Z","until":"2026-11-28T09:29:59.999Z"`: sentAt - int64(time.Millisecond),
	} {
		a, err := readAnswer([]byte(`{`+fields+`,"ranges":[`+rangeOf(1, 1)+`]}`), 1, sentAt, maxAge)
		if err != nil || a.segments[0].expires != want {
			t.Errorf("%s: %v, expires %v, want %d", fields, err, a, want)
		}
	}
}

package raindrop

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/big"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestUUIDsHaveTheBitsOfTheContract(t *testing.T) {
	var vectors []struct {
		Why, ID, Random, UUID string
		Time                  timeField
	}
	file, err := os.ReadFile("../conformance/uuids.json")
	if err != nil || json.Unmarshal(file, &vectors) != nil || len(vectors) != 8 {
		t.Fatal(err, len(vectors))
	}
	for _, v := range vectors {
		id, _ := parseID(v.ID)
		random, ok := new(big.Int).SetString(v.Random, 16)
		if !ok {
			t.Fatal(v.Random)
		}
		high, last := new(big.Int).Rsh(random, 10).Uint64(), uint16(random.Bit(9))<<9
		for i := range 9 {
			last |= uint16(random.Bit(i)) << i
		}
		// Bits above those that are needed change nothing.
		for _, more := range []uint16{0, 0xfc00} {
			uuid := v.Time.uuid(uint64(id), high, last|more)
			if got := hex.EncodeToString(uuid[:]); got != strings.ReplaceAll(v.UUID, "-", "") {
				t.Errorf("%s: %s, want %s", v.Why, got, v.UUID)
			}
		}
	}
}

func TestUUIDsAscendAndHaveRandomBits(t *testing.T) {
	s := newService(t)
	c := s.client(t, Options{})
	uuids := must[[][16]byte](t)(c.NextUUIDMany(context.Background(), "order", 300))
	uuids = append(uuids, must[[16]byte](t)(c.NextUUID(context.Background(), "order")))
	var differ [16]byte
	for i := 1; i < len(uuids); i++ {
		if bytes.Compare(uuids[i-1][:], uuids[i][:]) >= 0 {
			t.Fatalf("%x is not below %x", uuids[i-1], uuids[i])
		}
		for k := range differ {
			differ[k] |= uuids[0][k] ^ uuids[i][k]
		}
	}
	// 22 bits are fields, and the last 52 are random.
	if !bytes.HasSuffix(differ[:], []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}) || differ[9]&0x0f != 0x0f {
		t.Errorf("only %x differ", differ)
	}
	if id := must[int64](t)(c.Next(context.Background(), "order")); id != 252201579132751872+301 {
		t.Error(id)
	}
}

func TestUUIDsNeedMillisecondsSince1970(t *testing.T) {
	s, seen := newService(t), &events{}
	for i, refused := range []struct{ fields, why string }{
		{`"increment":"1"`, "have no time"},
		{`"layout":"wraps=true"`, "or one that wraps"},
		{`"layout":"10ms","time":{"epoch_ms":0,"unit_ms":10,"shift":24,"bits":39}`, "ticks of 10 ms"},
		{`"layout":"early","time":{"epoch_ms":-1,"unit_ms":1,"shift":22,"bits":41}`, "begin at -1 Unix ms"},
	} {
		s.setReply(func(w http.ResponseWriter, r *http.Request) {
			writeJSON(w, fmt.Sprintf(`{%s,"ranges":[%s]}`, refused.fields, rangeOf(5, 1)))
		})
		c, code := s.client(t, Options{OnEvent: seen.observe}), fmt.Sprint("code-", i)
		for _, draw := range []func() error{
			func() error { _, err := c.NextUUID(context.Background(), code); return err },
			func() error { _, err := c.NextUUIDMany(context.Background(), code+"-many", 1); return err },
		} {
			err := wantKind(t, draw(), KindUsage)
			if !strings.Contains(err.Detail, refused.why) {
				t.Errorf("%v does not say %q", err, refused.why)
			}
		}
	}
	if seen.dropped != 8 {
		t.Errorf("%d IDs dropped", seen.dropped)
	}
	s.setReply(nil)
	_, err := s.client(t, Options{}).NextUUIDMany(context.Background(), "order", 0)
	wantKind(t, err, KindUsage)
}

// move is what a service answers after its operator moved a namespace to a layout: the fields beside
// the ranges, and the first ID with its Unix milliseconds, which thousands of IDs after it have, too.
type move struct {
	fields string
	id, ms int64
}

var (
	before = move{layoutTime, 252201579132751872, 1795819142144}
	after  = move{`"layout":"js-safe","time":{"epoch_ms":1735689600000,"unit_ms":1,"shift":13,"bits":50},`, 491212350996480, 1795652045190}
)

// answers makes the service reply to the nth request with up to 50 IDs of the layout that layout
// returns, as if its operator moved the namespace.
func (s *service) answers(layout func(n int) move) {
	var lock sync.Mutex
	issued, n := map[move]int64{}, 0
	s.setReply(func(w http.ResponseWriter, r *http.Request) {
		lock.Lock()
		defer lock.Unlock()
		n++
		m := layout(n)
		upTo, _ := strconv.ParseInt(r.URL.Query().Get("up_to"), 10, 64)
		upTo = min(upTo, 50)
		writeJSON(w, fmt.Sprintf(`{%s"ranges":[%s]}`, m.fields, rangeOf(m.id+issued[m], upTo)))
		issued[m] += upTo
	})
}

// instant returns the Unix milliseconds of a UUID.
func instant(uuid [16]byte) int64 { return int64(binary.BigEndian.Uint64(uuid[:]) >> 16) }

func TestUUIDsOfACallAreOfTheLayoutOfItsLastAnswer(t *testing.T) {
	s, seen := newService(t), &events{}
	s.answers(func(n int) move {
		if n == 1 {
			return before
		}
		return after
	})
	c := s.client(t, Options{OnEvent: seen.observe, Deadline: time.Minute})
	uuids := must[[][16]byte](t)(c.NextUUIDMany(background, "order", 60))
	for i, uuid := range uuids {
		if instant(uuid) != after.ms {
			t.Errorf("%d: %x", i, uuid)
		}
	}
	seen.lock.Lock()
	defer seen.lock.Unlock()
	if len(uuids) != 60 || seen.dropped != 50 {
		t.Errorf("%d UUIDs, %d IDs dropped", len(uuids), seen.dropped)
	}
}

// refillNow fetches IDs as if the buffer were low.
func (c *Code) refillNow(t *testing.T) {
	c.lock.Lock()
	c.begin(c.client.context, c.client.now(), 0)
	c.lock.Unlock()
	eventually(t, "the refill ends", c.idle)
}

func TestABufferOfAnotherLayoutIsDropped(t *testing.T) {
	s, seen := newService(t), &events{}
	s.answers(func(n int) move {
		return []move{before, before, after, {`"increment":"1",`, 7, 0}}[n-1]
	})
	c := s.client(t, Options{OnEvent: seen.observe, Deadline: time.Minute, MinRange: 50, MaxRange: 50}).Code("order")
	for i, wants := range []struct{ ms, dropped int64 }{{before.ms, 0}, {before.ms, 0}, {after.ms, 98}} {
		c.refillNow(t)
		if uuid := must[[16]byte](t)(c.NextUUID(background)); instant(uuid) != wants.ms || seen.dropped != wants.dropped {
			t.Errorf("%d: %x, %d IDs dropped", i, uuid, seen.dropped)
		}
	}
	c.refillNow(t)
	_, err := c.NextUUID(background)
	wantKind(t, err, KindUsage)
	// The ID that became no UUID counts, too.
	if _, ok := c.TimeOf(after.id); ok || seen.dropped != 98+49+1 {
		t.Errorf("%d IDs dropped", seen.dropped)
	}
	if id := must[int64](t)(c.Next(background)); id != 7+1 {
		t.Error(id)
	}
}

func TestNoUUIDHasTheTimeOfAnotherAnswer(t *testing.T) {
	s := newService(t)
	s.answers(func(n int) move {
		if n/2%2 == 0 {
			return before
		}
		return after
	})
	c := s.client(t, Options{Deadline: time.Minute}).Code("order")
	var group sync.WaitGroup
	for g := range 4 {
		group.Add(1)
		go func() {
			defer group.Done()
			for range 400 {
				uuids, err := c.NextUUIDMany(background, 1+g)
				uuid, err2 := c.NextUUID(background)
				if err != nil || err2 != nil {
					t.Error(err, err2)
					return
				}
				for i, one := range append(uuids, uuid) {
					// With the time of the other answer, the instant would be years away.
					fromBefore, fromAfter := instant(one)-before.ms, instant(one)-after.ms
					if (fromBefore < 0 || fromBefore > 1000) && (fromAfter < 0 || fromAfter > 1000) {
						t.Errorf("%d of %d: %x", i, g, one)
						return
					}
				}
			}
		}()
	}
	group.Wait()
}

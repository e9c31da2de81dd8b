package raindrop

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/big"
	"net/http"
	"os"
	"strings"
	"testing"
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
	s := newService(t)
	for i, refused := range []struct{ fields, why string }{
		{`"increment":"1"`, "have no time"},
		{`"layout":"wraps=true"`, "or one that wraps"},
		{`"layout":"10ms","time":{"epoch_ms":0,"unit_ms":10,"shift":24,"bits":39}`, "ticks of 10 ms"},
		{`"layout":"early","time":{"epoch_ms":-1,"unit_ms":1,"shift":22,"bits":41}`, "begin at -1 Unix ms"},
	} {
		s.setReply(func(w http.ResponseWriter, r *http.Request) {
			writeJSON(w, fmt.Sprintf(`{%s,"ranges":[%s]}`, refused.fields, rangeOf(5, 1)))
		})
		c, code := s.client(t, Options{}), fmt.Sprint("code-", i)
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
	s.setReply(nil)
	_, err := s.client(t, Options{}).NextUUIDMany(context.Background(), "order", 0)
	wantKind(t, err, KindUsage)
}

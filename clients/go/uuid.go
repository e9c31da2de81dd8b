package raindrop

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/binary"
	"io"
	"sync"
)

// randomBlocks read random bytes of the operating system, of which 100 UUIDs need a block.
var randomBlocks = sync.Pool{New: func() any { return bufio.NewReaderSize(rand.Reader, 1000) }}

// NextUUID returns one ID as a UUID of version 7, for columns of that type. UUIDs sort as their
// IDs do and are as unique; what the ID leaves of 74 bits is random, 52 with the default layout.
// It waits like [Code.Next], and fails with an error of [KindUsage] where IDs have no ticks of a
// millisecond since 1970 or later: in segment mode, and where the time wraps, too.
func (c *Code) NextUUID(ctx context.Context) ([16]byte, error) {
	if s, i, n := c.take(1); n == 1 {
		uuid, err := c.uuid(s.id(i), s.time)
		if err != nil {
			c.observeDropped(1)
		}
		return uuid, err
	}
	uuids, err := c.NextUUIDMany(ctx, 1)
	return append(uuids, [16]byte{})[0], err
}

// NextUUIDMany returns n ascending UUIDs like those of [Code.NextUUID]: 1 to [Options].MaxRange. All
// of them are of one layout. It returns all or an error, as [Code.NextMany] does.
func (c *Code) NextUUIDMany(ctx context.Context, n int) ([][16]byte, error) {
	err := c.checkCount(n)
	if err != nil {
		return nil, err
	}
	b := newBatch(n)
	b.oneTime = true
	if err = c.draw(ctx, b); err != nil {
		return nil, err
	}
	uuids := make([][16]byte, n)
	for i, id := range b.ids {
		if uuids[i], err = c.uuid(id, b.time); err != nil {
			c.observeDropped(int64(n))
			return nil, err
		}
	}
	return uuids, nil
}

// uuid returns a UUID of an ID that came with a time.
func (c *Code) uuid(id int64, t *timeField) ([16]byte, error) {
	switch {
	case t == nil:
		return [16]byte{}, fail(KindUsage, nil, "the IDs of code %s have no time, or one that wraps: UUIDs need one", c.name)
	case t.UnitMs != 1:
		return [16]byte{}, fail(KindUsage, nil, "the IDs of code %s have ticks of %d ms: UUIDs need 1 ms", c.name, t.UnitMs)
	case t.EpochMs < 0:
		return [16]byte{}, fail(KindUsage, nil, "the IDs of code %s begin at %d Unix ms: UUIDs need an epoch of 1970 or later", c.name, t.EpochMs)
	}
	var random [10]byte
	block := randomBlocks.Get().(*bufio.Reader)
	defer randomBlocks.Put(block)
	if _, err := io.ReadFull(block, random[:]); err != nil {
		return [16]byte{}, fail(KindTransport, err, "the operating system has no random bits")
	}
	return t.uuid(uint64(id), binary.BigEndian.Uint64(random[:]), binary.BigEndian.Uint16(random[8:])), nil
}

// uuid puts the fields below the timestamp before random bits: docs/clients.md has the layout.
func (t *timeField) uuid(id, random uint64, last uint16) (uuid [16]byte) {
	const lowBits = 62
	unixMs := uint64(t.EpochMs) + id>>t.Shift&(1<<t.Bits-1)
	// The first 64 of the 74 bits that are free; the others are random.
	fields := id<<(64-t.Shift) | random&(1<<(64-t.Shift)-1)
	binary.BigEndian.PutUint64(uuid[:], unixMs<<16|7<<12|fields>>52)
	binary.BigEndian.PutUint64(uuid[8:], 0b10<<lowBits|fields<<12>>2|uint64(last)&0x3ff)
	return uuid
}

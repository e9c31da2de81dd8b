// Writes a file of vectors for each library; see ../README.md.
package main

import (
	"encoding/json"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/bwmarrin/snowflake"
	katsubushi "github.com/kayac/go-katsubushi/v2"
	"github.com/sony/sonyflake"
	sonyflake2 "github.com/sony/sonyflake/v2"
	"github.com/yitter/idgenerator-go/idgen"
)

type vector struct{ id, unixMs, worker, sequence int64 }

// Milliseconds after the epoch, up to the end of 41 bits.
var offsets = []int64{3, 1_000, 86_400_000, 1 << 31, 1<<35 + 5, 1<<38 - 2, 1 << 39, 500_000_000_000,
	1 << 40, 1_500_000_000_001, 2_000_000_000_000, 1<<41 - 2_000}

// The epoch is that of a described layout; nil with a layout that has a name.
func write(name, library, version, layout string, epoch *time.Time, fields string, ids []vector) {
	rows := make([]string, len(ids))
	for i, v := range ids {
		rows[i] = fmt.Sprintf(`    {"id": "%d", "unix_ms": %d, "data_center": 0, "worker": %d, "sequence": %d}`,
			v.id, v.unixMs, v.worker, v.sequence)
	}
	quoted, err := json.Marshal(fields)
	check(err)
	described := ""
	if epoch != nil {
		described = fmt.Sprintf("  \"epoch_ms\": %d,\n", epoch.UnixMilli())
	}
	text := fmt.Sprintf("{\n  \"library\": %q,\n  \"version\": %q,\n  \"layout\": %q,\n%s  \"fields\": %s,\n  \"ids\": [\n%s\n  ]\n}\n",
		library, version, layout, described, quoted, strings.Join(rows, ",\n"))
	check(os.WriteFile(filepath.Join(os.Args[1], name+".json"), []byte(text), 0o644))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func main() {
	bwmarrin()
	sony()
	sonyV2()
	kayac()
	yitter()
}

func bwmarrin() {
	epoch := snowflake.Epoch
	var ids []vector
	for i, offset := range offsets {
		snowflake.Epoch = time.Now().UnixMilli() - offset
		node, err := snowflake.NewNode(int64(1023 - i*93))
		check(err)
		snowflake.Epoch = epoch
		for range 4 {
			id := node.Generate()
			ids = append(ids, vector{id.Int64(), id.Time(), id.Node(), id.Step()})
		}
	}
	write("bwmarrin", "github.com/bwmarrin/snowflake", "0.3.0", "bwmarrin", nil, "ID.Time, ID.Node, ID.Step", ids)
}

func sony() {
	start := time.Date(2014, 9, 1, 0, 0, 0, 0, time.UTC)
	generator, err := sonyflake.New(sonyflake.Settings{
		StartTime: start,
		MachineID: func() (uint16, error) { return 51109, nil },
	})
	check(err)
	var ids []vector
	add := func(id uint64, err error) {
		check(err)
		ids = append(ids, vector{int64(id), start.Add(sonyflake.ElapsedTime(id)).UnixMilli(),
			int64(sonyflake.MachineID(id)), int64(sonyflake.SequenceNumber(id))})
	}
	for range 4 {
		add(generator.NextID())
	}
	for i, ticks := range []int64{1, 100, 8_640_000, 1 << 31, 1<<33 + 5, 10_000_000_000, 1 << 36, 1 << 38, 1<<39 - 1} {
		for n := range 4 {
			at := start.Add(time.Duration(ticks) * 10 * time.Millisecond)
			add(sonyflake.Compose(generator, at, uint16(255>>(n*2)), uint16(65535-i*7001)>>(n*4)))
		}
	}
	write("sonyflake", "github.com/sony/sonyflake", "1.3.0", "sonyflake", nil, "ElapsedTime, MachineID, SequenceNumber", ids)
}

func sonyV2() {
	generator, err := sonyflake2.New(sonyflake2.Settings{MachineID: func() (int, error) { return 51109, nil }})
	check(err)
	var ids []vector
	add := func(id int64, err error) {
		check(err)
		parts := generator.Decompose(id)
		ids = append(ids, vector{id, generator.ToTime(id).UnixMilli(), parts["machine"], parts["sequence"]})
	}
	for range 4 {
		add(generator.NextID())
	}
	start := generator.ToTime(0)
	for i, ticks := range []int64{1, 100, 8_640_000, 1 << 31, 1<<33 + 5, 10_000_000_000, 1 << 36, 1 << 38, 1<<39 - 1} {
		for n := range 4 {
			at := start.Add(time.Duration(ticks) * 10 * time.Millisecond)
			add(generator.Compose(at, 255>>(n*2), (65535-i*7001)>>(n*4)))
		}
	}
	write("sonyflake-v2", "github.com/sony/sonyflake/v2", "2.2.0", "sonyflake-v2", nil, "ToTime, Decompose", ids)
}

func kayac() {
	epoch := katsubushi.Epoch
	var ids []vector
	for i, offset := range offsets {
		katsubushi.Epoch = time.Now().Add(-time.Duration(offset) * time.Millisecond)
		generator, err := katsubushi.NewGenerator(uint(1023 - i*93))
		check(err)
		katsubushi.Epoch = epoch
		for range 4 {
			id, err := generator.NextID()
			check(err)
			at, worker, sequence := katsubushi.Dump(id)
			ids = append(ids, vector{int64(id), at.UnixMilli(), int64(worker), int64(sequence)})
		}
	}
	write("katsubushi", "github.com/kayac/go-katsubushi/v2", "2.0.4", "time:41,worker:10,sequence:12", &epoch,
		"Dump", ids)
}

func yitter() {
	parser := idgen.NewDefaultIdGenerator(idgen.NewIdGeneratorOptions(1))
	workerBits, sequenceBits := parser.Options.WorkerIdBitLength, parser.Options.SeqBitLength
	var ids []vector
	for i, offset := range offsets[:10] {
		options := idgen.NewIdGeneratorOptions(uint16(63 - i*7))
		// The library accepts no epoch before 1990.
		options.BaseTime = max(time.Now().UnixMilli()-offset, 631_123_200_000)
		generator := idgen.NewDefaultIdGenerator(options)
		for range 4 {
			id := generator.NewLong()
			ids = append(ids, vector{id, parser.ExtractTime(id).UnixMilli(), id >> sequenceBits & (1<<workerBits - 1),
				id & (1<<sequenceBits - 1)})
		}
	}
	write("yitter-go", "github.com/yitter/idgenerator-go", "1.3.3", "yitter", nil,
		"DefaultIdGenerator.ExtractTime; worker and sequence by the options' bit lengths", ids)
}

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
	"github.com/sony/sonyflake"
	sonyflake2 "github.com/sony/sonyflake/v2"
)

type vector struct{ id, unixMs, worker, sequence int64 }

func write(name, library, version, layout, fields string, ids []vector) {
	rows := make([]string, len(ids))
	for i, v := range ids {
		rows[i] = fmt.Sprintf(`    {"id": "%d", "unix_ms": %d, "data_center": 0, "worker": %d, "sequence": %d}`,
			v.id, v.unixMs, v.worker, v.sequence)
	}
	quoted, err := json.Marshal(fields)
	check(err)
	text := fmt.Sprintf("{\n  \"library\": %q,\n  \"version\": %q,\n  \"layout\": %q,\n  \"fields\": %s,\n  \"ids\": [\n%s\n  ]\n}\n",
		library, version, layout, quoted, strings.Join(rows, ",\n"))
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
}

func bwmarrin() {
	epoch := snowflake.Epoch
	var ids []vector
	for i, offset := range []int64{3, 1_000, 86_400_000, 1 << 31, 1<<35 + 5, 1<<38 - 2, 1 << 39, 500_000_000_000,
		1 << 40, 1_500_000_000_001, 2_000_000_000_000, 1<<41 - 2_000} {
		snowflake.Epoch = time.Now().UnixMilli() - offset
		node, err := snowflake.NewNode(int64(1023 - i*93))
		check(err)
		snowflake.Epoch = epoch
		for range 4 {
			id := node.Generate()
			ids = append(ids, vector{id.Int64(), id.Time(), id.Node(), id.Step()})
		}
	}
	write("bwmarrin", "github.com/bwmarrin/snowflake", "0.3.0", "bwmarrin", "ID.Time, ID.Node, ID.Step", ids)
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
	write("sonyflake", "github.com/sony/sonyflake", "1.3.0", "sonyflake", "ElapsedTime, MachineID, SequenceNumber", ids)
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
	write("sonyflake-v2", "github.com/sony/sonyflake/v2", "2.2.0", "sonyflake-v2", "ToTime, Decompose", ids)
}

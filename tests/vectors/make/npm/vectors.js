// Writes the vectors of simple-flakeid; see ../README.md.
const fs = require('fs')
const path = require('path')
const { SnowflakeIdv1 } = require('simple-flakeid')

const offsets = [1000n, 86400000n, 1n << 31n, 1n << 35n, 1n << 38n, 1n << 40n, (1n << 41n) + 7n, 1n << 45n, (1n << 51n) - 2000n]
const rows = []
offsets.forEach((offset, i) => {
  const generator = new SnowflakeIdv1({ workerId: 63 - i * 7 })
  let now = offset
  generator.GetCurrentTimeTick = () => now
  const add = (id) => {
    const shift = generator.WorkerIdBitLength + generator.SeqBitLength
    const mask = (bits) => (1n << bits) - 1n
    const unixMs = (id >> shift) + generator.BaseTime
    const worker = (id >> generator.SeqBitLength) & mask(generator.WorkerIdBitLength)
    const sequence = id & mask(generator.SeqBitLength)
    rows.push(`    {"id": "${id}", "unix_ms": ${unixMs}, "data_center": 0, "worker": ${worker}, "sequence": ${sequence}}`)
  }
  for (let n = 0; n < (i === 3 ? 61 : 3); n++) {
    const id = generator.NextBigId()
    if (n < 3 || n > 56) add(id)
  }
  now += 10n
  add(generator.NextBigId())
  now -= 5n
  add(generator.NextBigId())
})
const head = { library: 'simple-flakeid', version: '0.0.5', layout: 'yitter-js', fields: "the generator's own BaseTime and bit lengths" }
const text = JSON.stringify(head, null, 2).replace(/\n}$/, `,\n  "ids": [\n${rows.join(',\n')}\n  ]\n}\n`)
fs.writeFileSync(path.join(process.argv[2], 'simple-flakeid.json'), text)

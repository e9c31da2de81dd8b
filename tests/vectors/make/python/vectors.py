"""Writes a file of vectors; see ../README.md."""

import json
import pathlib
import sys

from snowflake import snowflake

# Milliseconds after 1970, which is the library's epoch, up to the end of 41 bits.
OFFSETS = [3, 1_000, 86_400_000, 1 << 31, (1 << 35) + 5, (1 << 38) - 2, 1 << 39, 500_000_000_000,
           1 << 40, 1_500_000_000_001, 2_000_000_000_000, (1 << 41) - 2]

rows = []
for i, offset in enumerate(OFFSETS):
    snowflake.time = lambda: offset / 1000 + 0.000_4
    generator = snowflake.SnowflakeGenerator(1023 - i * 93, timestamp=1)
    for _ in range(4):
        number = next(generator)
        parsed = snowflake.Snowflake.parse(number)
        rows.append('    ' + json.dumps({
            "id": str(number), "unix_ms": parsed.milliseconds, "data_center": 0,
            "worker": parsed.instance, "sequence": parsed.seq}))

head = {
    "library": "snowflake-id (PyPI)",
    "version": "1.0.2",
    "layout": "time:41,worker:10,sequence:12",
    "fields": "Snowflake.parse",
}
text = json.dumps(head, indent=2)[:-2] + ',\n  "ids": [\n' + ',\n'.join(rows) + '\n  ]\n}\n'
pathlib.Path(sys.argv[1], 'snowflake-id.json').write_text(text)

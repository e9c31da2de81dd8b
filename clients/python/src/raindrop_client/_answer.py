import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from itertools import chain, pairwise, repeat
from math import inf
from typing import Any, TypeAlias, cast
from uuid import UUID

from ._errors import RaindropError

LARGEST_BODY = 1024 * 1024
LARGEST_ID = 2**63 - 1

_DECIMAL = re.compile(r"0|[1-9][0-9]{0,18}")
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(\.\d+)?(?:[Zz]|([+-]\d\d:\d\d))")
# The bits of a UUID besides instant, version and variant, and those of them behind the variant.
_UUID_FREE_BITS, _UUID_LOW_BITS = 74, 62
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)

# What `json.loads` makes of an object.
_Object: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Reply:
    """A whole answer as it came by HTTP. Of its body, LARGEST_BODY bytes and one more are read."""

    status: int
    content_type: str
    retry_after: str
    body: bytes

    def is_of_type(self, media_type: str) -> bool:
        """Whether the content has a media type, which is given in lower case."""
        return self.content_type.split(";")[0].strip().lower() == media_type


@dataclass(frozen=True, slots=True)
class TimeField:
    """How to read the time of an ID."""

    epoch_ms: int
    unit_ms: int
    shift: int
    bits: int

    def time_of(self, one: int) -> datetime:
        """Returns when an ID was claimed."""
        tick = (one >> self.shift) & ((1 << self.bits) - 1)
        return _EPOCH + timedelta(milliseconds=self.epoch_ms + tick * self.unit_ms)

    def uuid_of(self, one: int, random: int) -> UUID:
        """Writes the instant, and then the fields below the timestamp before random bits.

        docs/clients.md has the layout.
        """
        unix_ms = self.epoch_ms + ((one >> self.shift) & ((1 << self.bits) - 1))
        random_bits = _UUID_FREE_BITS - self.shift
        fields = one & ((1 << self.shift) - 1)
        free = fields << random_bits | random & ((1 << random_bits) - 1)
        low = free & ((1 << _UUID_LOW_BITS) - 1)
        high = (unix_ms & ((1 << 48) - 1)) << 16 | 7 << 12 | free >> _UUID_LOW_BITS
        return UUID(int=high << 64 | 0b10 << _UUID_LOW_BITS | low)


@dataclass(slots=True)
class Segment:
    """A range of IDs. A call of the iterator is one step of the interpreter: none comes twice."""

    ids: Iterator[int]
    first: int
    last: int
    prefix: str
    time: TimeField | None
    # How many IDs the iterator still has. An exception of a signal handler can leave it wrong.
    left: int
    # The readings of the clock from which on no ID may be used, and a caller checks more than that.
    limit: float = inf
    look_at: float = -inf


@dataclass(slots=True)
class Answer:
    """A checked answer. `life` is how long its IDs may be used, in seconds."""

    segments: list[Segment]
    total: int
    time: TimeField | None
    ages: bool
    life: float


def read_reply(reply: Reply, up_to: int, longest_retry_after: float) -> Answer:
    """Returns the answer to a request for so many IDs, or raises what is wrong with it."""
    if reply.status != 200:
        raise _problem(reply, longest_retry_after)
    if not reply.is_of_type("application/json"):
        raise _invalid(f"the answer is {reply.content_type!r}, not application/json")
    if len(reply.body) > LARGEST_BODY:
        raise _invalid(f"the answer has more than {LARGEST_BODY} bytes")
    fields = _read_json(reply.body)
    if fields is None:
        raise _invalid("the answer is not JSON")
    return _read_answer(fields, up_to)


def _invalid(message: str) -> RaindropError:
    return RaindropError("invalid_answer", message)


def _check(holds: bool, message: str) -> None:
    if not holds:
        raise _invalid(message)


def _read_json(body: bytes) -> _Object | None:
    """Returns the fields of a JSON object, none of other JSON, and None if it is no JSON."""
    try:
        return _fields(json.loads(body))
    except (ValueError, RecursionError):
        return None


def _fields(value: object) -> _Object:
    return cast("_Object", value) if isinstance(value, dict) else {}


def _problem(reply: Reply, longest_retry_after: float) -> RaindropError:
    """Returns the error of an answer whose status is not 200."""
    retry_after = None
    if re.fullmatch("[0-9]+", seconds := reply.retry_after.strip()):
        retry_after = min(float(seconds), longest_retry_after)
    is_document = reply.is_of_type("application/problem+json")
    fields = (_read_json(reply.body) if is_document else None) or {}
    code, detail, status = fields.get("code"), fields.get("detail", ""), reply.status
    if not isinstance(code, str) or not isinstance(detail, str):
        message = f"status {status} without a problem document"
        return RaindropError("transport", message, status=status, retry_after=retry_after)
    message = f"{code} ({status}): {detail}"
    return RaindropError(
        "problem", message, code=code, status=status, detail=detail, retry_after=retry_after
    )


def _read_answer(fields: _Object, up_to: int) -> Answer:
    found = fields.get("ranges")
    ranges = cast("list[object]", found) if isinstance(found, list) else []
    prefix = fields.get("prefix", "")
    _check(len(ranges) > 0, "ranges: none in the answer")
    if not isinstance(prefix, str):
        raise _invalid("prefix: not a string")
    time = _read_time(fields["time"]) if "time" in fields else None
    segments = [_read_range(one, prefix, time, f"ranges[{i}]") for i, one in enumerate(ranges)]
    for i, (before, after) in enumerate(pairwise(segments), 1):
        _check(after.first > before.last, f"ranges[{i}]: does not begin above the range before")
    total = sum(segment.left for segment in segments)
    _check(total <= up_to, f"ranges: {total} IDs, but at most {up_to} were asked for")
    life = inf
    if "until" in fields:
        life = _seconds(fields, "until") - _seconds(fields, "issued_at")
    # Numbers of segment mode have no time, so that they have no age.
    ages = "layout" in fields or "increment" not in fields
    return Answer(segments, total, time, ages, life)


def _read_range(value: object, prefix: str, time: TimeField | None, at: str) -> Segment:
    fields = _fields(value)

    def number(name: str) -> int:
        text = fields.get(name)
        if not isinstance(text, str) or not _DECIMAL.fullmatch(text):
            raise _invalid(f"{at}.{name}: {text!r} is no decimal text")
        return int(text)

    def whole(name: str) -> int:
        one = fields.get(name)
        if type(one) is not int or one < 1:
            raise _invalid(f"{at}.{name}: {one!r} is no whole number of at least 1")
        return one

    first, last, step, count = number("first"), number("last"), number("step"), whole("count")
    rows, stride = 1, 0
    is_repeated = "repeat" in fields or "stride" in fields
    if is_repeated:
        rows, stride = whole("repeat"), number("stride")
    width = (count - 1) * step
    end = first + (rows - 1) * stride + width
    _check(step >= 1, f"{at}.step: 0, but must be at least 1")
    _check(not is_repeated or stride > width, f"{at}.stride: {stride}, so the rows overlap")
    _check(end == last, f"{at}.last: {last}, but the IDs end at {end}")
    _check(last <= LARGEST_ID, f"{at}.last: {last} is above 2^63 - 1")
    ids: Iterator[int] = iter(range(first, first + width + 1, step))
    if rows > 1:
        # Never expanded, and without a function in Python: a signal cannot come in between.
        begins = range(first, first + rows * stride, stride)
        ends = range(begins.start + width + 1, begins.stop + width + 1, stride)
        ids = chain.from_iterable(map(range, begins, ends, repeat(step)))
    return Segment(ids, first, last, prefix, time, count * rows)


def _seconds(fields: _Object, name: str) -> float:
    """Returns a time of RFC 3339 in Unix seconds. Python 3.10 reads it only in parts."""
    match = _TIME.fullmatch(str(fields.get(name)))
    if match is None:
        raise _invalid(f"{name}: {fields.get(name)!r} is no time")
    date, clock, fraction, offset = match.groups()
    try:
        whole = datetime.fromisoformat(f"{date}T{clock}{offset or '+00:00'}")
    except ValueError as error:
        raise _invalid(f"{name}: {error}") from error
    return (whole - _EPOCH).total_seconds() + float(fraction or 0)


def _read_time(value: object) -> TimeField:
    fields = _fields(value)
    numbers = [fields.get(name) for name in ("epoch_ms", "unit_ms", "shift", "bits")]
    whole = [one for one in numbers if type(one) is int]
    if len(whole) == 4:
        time = TimeField(*whole)
        end = time.shift + time.bits
        if time.unit_ms >= 1 and time.shift >= 0 and time.bits >= 1 and end <= 63:
            return time
    raise _invalid(f"time: {value!r} describes no time in 63 bits")

"""A driver with a small client of its own, which tests the suite itself: correct, and not fast.

`--broken NAME` breaks one rule of the contract; `run.py self-test` shows that some scenario notices. It
repeats nothing of the other clients, so that a mistake of theirs is not repeated here.
"""

import collections
import datetime
import itertools
import json
import random
import re
import socket
import sys
import threading
import time
import urllib.parse
import uuid

LARGEST = 2**63 - 1
MAX_BODY = 1 << 20
LONGEST_BACK_OFF = 10.0
# The longest Retry-After that counts, unless max_age is longer.
LONGEST_RETRY_AFTER = 60.0
# Problems with these statuses are of one node or of one moment; other 4xx would be every node's.
OF_ONE_NODE = (401, 408, 425, 429)
BROKEN = {
    "repeats_ids": "hands out every hundredth ID twice",
    "keeps_old": "never drops what is older than max_age",
    "counts_ticks": "measures age by the ticks of a timer, which does not run while the process is stopped",
    "counts_age_late": "counts the age of a range from the end of the answer",
    "ignores_until": "drops by age only",
    "waits_for_ever": "has no deadline",
    "swallows_errors": "forgets the error of a refill, so its callers wait until their deadline",
    "forgets_errors": "gives a caller whose time is over no error of an attempt before the one under way",
    "dies_once": "starts no refill any more after one has failed",
    "checks_nothing": "uses every answer that it can read",
    "checks_little": "does not compare count with what was asked for, nor the ranges with each other",
    "uses_halves": "uses the whole ranges of an answer that was cut",
    "uses_replays": "uses an answer that it has used before",
    "follows_redirects": "follows redirects, with the token",
    "takes_any_type": "uses an answer that is not application/json",
    "reads_any_length": "reads a body of any length",
    "ignores_retry_after": "tries again at once",
    "waits_for_the_longest": "waits for the longest Retry-After of all URLs",
    "asks_every_url": "asks every URL when the pause is over, also one whose Retry-After is not",
    "asks_elsewhere": "asks every URL, also after a problem that all of them would answer with",
    "spares_other_urls": "keeps a Retry-After for the URL that sent it, also with a problem that all of them would answer with",
    "takes_408_for_permanent": "takes 408 and 425 for what every node would answer",
    "never_halves": "asks for as many IDs again after 400 invalid_count",
    "forgets_halves": "asks for as many IDs as before, once it has some",
    "forgets_late_answers": "remembers only the answers that it used",
    "no_age_without_layout": "takes IDs of an answer without layout for numbers, though it has no increment",
    "remembers_few": "remembers the first IDs of three answers",
    "keeps_wrong_node": "asks another URL only if no answer came",
    "fails_waiters": "fails those who wait as soon as one request has failed",
    "trusts_retry_after": "waits for as long as Retry-After says, however long",
    "waits_for_token": "waits for the token without a time-out",
    "waits_for_one_url": "lets a request take as long as a call, also where there are more URLs",
    "forgets_demand": "measures demand by what was used, not by those who wait",
    "asks_nothing_in_try": "starts no refill when an ID is taken without waiting",
    "compares_types": "compares the media type as text",
    "has_no_name": "sends no User-Agent",
    "asks_one_by_one": "asks for one ID at a time",
    "asks_for_much": "always asks for as much as it may",
    "asks_twice": "has two requests of a code in flight",
    "uses_get": "asks with GET",
    "no_failover": "uses only the first URL",
    "ignores_stride": "takes IDs of a range by adding one",
    "no_prefix": "leaves the prefix out",
    "keeps_prefix": "writes the prefix of the last answer before all IDs",
    "wrong_time": "reads an ID's time without its epoch",
    "shares_buffers": "has one buffer for all codes",
    "ignores_close": "goes on after it was closed",
    "leaks": "keeps every body that it has read",
    "forgets_waiters": "lets callers wait when it is closed",
    "times_each_read": "limits the time of each read, not that of the request",
    "reads_loosely": "takes any text for a number that the language can read as one",
    "wraps": "calculates IDs in 64 bits, and their number in 32",
    "uuid_by_chance": "makes UUIDs of nothing but the time",
    "uuid_fields_last": "writes the fields behind the random bits",
    "uuid_one_random": "draws the random bits once",
    "uuid_of_any_tick": "makes UUIDs of ticks that are not of a millisecond",
    "forgets_lost_ids": "does not count the IDs that it could not make UUIDs of",
    "keeps_time": "makes UUIDs with the time of another answer than that of their IDs",
    "dies_of_surprise": "expects only the usual errors in its refill",
}


class Failure(Exception):
    def __init__(self, kind, message, **more):
        super().__init__(message)
        self.kind = kind
        self.more = more

    def as_json(self):
        return {"kind": self.kind, "message": str(self)[:300], **self.more}


class Piece:
    """A range with its repeats, of which `taken` IDs are used until the clock shows `ends`."""

    def __init__(self, fields, ends, prefix):
        self.prefix = prefix
        self.first, self.step, self.count = int(fields["first"]), int(fields["step"]), fields["count"]
        self.repeat, self.stride = fields.get("repeat", 1), int(fields.get("stride", 0))
        self.ends = ends
        self.taken = 0

    def left(self):
        return self.count * self.repeat - self.taken

    def take(self):
        block, index = divmod(self.taken, self.count)
        self.taken += 1
        return self.first + block * self.stride + index * self.step


def is_certain(failure):
    """Whether every node would answer so, now and later."""
    status = failure.more.get("status", 0)
    return failure.kind == "usage" or failure.kind == "problem" and 400 <= status < 500 and status not in OF_ONE_NODE


def media_type(headers):
    return headers.get("content-type", "").split(";")[0].strip().lower()


def seconds(text):
    return datetime.datetime.fromisoformat(text).timestamp()


# IDs, how to read the time of all of them, and the prefix of each.
Drawn = collections.namedtuple("Drawn", ["ids", "time", "prefixes"])


class Buffer:
    def __init__(self):
        self.pieces = collections.deque()
        self.prefix = ""
        self.time = None
        self.in_flight = 0
        self.needed = 0
        self.size = 0
        # The most IDs to ask for, where the service has refused more.
        self.most = sys.maxsize
        self.fetched_at = 0.0
        self.seen = collections.deque(maxlen=100)
        self.failures = 0
        self.error = None
        # Counts failed refills, so that a caller notices one that failed while it waited.
        self.failed = 0
        self.retry_at = 0.0
        self.failed_at = 0.0
        # When the client may ask each URL again.
        self.ask_at = collections.defaultdict(float)
        self.window_began = time.monotonic()
        self.window_used = 0
        self.rate = 0.0

    def left(self):
        return sum(piece.left() for piece in self.pieces)

    def used(self, n):
        now = time.monotonic()
        self.window_used += n
        passed = now - self.window_began
        if passed >= 0.2:
            rate = self.window_used / passed
            self.rate = rate if rate > self.rate else (self.rate + rate) / 2
            self.window_began, self.window_used = now, 0


class Client:
    def __init__(self, urls, token, options, broken, token_faults=()):
        self.urls = urls[:1] if "no_failover" in broken else urls
        # The one that answered last.
        self.best = None
        self.token = token
        # The faults of the next calls of the token function, instead of returning the token.
        self.token_faults = list(token_faults)
        self.broken = broken
        self.target = options.get("target_ms", 2000) / 1000
        self.max_age = options.get("max_age_ms", 10_000) / 1000
        self.min_range = options.get("min_range", 1)
        self.max_range = options.get("max_range", 100_000)
        self.deadline = options.get("deadline_ms", 2000) / 1000
        # Where there are more URLs, a caller must have time for another one.
        shortened = len(urls) > 1 and "waits_for_one_url" not in broken
        by_default = min(max(self.deadline / 2, 1.0), 5.0) if shortened else 5.0
        self.request_timeout = options.get("request_timeout_ms", by_default * 1000) / 1000
        self.buffers = collections.defaultdict(Buffer)
        self.changed = threading.Condition()
        self.closed = False
        self.stats = {"requests": 0, "failed_requests": 0, "ids_fetched": 0, "ids_dropped": 0}
        self.ticks = 0
        self.last_id = None
        self.kept = []
        if "counts_ticks" in broken:
            threading.Thread(target=self.tick, daemon=True).start()

    def tick(self):
        while True:
            time.sleep(0.05)
            self.ticks += 1

    def age_clock(self):
        return self.ticks * 0.05 if "counts_ticks" in self.broken else time.monotonic()

    def buffer(self, code):
        return self.buffers["any" if "shares_buffers" in self.broken else code]

    def drop_old(self, buffer):
        if "keeps_old" in self.broken:
            return
        while buffer.pieces and self.age_clock() >= buffer.pieces[0].ends:
            self.stats["ids_dropped"] += buffer.pieces.popleft().left()

    def next(self, code, n=1, deadline=None):
        if not 1 <= n <= self.max_range:
            raise Failure("usage", f"n is {n}, but must be 1 to {self.max_range}")
        ends = time.monotonic() + (self.deadline if deadline is None else deadline)
        with self.changed:
            buffer = self.buffer(code)
            failed = buffer.failed
            while True:
                if self.closed and "ignores_close" not in self.broken:
                    raise Failure("closed", "the client is closed")
                self.drop_old(buffer)
                if buffer.left() >= n:
                    ends_first = buffer.pieces[0].ends
                    ids, prefixes = self.take(code, buffer, n)
                    # The process may have been stopped since the last look at the clock.
                    if self.age_clock() < ends_first or "keeps_old" in self.broken:
                        return Drawn(ids, buffer.time, prefixes)
                    self.stats["ids_dropped"] += n
                    continue
                if buffer.failed != failed and (is_certain(buffer.error) or "fails_waiters" in self.broken):
                    raise buffer.error
                now = time.monotonic()
                retry_at = self.retry_at(buffer)
                if buffer.in_flight < (2 if "asks_twice" in self.broken else 1):
                    if retry_at <= now:
                        buffer.needed = max(buffer.needed, n - buffer.left())
                        self.refill(code, buffer)
                    elif retry_at >= ends and "swallows_errors" not in self.broken:
                        raise buffer.error
                else:
                    buffer.needed = max(buffer.needed, n - buffer.left())
                if "waits_for_ever" in self.broken:
                    self.changed.wait(0.05)
                    continue
                if now >= ends:
                    if buffer.failed != failed and not {"swallows_errors", "forgets_errors"} & self.broken:
                        raise buffer.error
                    raise Failure("deadline", "the caller's time is over")
                wake = ends if buffer.in_flight else min(ends, max(retry_at, now + 0.001))
                self.changed.wait(wake - now)

    def retry_at(self, buffer):
        """Returns when a caller that waits may start a refill: no later than after the longest back-off."""
        if "trusts_retry_after" in self.broken:
            return buffer.retry_at
        return min(buffer.retry_at, buffer.failed_at + LONGEST_BACK_OFF)

    def try_next(self, code):
        """Returns an ID that is there, in a list; otherwise starts a refill and fails."""
        with self.changed:
            buffer = self.buffer(code)
            self.drop_old(buffer)
            if buffer.left():
                return self.take(code, buffer, 1)[0]
            if not buffer.in_flight and buffer.retry_at <= time.monotonic() and "asks_nothing_in_try" not in self.broken:
                self.refill(code, buffer)
        raise Failure("empty", "the buffer is empty")

    def warm_up(self, code):
        """Waits until the buffer has an ID."""
        ends = time.monotonic() + self.deadline
        while time.monotonic() < ends:
            with self.changed:
                buffer = self.buffer(code)
                if buffer.left():
                    return
                if not buffer.in_flight and self.retry_at(buffer) <= time.monotonic():
                    self.refill(code, buffer)
                self.changed.wait(0.05)
        raise Failure("deadline", "the caller's time is over")

    def take(self, code, buffer, n):
        ids, prefixes = [], []
        while len(ids) < n:
            piece = buffer.pieces[0]
            ids.append(piece.take())
            prefixes.append(buffer.prefix if "keeps_prefix" in self.broken else piece.prefix)
            if not piece.left():
                buffer.pieces.popleft()
        buffer.used(n)
        if "repeats_ids" in self.broken and self.last_id and random.random() < 0.01:
            ids[0] = self.last_id
        self.last_id = ids[-1]
        left = buffer.left()
        if left < buffer.rate * self.target / 2 and not buffer.in_flight and buffer.retry_at <= time.monotonic():
            self.refill(code, buffer)
        return ids, prefixes

    def refill(self, code, buffer):
        if "dies_once" in self.broken and buffer.failed:
            return
        wanted = max(buffer.needed, self.min_range, min(int(buffer.rate * self.target), 2 * max(buffer.size, 50)))
        is_short = not buffer.left() and time.monotonic() - buffer.fetched_at < self.target
        if is_short and "forgets_demand" not in self.broken:
            # The last answer did not last long.
            wanted = max(wanted, 2 * buffer.size)
        size = min(wanted, self.max_range, buffer.most)
        if "asks_one_by_one" in self.broken:
            size = 1
        if "asks_for_much" in self.broken:
            size = self.max_range
        buffer.size, buffer.needed = size, 0
        buffer.in_flight += 1
        threading.Thread(target=self.refill_now, args=(code, buffer, size), daemon=True).start()

    def refill_now(self, code, buffer, size):
        born = self.age_clock()
        failure = None
        expected = (ValueError, KeyError) if "dies_of_surprise" in self.broken else Exception
        try:
            answer = self.fetch_allowed(code, buffer, size)
            if "counts_age_late" in self.broken:
                born = self.age_clock()
            pieces = [Piece(fields, born + self.lasts(answer), answer.get("prefix", "")) for fields in answer["ranges"]]
        except Failure as error:
            failure = error
        except expected as error:  # whatever it is, the callers must hear of it
            failure = Failure("invalid_answer", f"{type(error).__name__}: {error}")
        with self.changed:
            buffer.in_flight -= 1
            if failure:
                self.stats["failed_requests"] += 1
                buffer.failed += 1
                buffer.failures += 1
                buffer.error = failure
                buffer.failed_at = time.monotonic()
                pause = random.uniform(0.5, 1) * min(10.0, 0.1 * 2**buffer.failures)
                known = max if "waits_for_the_longest" in self.broken else min
                buffer.retry_at = max(time.monotonic() + pause, known(buffer.ask_at[url] for url in self.urls))
                if "ignores_retry_after" in self.broken:
                    buffer.retry_at = 0.0
            else:
                buffer.failures = 0
                buffer.retry_at = 0.0
                buffer.fetched_at = time.monotonic()
                if "ignores_stride" in self.broken:
                    for piece in pieces:
                        piece.step = 1
                        piece.stride = piece.count
                layout = answer.get("time")
                if "keeps_time" in self.broken:
                    layout = layout or buffer.time
                elif layout != buffer.time:
                    self.stats["ids_dropped"] += buffer.left()
                    buffer.pieces.clear()
                buffer.time = layout
                buffer.pieces.extend(pieces)
                buffer.prefix = answer.get("prefix", "")
                self.stats["ids_fetched"] += sum(piece.left() for piece in pieces)
            self.changed.notify_all()

    def fetch_allowed(self, code, buffer, size):
        """Asks for half as many, as long as that is more than the service allows."""
        while True:
            try:
                return self.fetch(code, buffer, size)
            except Failure as failure:
                if failure.more.get("code") != "invalid_count" or size == 1 or "never_halves" in self.broken:
                    raise
                size //= 2
                if "forgets_halves" not in self.broken:
                    buffer.most = size

    def fetch(self, code, buffer, size):
        urls = sorted(self.urls, key=lambda url: url != self.best)
        if not {"asks_every_url", "ignores_retry_after"} & self.broken:
            now = time.monotonic()
            urls = [url for url in urls if buffer.ask_at[url] <= now]
        # A caller waits and the pause is over, so the client asks the URL whose time ends first.
        urls = urls or [min(self.urls, key=lambda url: buffer.ask_at[url])]
        failure = None
        for url in urls:
            failure = self.attempt(url, code, buffer, size)
            if isinstance(failure, dict):
                self.best = url
                return failure
            certain = is_certain(failure)
            if "takes_408_for_permanent" in self.broken and failure.more.get("status") in (408, 425):
                certain = True
            ask_at = time.monotonic() + failure.more.get("retry_after_ms", 0) / 1000
            for one in self.urls if certain and "spares_other_urls" not in self.broken else [url]:
                buffer.ask_at[one] = max(buffer.ask_at[one], ask_at)
            if certain and "asks_elsewhere" not in self.broken:
                break
            if failure.kind != "transport" and "keeps_wrong_node" in self.broken:
                break
        raise failure

    def lasts(self, answer):
        """Returns for how long the IDs of an answer may be used, in seconds."""
        # Numbers have no time, so they have no age.
        is_number = "layout" not in answer and ("increment" in answer or "no_age_without_layout" in self.broken)
        lasts = 10**9 if is_number else self.max_age
        if "until" in answer and "ignores_until" not in self.broken:
            # As a span, so that the clocks of client and service need not agree.
            lasts = min(lasts, seconds(answer["until"]) - seconds(answer["issued_at"]))
        return lasts

    def attempt(self, url, code, buffer, size):
        """Returns the answer of one URL, or its failure: whatever it is, another URL may do better."""
        expected = (ValueError, KeyError) if "dies_of_surprise" in self.broken else Exception
        born = self.age_clock()
        try:
            answer = self.fetch_from(url, code, size)
            is_old = self.age_clock() - born >= self.lasts(answer) and "keeps_old" not in self.broken
            seen = collections.deque(buffer.seen, maxlen=3 if "remembers_few" in self.broken else None)
            first = int(answer["ranges"][0]["first"])
            if not is_old or "forgets_late_answers" not in self.broken:
                buffer.seen.append(first)
            if first in seen and "uses_replays" not in self.broken:
                return Failure("invalid_answer", "the answer came before")
            if is_old:
                return Failure("transport", "the answer came when its IDs were too old")
            return answer
        except Failure as failure:
            return failure
        except expected as error:
            return Failure("invalid_answer", f"{type(error).__name__}: {error}")

    def fetch_from(self, url, code, size):
        self.stats["requests"] += 1
        status, headers, body = self.exchange(url, f"/ids/{urllib.parse.quote(code)}?format=range&up_to={size}")
        content_type = headers.get("content-type", "") if "compares_types" in self.broken else media_type(headers)
        if status in (301, 302, 307, 308) and "follows_redirects" in self.broken:
            there = urllib.parse.urlsplit(headers["location"])
            status, headers, body = self.exchange(f"http://{there.netloc}", f"{there.path}?{there.query}")
        if status != 200:
            more = {"status": status}
            if re.fullmatch(r"[0-9]+", headers.get("retry-after", "")):
                longest = max(LONGEST_RETRY_AFTER, self.max_age)
                longest = 10**9 if "trusts_retry_after" in self.broken else longest
                more["retry_after_ms"] = int(min(int(headers["retry-after"]), longest) * 1000)
            if content_type != "application/problem+json":
                raise Failure("transport", f"status {status}", **more)
            problem = json.loads(body)
            raise Failure("problem", problem.get("detail", ""), code=problem.get("code"), **more)
        if content_type != "application/json" and "takes_any_type" not in self.broken:
            raise Failure("invalid_answer", f"content type {content_type}")
        answer = json.loads(body)
        if "checks_nothing" not in self.broken:
            self.check(answer, size)
        return answer

    def check(self, answer, asked):
        def require(holds, what):
            if not holds:
                raise Failure("invalid_answer", f"an answer with {what}")

        loosely, wraps = "reads_loosely" in self.broken, "wraps" in self.broken

        def whole(value):
            return type(value) is int

        def cut(value, bits=64):
            return value & (2**bits - 1) if wraps else value

        def number(text):
            if loosely:
                return int(text)
            if wraps:
                return cut(int(text))
            require(type(text) is str and re.fullmatch(r"0|[1-9][0-9]{0,18}", text, re.A), f"a number {text!r}")
            require(int(text) <= LARGEST, f"a number {text}")
            return int(text)

        require(type(answer) is dict and type(answer.get("ranges")) is list and answer["ranges"], "no ranges")
        end, total = -1, 0
        for one in answer["ranges"]:
            first, last, step = number(one.get("first")), number(one.get("last")), number(one.get("step"))
            count, repeat = one.get("count"), one.get("repeat", 1)
            if loosely:
                count = one["count"] = int(count)
            require(whole(count) and whole(repeat) and min(count, repeat, step) >= 1, "no count, repeat or step")
            stride = number(one["stride"]) if "stride" in one else 0
            require(("stride" in one) == ("repeat" in one), "a repeat without stride")
            require(repeat == 1 or stride > (count - 1) * step, "a stride that is too small")
            require(cut(first + (repeat - 1) * stride + (count - 1) * step) == last, "a wrong last")
            if "checks_little" not in self.broken:
                require(first > end, "ranges that descend")
            end, total = last, cut(total + count * repeat, 32)
        require(total <= asked or "checks_little" in self.broken, "too many IDs")
        time_field = answer.get("time")
        if time_field is not None:
            require(all(whole(time_field.get(name)) for name in ("epoch_ms", "unit_ms", "shift", "bits")), "no time")
        require(type(answer.get("prefix", "")) is str, "no prefix")

    def current_token(self):
        """Calls the token function, which may hang or throw."""
        fault = self.token_faults.pop(0) if self.token_faults else None
        if fault == "hang":
            threading.Event().wait(None if "waits_for_token" in self.broken else self.request_timeout)
            raise Failure("transport", "the token did not come in time")
        if fault == "throw":
            raise Failure("transport", "the token function failed")
        return self.token

    def exchange(self, url, target):
        """One request on a connection of its own, so that no answer of another request can come."""
        ends = time.monotonic() + self.request_timeout
        where = urllib.parse.urlsplit(url)
        token = self.current_token()
        if re.search(r"[^\x21-\x7e]", token):
            raise Failure("transport", "the token is not of printable ASCII")
        method = "GET" if "uses_get" in self.broken else "POST"
        name = "" if "has_no_name" in self.broken else "User-Agent: raindrop-reference/0.1.0\r\n"
        head = (
            f"{method} {target} HTTP/1.1\r\nHost: {where.netloc}\r\nAuthorization: Bearer {token}\r\n"
            f"{name}Content-Length: 0\r\nConnection: close\r\n\r\n"
        )
        pieces, text, size = [], b"", 0
        try:
            with socket.create_connection((where.hostname, where.port), timeout=self.request_timeout) as connection:
                connection.sendall(head.encode())
                while not self.is_whole(text, size):
                    left = self.request_timeout if "times_each_read" in self.broken else ends - time.monotonic()
                    connection.settimeout(max(0.001, left))
                    more = connection.recv(65536)
                    if not more:
                        break
                    pieces.append(more)
                    size += len(more)
                    # The head comes with the first piece or two.
                    text = b"".join(pieces) if len(pieces) < 3 else text
                    if size > MAX_BODY + 65536 and "reads_any_length" not in self.broken:
                        raise Failure("invalid_answer", "an answer of more than 1 MiB")
        except OSError as error:
            raise Failure("transport", f"{type(error).__name__}: {error}") from error
        text = b"".join(pieces)
        if "leaks" in self.broken:
            self.kept.append(text)
        return self.split(text)

    def is_whole(self, text, size):
        """Whether `size` bytes, which begin with `text`, have the length that their head names."""
        head, blank, _ = text.partition(b"\r\n\r\n")
        length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
        return blank and length and size >= len(head) + 4 + int(length[1])

    def split(self, text):
        head, blank, body = text.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        status = re.fullmatch(r"HTTP/1\.1 (\d{3}) .*", lines[0])
        if not blank or not status:
            raise Failure("transport", "no whole head")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
        if headers.get("transfer-encoding") == "chunked":
            body = self.unchunk(body)
        else:
            if not re.fullmatch(r"\d{1,9}", headers.get("content-length", "")):
                raise Failure("transport", "no length")
            length = int(headers["content-length"])
            if len(body) < length:
                if "uses_halves" in self.broken:
                    return int(status[1]), headers, self.mend(body)
                raise Failure("transport", "the connection ended within the answer")
            body = body[:length]
        if len(body) > MAX_BODY and "reads_any_length" not in self.broken:
            raise Failure("invalid_answer", "an answer of more than 1 MiB")
        return int(status[1]), headers, body

    def unchunk(self, rest):
        body = []
        while True:
            line, end, rest = rest.partition(b"\r\n")
            if not end or not re.fullmatch(rb"[0-9a-fA-F]{1,8}", line):
                raise Failure("transport", "the connection ended within the answer")
            size = int(line, 16)
            if not size:
                return b"".join(body)
            if len(rest) < size + 2:
                raise Failure("transport", "the connection ended within the answer")
            body.append(rest[:size])
            rest = rest[size + 2 :]

    def mend(self, body):
        """What a client must never do: make an answer of the part that came."""
        ranges = [json.loads(one) for one in re.findall(rb'\{"first"[^}]*\}', body)]
        if not ranges:
            start = re.search(rb'"first":"(\d+)', body)
            if not start:
                raise Failure("transport", "the connection ended within the answer")
            ranges = [{"first": start[1].decode(), "last": start[1].decode(), "step": "1", "count": 1}]
        return json.dumps({"ranges": ranges}).encode()

    def texts(self, drawn):
        return [str(one) if "no_prefix" in self.broken else f"{prefix}{one}" for one, prefix in zip(drawn.ids, drawn.prefixes)]

    def uuids(self, drawn):
        try:
            return [self.uuid(drawn.time, one) for one in drawn.ids]
        except Failure:
            if "forgets_lost_ids" not in self.broken:
                self.stats["ids_dropped"] += len(drawn.ids)
            raise

    def time_of(self, layout, one):
        if layout is None:
            return None
        tick = (one >> layout["shift"]) & (2 ** layout["bits"] - 1)
        return tick * layout["unit_ms"] + (0 if "wrong_time" in self.broken else layout["epoch_ms"])

    def uuid(self, layout, one):
        """Returns the UUID of an ID: its time, and the fields below that before random bits."""
        usual = layout and layout["unit_ms"] == 1 and layout["epoch_ms"] >= 0
        if not usual and not (layout and "uuid_of_any_tick" in self.broken):
            raise Failure("usage", "its ticks are not of a millisecond since 1970, or it has none")
        shift = layout["shift"]
        fields = format(one % 2**shift, "b").zfill(shift) if shift else ""
        tail = format(self.random_tail(), "074b")[shift:]
        if "uuid_by_chance" in self.broken:
            fields = format(random.getrandbits(74), "074b")[:shift]
        free = tail + fields if "uuid_fields_last" in self.broken else fields + tail
        bits = format(self.time_of(layout, one), "048b") + "0111" + free[:12] + "10" + free[12:]
        return str(uuid.UUID(int=int(bits, 2)))

    def random_tail(self):
        return 5 if "uuid_one_random" in self.broken else random.SystemRandom().getrandbits(74)

    def close(self):
        with self.changed:
            self.closed = True
            if "forgets_waiters" not in self.broken:
                self.changed.notify_all()


class Driver:
    def __init__(self, broken):
        self.broken = broken
        self.client = None
        self.started = {}
        self.numbers = itertools.count(1)
        self.file_lock = threading.Lock()

    def answer(self, request):
        try:
            return getattr(self, "do_" + request["do"])(request)
        except Failure as error:
            return {"error": error.as_json()}

    def do_open(self, request):
        self.client = Client(request["urls"], request.get("token", ""), request.get("options", {}), self.broken, request.get("token_faults", []))
        return {"ok": True}

    def draw(self, request, write=lambda drawn: drawn.ids):
        """Draws IDs, and answers with what `write` makes of what was drawn."""
        began = time.monotonic()
        deadline = request.get("deadline_ms")
        try:
            ids = write(self.client.next(request["code"], request.get("n", 1), deadline and deadline / 1000))
        except Failure as error:
            return {"error": error.as_json(), "waited_ms": (time.monotonic() - began) * 1000}
        return {"ids": ids, "waited_ms": (time.monotonic() - began) * 1000}

    def do_next(self, request):
        return self.draw(request, lambda drawn: [str(one) for one in drawn.ids])

    def do_text(self, request):
        return self.draw(request, self.client.texts)

    def do_uuid(self, request):
        return self.draw(request, self.client.uuids)

    def do_try(self, request):
        return {"ids": [str(one) for one in self.client.try_next(request["code"])]}

    def do_warm_up(self, request):
        self.client.warm_up(request["code"])
        return {"ok": True}

    def do_burst(self, request):
        drawn, waits, ages = [], [], []
        per_second = request.get("per_second", 0)

        def run():
            began = time.monotonic()
            own, failed, longest, oldest = [], 0, 0.0, None
            for index in range(request["count"]):
                if per_second:
                    time.sleep(max(0.0, began + index / per_second - time.monotonic()))
                answer = self.draw({**request, "n": 1})
                longest = max(longest, answer["waited_ms"])
                if "error" in answer:
                    failed += 1
                    continue
                own += answer["ids"]
                unix_ms = self.time_of(request["code"], own[-1])
                if unix_ms is not None:
                    oldest = max(oldest or 0.0, time.time() * 1000 - unix_ms)
            with self.file_lock:
                with open(request["file"], "a", encoding="ascii") as file:
                    file.write("".join(f"{one}\n" for one in own))
                drawn.append((len(own), failed))
                waits.append(longest)
                ages.append(oldest)

        threads = [threading.Thread(target=run) for _ in range(request["threads"])]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        known = [age for age in ages if age is not None]
        return {
            "drawn": sum(one for one, _ in drawn),
            "failed": sum(one for _, one in drawn),
            "longest_wait_ms": max(waits),
            "oldest_ms": max(known) if known else None,
        }

    def do_time_of(self, request):
        return {"unix_ms": self.time_of(request["code"], int(request["id"]))}

    def time_of(self, code, one):
        """Returns the time of an ID, read as the last answer says."""
        return self.client.time_of(self.client.buffer(code).time, one)

    def do_stats(self, _request):
        with open("/proc/self/status", encoding="ascii") as file:
            memory = int(re.search(r"VmRSS:\s+(\d+) kB", file.read())[1]) * 1024
        return {**self.client.stats, "memory_bytes": memory}

    def do_close(self, _request):
        self.client.close()
        return {"ok": True}

    def do_await(self, request):
        thread, result = self.started.pop(request["started"])
        thread.join()
        return result[0]

    def start(self, request):
        result = []
        thread = threading.Thread(target=lambda: result.append(self.answer(request)), daemon=True)
        number = next(self.numbers)
        self.started[number] = (thread, result)
        thread.start()
        return {"started": number}

    def run(self):
        for line in sys.stdin:
            request = json.loads(line)
            answer = self.start(request) if request.get("background") else self.answer(request)
            print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    flags = set(sys.argv[2:]) if sys.argv[1:2] == ["--broken"] else set()
    if unknown := flags - set(BROKEN):
        sys.exit(f"no such way to be broken: {unknown}")
    Driver(flags).run()

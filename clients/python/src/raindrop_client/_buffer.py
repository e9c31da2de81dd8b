"""The protocol of one code, without input and output.

A driver runs the steps of a refill and lets callers wait. Whatever is called for outside the lock
(hooks, callers to wake, a refill to start) is kept until the lock is released.

No ID comes twice, whichever thread, signal handler or finalizer draws at the same time: an ID is
taken from an iterator, and a segment from a queue, by one call that nothing interrupts.
"""

import asyncio
import contextlib
import logging
import os
import random
import threading
import urllib.parse
from collections import deque
from collections.abc import Awaitable, Callable, Generator, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from math import exp, expm1, inf
from typing import NoReturn

from ._answer import Reply, Segment, TimeField, read_reply
from ._errors import RaindropError, wrap
from ._options import Clock, Event

# In seconds. A caller that waits is reason to ask again after the longest pause, whatever a
# Retry-After said.
_FIRST_PAUSE = 0.2
_LONGEST_PAUSE = 10.0
_LONGEST_RETRY_AFTER = 60.0
_LOG_AGAIN = 60.0

# How often a caller that draws looks at the whole buffer, in seconds.
_LOOK_AGAIN = 0.001

# How many answers are remembered, to notice one that something on the way repeats.
_REMEMBERED = 1000

_log = logging.getLogger("raindrop_client")


@dataclass(frozen=True, slots=True)
class Pause:
    """A step of a refill: to wait for so many seconds, or until the client is closed."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Attempt:
    """A step of a refill: to send a request. It is answered by its reply, or why there is none."""

    url: str
    target: str


# The steps of a refill, and why it failed.
Steps = Generator[Pause | Attempt, Reply | RaindropError | None, RaindropError | None]


class Unique:
    """What must have no copy, because the copy would hand out the same IDs."""

    def __reduce__(self) -> NoReturn:
        """Refuses to be copied or pickled."""
        raise TypeError(f"a {type(self).__name__} cannot be copied or pickled: IDs would repeat")


@dataclass(eq=False, kw_only=True)
class Context:
    """The options of a client, checked, and what its buffers share. Times are in seconds."""

    # The base URL that answered last comes first.
    urls: tuple[str, ...]
    namespace: str | None
    target: float
    min_range: int
    max_range: int
    max_age: float
    deadline: float
    on_event: Callable[[Event], None] | None
    clock: Clock
    # Resets all buffers and connections, in the child of a fork, and then `pid`.
    forget: Callable[[], None]
    pid: int = field(default_factory=os.getpid)
    # The loop in which a call waited last. It runs an asynchronous token function.
    loop: asyncio.AbstractEventLoop | None = None
    hook_error: RaindropError | None = None
    log_at: float = -inf

    def prefer(self, url: str) -> None:
        """Puts a base URL in front of the others."""
        if self.urls[0] != url:
            self.urls = (url, *(other for other in self.urls if other != url))

    def emit(self, event: Event) -> None:
        """Calls the hook. What it raises fails the next refill."""
        if self.on_event is None:
            return
        try:
            self.on_event(event)
        except Exception as thrown:
            self.hook_error = RaindropError("usage", f"on_event raised {thrown!r}")
            self.hook_error.__cause__ = thrown

    def run(self, token: Awaitable[str], timeout: float) -> str:
        """Returns what an asynchronous token function returns."""

        async def awaited() -> str:
            return await token

        if self.loop is None:
            return asyncio.run(awaited())
        return asyncio.run_coroutine_threadsafe(awaited(), self.loop).result(timeout)

    def log_failure(self, code: str, error: RaindropError) -> None:
        """Logs a failed refill, at most once a minute."""
        now = self.clock()
        if now >= self.log_at:
            self.log_at = now + _LOG_AGAIN
            _log.warning("refill failed code=%s error=%s", code, error)


@dataclass(eq=False, slots=True)
class Waiter:
    """A call that waits for n IDs, or takes none and waits until there is one."""

    n: int
    takes: bool
    wake: Callable[[], object]
    since: float
    ends_at: float
    # Why the last refill failed that it waited for, and why it must not go on waiting.
    failure: RaindropError | None = None
    error: RaindropError | None = None


class Buffer(Unique):
    """The IDs of one code that this client holds, and the refill that replaces them."""

    def __init__(self, code: str, context: Context, start: Callable[["Buffer"], object]) -> None:
        """`start` is called to run the steps of a refill in the background."""
        self.code = code
        self._context = context
        self._clock = context.clock
        self._start = start
        self._is_closed = False
        self.reset()

    def reset(self) -> None:
        """Forgets all IDs, callers and requests, as a child does: they are its parent's."""
        self._lock = threading.RLock()
        self._after: deque[Callable[[], object]] = deque()
        # The segment that IDs are taken from, and those after it.
        self._ids: Iterator[int] = iter(())
        self._left = 0
        self._limit = self._look_at = -inf
        self._segments: deque[Segment] = deque()
        self._reserve = 0
        self.prefix = ""
        self.time: TimeField | None = None
        self._known: dict[int, None] = {}
        # Demand: how many IDs came and were not dropped, how many are used in half of `target`.
        self._accepted = self._measured_use = 0
        self._usage = 0.0
        self._measured_at = self._used_at = -inf
        self._last_total, self._last_came = 0, -inf
        self._most = self._context.max_range
        self._missed = self._wanted = 0
        self._waiters: set[Waiter] = set()
        # Failures: when a refill may begin, without callers that wait and with them.
        self._is_refilling = False
        self._failures = 0
        self._last_error: RaindropError | None = None
        self._resume_at = self._waiters_resume_at = -inf
        self._ask_at = dict.fromkeys(self._context.urls, -inf)

    def take(self) -> int | None:
        """Returns the next ID, or None if there is none; a refill then starts, if one may."""
        # Some servers fork without Python's hooks.
        if os.getpid() != self._context.pid:
            self._context.forget()
        with self._lock:
            one = next(self._ids, None)
            if self._clock() < self._look_at and one is not None:
                self._left -= 1
                return one
            one = self._settle(one)
        self._flush()
        return one

    def draw(self, n: int) -> list[int] | None:
        """Returns n IDs, ascending, or None if there are fewer; then a refill starts if it may."""
        if os.getpid() != self._context.pid:
            self._context.forget()
        with self._changing():
            ids = self._draw(n)
            self._refill_if_low(n if ids is None else 0)
            return ids

    def join(self, n: int, deadline: float, wake: Callable[[], object], *, takes: bool) -> Waiter:
        """Adds a caller that waits. `wake` is called whenever it should poll."""
        if os.getpid() != self._context.pid:
            self._context.forget()
        with self._changing():
            now = self._clock()
            waiter = Waiter(n, takes, wake, now, now + deadline)
            self._waiters.add(waiter)
            self._wanted += n
            return waiter

    def poll(self, waiter: Waiter) -> list[int] | None:
        """Returns the IDs of a caller, raises why it gets none, or returns None: it has to wait."""
        with self._changing():
            if waiter.error is not None:
                raise waiter.error.again()
            if self._is_closed:
                raise closed()
            ids: list[int] | None = None
            if waiter.takes:
                ids = self._draw(waiter.n)
            elif self._advance(self._clock()):
                ids = []
            if ids is not None:
                # It is no more demand.
                self._dismiss(waiter)
                self._refill_if_low(0)
                return ids
            now = self._clock()
            pause_ends = self._waiters_resume_at
            if self._last_error is not None and now < pause_ends and waiter.ends_at <= pause_ends:
                raise self._last_error.again()
            if now >= waiter.ends_at:
                seconds = waiter.ends_at - waiter.since
                late = RaindropError("deadline", f"no ID of code {self.code} within {seconds:g} s")
                raise (waiter.failure or late).again()
            self._refill_if_low(0)
            return None

    def leave(self, waiter: Waiter, error: RaindropError | None) -> None:
        """Removes a caller, which has its IDs or an error."""
        with self._changing():
            self._dismiss(waiter)
            self._emit(Event("wait", self.code, self._clock() - waiter.since, error=error))

    def close(self) -> None:
        """Drops all IDs, and fails those who wait."""
        with self._changing():
            self._is_closed = True
            self._look_at = -inf
            self._ids = iter(())
            self._segments.clear()
            self._drop(self._left + self._reserve)
            self._left = self._reserve = 0
            self._fail_waiters(closed(), inf)

    def refill(self) -> Steps:
        """Yields the steps of one refill, and keeps what comes of them."""
        try:
            error = yield from self._lease()
        except GeneratorExit:
            raise
        except BaseException as thrown:  # whatever it is, callers must hear of it
            error = wrap("the refill failed", thrown)
        self.finish(error)
        return error

    def finish(self, error: RaindropError | None, *, is_final: bool = False) -> None:
        """Ends a refill, and wakes those who wait. If the error is final, all of them get it."""
        with self._changing():
            self._is_refilling = False
            if error is None:
                self._failures, self._last_error = 0, None
                self._resume_at = self._waiters_resume_at = -inf
            elif not self._is_closed:
                self._fail(error, is_final or error.is_certain)
            self._after.extend(waiter.wake for waiter in self._waiters)
            self._refill_if_low(0)

    # What follows is called with the lock, except the steps of a refill.

    @contextlib.contextmanager
    def _changing(self) -> Generator[None, None, None]:
        try:
            with self._lock:
                yield
        finally:
            self._flush()

    def _flush(self) -> None:
        """Does what has to be done without the lock."""
        while True:
            try:
                call = self._after.popleft()
            except IndexError:
                return
            call()

    def _emit(self, event: Event) -> None:
        self._after.append(partial(self._context.emit, event))

    def _settle(self, one: int | None) -> int | None:
        """Returns an ID that was taken, if it is not too old, or else the next that is not."""
        if self._is_closed:
            raise closed()
        while True:
            now = self._clock()
            if one is None:
                self._left = 0
            else:
                self._left -= 1
                if now < self._limit:
                    self._look_at = min(self._limit, now + _LOOK_AGAIN)
                    self._refill_if_low(0)
                    return one
                self._drop(1)
            if not self._advance(now):
                self._refill_if_low(1)
                return None
            one = next(self._ids, None)

    def _draw(self, n: int) -> list[int] | None:
        if self._is_closed:
            raise closed()
        while True:
            ids: list[int] = []
            limit = inf
            now = self._clock()
            has_some = self._advance(now)
            if self._left + self._reserve < n:
                return None
            while has_some and len(ids) < n:
                limit = min(limit, self._limit)
                taken = list(islice(self._ids, n - len(ids)))
                ids += taken
                self._left = self._left - len(taken) if taken else 0
                has_some = self._advance(now)
            # The process may have been stopped meanwhile.
            if len(ids) == n and self._clock() < limit:
                # After a fail-over, IDs of the next node may be below those of the last.
                ids.sort()
                return ids
            self._drop(len(ids))

    def _advance(self, now: float) -> bool:
        """Drops what is too old, and returns whether there is an ID that is not."""
        if self._left > 0 and now < self._limit:
            return True
        self._ids = iter(())
        self._drop(self._left)
        self._left = 0
        while self._segments:
            segment = self._segments.popleft()
            self._reserve -= segment.total
            if now < segment.limit:
                self._limit = segment.limit
                self._look_at = min(segment.limit, now + _LOOK_AGAIN)
                self._left, self._ids = segment.total, segment.ids
                return True
            self._drop(segment.total)
        return False

    def _drop(self, ids: int) -> None:
        if ids > 0:
            self._accepted -= ids
            self._emit(Event("dropped", self.code, ids=ids))

    def _refill_if_low(self, missed: int) -> None:
        """Starts a refill if callers want more, or if the rest lasts less than half of `target`.

        Below one ID in that time it fetches nothing ahead: that would expire unused.
        """
        self._missed = max(self._missed, missed)
        if self._is_refilling or self._is_closed:
            return
        now = self._clock()
        self._measure(now)
        resume_at = self._waiters_resume_at if self._waiters else self._resume_at
        needed = max(self._missed, self._wanted, int(self._usage))
        if needed <= self._left + self._reserve or (now < resume_at and not self._waiters):
            self._missed = 0
            return
        self._is_refilling = True
        self._after.append(partial(self._start, self))

    def _measure(self, now: float) -> None:
        """Brings usage up to date: a mean that forgets; its time constant is half of `target`."""
        used = self._accepted - self._left - self._reserve
        fresh = max(used - self._measured_use, 0)
        if fresh > 0:
            # The first use after a pause says nothing of the next one.
            fresh = fresh if now - self._used_at < self._context.target else 0
            self._used_at = now
        elapsed = max(now - self._measured_at, 1e-9) / (self._context.target / 2)
        self._usage = self._usage * exp(-elapsed) - fresh * expm1(-elapsed) / elapsed
        self._measured_at, self._measured_use = now, used

    def _size(self) -> int:
        """Returns how many IDs to ask for.

        If the last ones were used up within `target`, it is twice as many. While callers wait, they
        can use little, so what was used does not tell how many they need.
        """
        now = self._clock()
        self._measure(now)
        lacking = max(self._missed, self._wanted) - self._left - self._reserve
        self._missed = 0
        size = int(min(2 * self._usage, self._most)) + max(lacking, 0)
        if lacking > 0 and now - self._last_came < self._context.target:
            size = max(size, 2 * self._last_total)
        return min(self._most, max(self._context.min_range, size))

    def _lease(self) -> Steps:
        with self._changing():
            # Without callers that wait, a refill starts only after the longer pause.
            pause = self._waiters_resume_at - self._clock()
        if pause > 0:
            yield Pause(pause)
        with self._changing():
            size = self._size()
        while True:
            error = yield from self._ask(size)
            if error is None or error.code != "invalid_count" or size == 1:
                return error
            # The service or the layout allows less than the client's options.
            self._most = size = size // 2

    def _ask(self, up_to: int) -> Steps:
        """Asks the base URLs that may be asked, until one answers."""
        # The one that may be asked first is asked in any case.
        soonest = min(self._ask_at.values())
        failure: RaindropError | None = None
        target = f"/ids/{urllib.parse.quote(self.code, safe='')}?format=range&up_to={up_to}"
        if self._context.namespace is not None:
            target += f"&namespace={urllib.parse.quote(self._context.namespace, safe='')}"
        for url in self._context.urls:
            asked, process = self._clock(), os.getpid()
            if self._is_closed:
                return None
            if self._ask_at[url] > max(soonest, asked):
                continue
            reply = yield Attempt(url, target)
            ids, failure = 0, None
            try:
                if os.getpid() != process:
                    # Green threads survive a fork: the parent has the same answer.
                    raise RaindropError("transport", "the process forked meanwhile")
                ids = self._accept(reply, up_to, asked)
            except RaindropError as error:
                failure = error
            seconds = self._clock() - asked
            self._context.emit(Event("request", self.code, seconds, ids, failure, up_to, url))
            if failure is None:
                self._context.prefer(url)
                # A hook that raises is the caller's mistake, which must not stay unnoticed.
                failure, self._context.hook_error = self._context.hook_error, None
                return failure
            ask_at = self._clock() + (failure.retry_after or 0.0)
            if failure.is_certain:
                # Another base URL would not answer otherwise, nor sooner.
                self._ask_at = {one: max(at, ask_at) for one, at in self._ask_at.items()}
                return failure
            self._ask_at[url] = ask_at
        return failure

    def _accept(self, reply: Reply | RaindropError | None, up_to: int, asked: float) -> int:
        """Keeps the IDs of a reply, and returns their number; or raises why it cannot be used."""
        if not isinstance(reply, Reply):
            raise reply or RaindropError("transport", "no answer")
        max_age = self._context.max_age
        answer = read_reply(reply, up_to, max(_LONGEST_RETRY_AFTER, max_age))
        limit = asked + min(max_age if answer.ages else inf, answer.life)
        first = answer.segments[0].first
        with self._changing():
            now = self._clock()
            if limit <= now:
                raise RaindropError("transport", "the answer came when its IDs were too old")
            if first in self._known:
                raise RaindropError("invalid_answer", f"an earlier answer began with {first}, too")
            if self._is_closed:
                raise closed()
            self._known[first] = None
            if len(self._known) > _REMEMBERED:
                del self._known[next(iter(self._known))]
            for segment in answer.segments:
                segment.limit = limit
            self._segments.extend(answer.segments)
            self._reserve += answer.total
            self._accepted += answer.total
            self._last_total, self._last_came = answer.total, now
            self.prefix, self.time = answer.prefix, answer.time or self.time
        return answer.total

    def _fail(self, error: RaindropError, is_final: bool) -> None:
        """Begins a pause. Those who wait go on if the next attempt is due before their deadline."""
        longest = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** min(self._failures, 10))
        now = self._clock()
        # Clients that failed together must not return together.
        pause_ends = now + random.uniform(longest / 2, longest)  # noqa: S311
        self._failures += 1
        self._last_error = error
        self._resume_at = max(pause_ends, min(self._ask_at.values()))
        self._waiters_resume_at = min(self._resume_at, now + _LONGEST_PAUSE)
        self._after.append(partial(self._context.log_failure, self.code, error))
        self._fail_waiters(error, inf if is_final else self._waiters_resume_at)

    def _fail_waiters(self, error: RaindropError, before: float) -> None:
        """Fails those whose deadline comes before, and notes the error for the others."""
        for waiter in tuple(self._waiters):
            waiter.failure = error
            if waiter.ends_at <= before:
                waiter.error = error
                self._dismiss(waiter)
                self._after.append(waiter.wake)

    def _dismiss(self, waiter: Waiter) -> None:
        if waiter in self._waiters:
            self._waiters.remove(waiter)
            self._wanted -= waiter.n


def closed() -> RaindropError:
    """Returns the error of a client that is closed."""
    return RaindropError("closed", "the client is closed")

"""The protocol of one code, without input and output.

The client runs refills in threads, sends their requests, and lets callers wait. Whatever is called
for outside the lock (hooks, callers to wake, a refill to start) is kept until the lock is released.

No ID comes twice, whichever thread, signal handler or finalizer draws at the same time: an ID is
taken from an iterator, and a segment from a queue, by one call that nothing interrupts.

The main thread can leave a method at any point, by an exception of a signal handler. So no count
and no flag that such an exception leaves wrong may stop refills: a refill begins in its own thread,
where no handler runs, another is started if none has begun in time, and counts are set right where
the queue is empty and where a refill ends.
"""

import asyncio
import contextlib
import functools
import logging
import os
import random
import sys
import threading
import urllib.parse
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from math import exp, expm1, inf
from typing import TYPE_CHECKING, Concatenate, NoReturn, ParamSpec, TypeAlias, TypeVar

from ._answer import Answer, Reply, Segment, TimeField, read_reply
from ._errors import RaindropError, usage, wrap
from ._options import Clock, Event

# In seconds. A caller that waits is reason to ask again after the longest pause, whatever a
# Retry-After said.
_FIRST_PAUSE = 0.2
_LONGEST_PAUSE = 10.0
_LONGEST_RETRY_AFTER = 60.0
_LOG_AGAIN = 60.0

# How often a caller that draws looks at the whole buffer, in seconds.
_LOOK_AGAIN = 0.001

# When another refill may be started if none has begun, and how often a caller that waits polls
# though nothing woke it, in seconds.
START_AGAIN = 1.0

# How many answers are remembered, to notice one that something on the way repeats.
_REMEMBERED = 1000

_log = logging.getLogger("raindrop_client")

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


if TYPE_CHECKING:
    _RLock = threading.RLock
else:
    _RLock = type(threading.RLock())


class Lock(_RLock):  # type: ignore[misc]  # pyright: ignore[reportGeneralTypeIssues]
    """A lock that its thread can acquire again, and that no exception of a signal leaves locked."""

    if (3, 14) <= sys.version_info < (3, 15):

        def __enter__(self) -> bool:  # type: ignore[override]
            """Acquires the lock.

            Python 3.14 may run a signal handler between a call of `acquire` and the block of
            `with`. It runs none while it unpacks an iterator, nor from there to that block.
            """
            (is_acquired,) = map(self.acquire, (True,))
            return is_acquired


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
    # Runs a refill in the background.
    start: Callable[["Buffer"], object]
    # Waits for so many seconds, or until the client is closed.
    pause: Callable[[float], object]
    # Sends a request to a base URL, with path and query. Returns its reply, or why there is none.
    attempt: Callable[[str, str], Reply | RaindropError]
    # Resets all buffers and connections, in the child of a fork, and then `pid`.
    forget: Callable[[], None]
    pid: int = field(default_factory=os.getpid)
    locks: dict[int, Lock] = field(default_factory=dict[int, Lock])
    # The loop in which a call waited last. It runs an asynchronous token function.
    loop: asyncio.AbstractEventLoop | None = None
    hook_error: RaindropError | None = None
    log_at: float = -inf

    def check_process(self) -> None:
        """Forgets what belongs to the parent, if the process was forked without Python's hooks."""
        pid = os.getpid()
        if pid != self.pid:
            # A lock of this process: no other thread of the parent held it at the fork.
            with self.locks.setdefault(pid, Lock()):
                if pid != self.pid:
                    self.forget()

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
            return await asyncio.wait_for(token, timeout)

        if self.loop is None or not self.loop.is_running():
            return asyncio.run(awaited())
        return asyncio.run_coroutine_threadsafe(awaited(), self.loop).result(timeout)

    def log_failure(self, code: str, error: RaindropError) -> None:
        """Logs a failed refill, at most once a minute."""
        now = self.clock()
        if now >= self.log_at:
            self.log_at = now + _LOG_AGAIN
            _log.warning("refill failed code=%s error=%s", code, error)


# An ID and its segment, which has the prefix and the time of the answer. A tuple, because creating
# an object with named fields takes a fifth of a call.
Taken: TypeAlias = tuple[int, Segment]


@dataclass(frozen=True, slots=True)
class Drawn:
    """Ascending IDs, and those of each segment. All of them came with one `time`."""

    ids: list[int]
    of_segment: list[tuple[Segment, list[int]]]

    @property
    def time(self) -> TimeField | None:
        """How to read the time of the IDs."""
        return self.of_segment[0][0].time

    def texts(self) -> list[str]:
        """Returns the IDs in decimal, each after the prefix of its answer."""
        prefixes = {one: segment.prefix for segment, ids in self.of_segment for one in ids}
        return [f"{prefixes[one]}{one}" for one in self.ids]

    def only(self) -> Taken:
        """Returns the only ID."""
        return self.ids[0], self.of_segment[0][0]


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


def _changing(
    method: Callable[Concatenate["Buffer", _Arguments], _Result],
) -> Callable[Concatenate["Buffer", _Arguments], _Result]:
    """Calls a method of a buffer with the lock, and then what has to be called without it."""

    @functools.wraps(method)
    def call(
        buffer: "Buffer", /, *arguments: _Arguments.args, **named: _Arguments.kwargs
    ) -> _Result:
        buffer.context.check_process()
        try:
            with buffer.lock:
                return method(buffer, *arguments, **named)
        finally:
            buffer.flush()

    return call


class Buffer(Unique):
    """The IDs of one code that this client holds, and the refill that replaces them."""

    def __init__(self, code: str, context: Context) -> None:
        self.code = code
        self.context = context
        self._clock = context.clock
        self._is_closed = False
        self.reset()

    def reset(self) -> None:
        """Forgets all IDs, callers and requests, as a child does: they are its parent's."""
        self.lock = Lock()
        self._after: deque[Callable[[], object]] = deque()
        # The segment that IDs are taken from, those after it, and how many IDs these have.
        self._current = _empty()
        self._segments: deque[Segment] = deque()
        self._reserve = 0
        self.time: TimeField | None = None
        self._known: dict[int, None] = {}
        # Demand: how many IDs came and were not dropped, how many are used in half of `target`.
        self._accepted = self._measured_use = 0
        self._usage = 0.0
        self._measured_at = self._used_at = -inf
        self._last_total, self._last_came = 0, -inf
        self._most = self.context.max_range
        self._missed = self._wanted = 0
        self._waiters: set[Waiter] = set()
        # The refill that has begun, and when another may be started if none has.
        self._refill: object | None = None
        self._start_again_at = -inf
        # Failures: when a refill may begin, without callers that wait and with them.
        self._failures = 0
        self._last_error: RaindropError | None = None
        self._resume_at = self._waiters_resume_at = -inf
        self._ask_at = dict.fromkeys(self.context.urls, -inf)

    def take(self, *, will_wait: bool = False) -> Taken | None:
        """Returns the next ID with its segment, or None if there is none.

        A refill then starts, if one may. That of a caller that will wait starts when it does, so
        that it hears how that refill ends.
        """
        if os.getpid() != self.context.pid:
            self.context.check_process()
        with self.lock:
            segment = self._current
            one = next(segment.ids, None)
            if one is not None:
                segment.left -= 1
                if self._clock() < segment.look_at:
                    return one, segment
            taken = self._look(segment, one, will_wait=will_wait)
        self.flush()
        return taken

    @_changing
    def draw(self, n: int) -> Drawn | None:
        """Returns n IDs, or None if there are fewer: then the caller will wait."""
        drawn = self._draw(n)
        if drawn is not None:
            self._refill_if_low(0)
        return drawn

    @_changing
    def poll(self, waiter: Waiter) -> Drawn | None:
        """Returns the IDs of a caller, raises why it gets none, or returns None: it has to wait."""
        if waiter.error is not None:
            raise waiter.error.again()
        if self._is_closed:
            raise closed()
        if waiter not in self._waiters:
            self._waiters.add(waiter)
            self._wanted += waiter.n
        drawn: Drawn | None = None
        if waiter.takes:
            drawn = self._draw(waiter.n)
        elif self._advance(self._clock()):
            drawn = Drawn([], [])
        if drawn is not None:
            # A caller that has its IDs is no demand.
            self._dismiss(waiter)
            self._refill_if_low(0)
            return drawn
        now = self._clock()
        pause_ends = self._waiters_resume_at
        if self._last_error is not None and now < pause_ends and waiter.ends_at <= pause_ends:
            raise self._last_error.again()
        self._refill_if_low(waiter.n)
        if now >= waiter.ends_at:
            seconds = waiter.ends_at - waiter.since
            late = RaindropError("deadline", f"no ID of code {self.code} within {seconds:g} s")
            raise (waiter.failure or late).again()
        return None

    @_changing
    def discard(self, ids: int) -> None:
        """Counts IDs that were drawn and that no caller gets."""
        self._drop(ids)

    def patience(self, waiter: Waiter) -> float:
        """Returns how many seconds a caller waits for its wake-up before it polls again.

        Raises if this thread holds the lock: then it runs a signal handler or a finalizer in the
        midst of a call, and the refill that it would wait for would wait for that call.
        """
        if self.lock._is_owned():  # type: ignore[attr-defined]  # pyright: ignore
            raise usage(
                f"no buffered ID of code {self.code}, and a signal handler that interrupts a call "
                "of that code cannot wait for one: use try_next in handlers and finalizers"
            )
        return min(max(waiter.ends_at - self._clock(), 0.0), START_AGAIN)

    @_changing
    def leave(self, waiter: Waiter, error: RaindropError | None) -> None:
        """Removes a caller, which has its IDs or an error."""
        self._dismiss(waiter)
        self._emit(Event("wait", self.code, self._clock() - waiter.since, error=error))

    @_changing
    def close(self) -> None:
        """Drops all IDs, and fails those who wait."""
        self._is_closed = True
        self._drop_all()
        self._fail_waiters(closed(), inf)

    def refill(self) -> None:
        """Runs one refill, and keeps what comes of it."""
        refill = object()
        if not self._begin(refill):
            return
        error: RaindropError | None
        try:
            error = self._lease()
        except BaseException as thrown:  # whatever it is, callers must hear of it
            error = wrap("the refill failed", thrown)
        self._finish(refill, error)

    def fail_start(self, error: RaindropError) -> None:
        """Gives an error to all who wait, because no refill can be started."""
        self._finish(None, error, is_final=True)

    def flush(self) -> None:
        """Does what has to be done without the lock."""
        while True:
            try:
                call = self._after.popleft()
            except IndexError:
                return
            call()

    @_changing
    def _begin(self, refill: object) -> bool:
        """Makes a refill the one of this buffer, unless there is one, or none is wanted."""
        if self._refill is not None or self._start_again_at == -inf:
            return False
        self._refill = refill
        return True

    @_changing
    def _finish(
        self, refill: object | None, error: RaindropError | None, *, is_final: bool = False
    ) -> None:
        """Ends a refill, and wakes those who wait. If the error is final, all of them get it."""
        # A refill of the parent process, or one that failed to start while another runs.
        if refill is not self._refill:
            return
        self._refill = None
        self._start_again_at = -inf
        if error is None:
            self._failures, self._last_error = 0, None
            self._resume_at = self._waiters_resume_at = -inf
        elif not self._is_closed:
            self._fail(error, is_final or error.is_certain)
        self._after.extend(waiter.wake for waiter in self._waiters)
        # Those whose time is over notice it themselves, if a signal handler has not ended them.
        now = self._clock()
        self._waiters = {waiter for waiter in self._waiters if now < waiter.ends_at}
        self._wanted = sum(waiter.n for waiter in self._waiters)
        self._refill_if_low(0)

    # What follows is called with the lock, except what a refill does.

    def _emit(self, event: Event) -> None:
        self._after.append(partial(self.context.emit, event))

    def _look(self, segment: Segment, one: int | None, *, will_wait: bool) -> Taken | None:
        """Returns an ID that was taken, if it is not too old, or else another one."""
        if self._is_closed:
            raise closed()
        now = self._clock()
        taken: Taken | None = None
        if one is None:
            segment.left = 0
        elif now < segment.limit:
            segment.look_at = min(segment.limit, now + _LOOK_AGAIN)
            taken = one, segment
        else:
            self._drop(1)
        if taken is None:
            drawn = self._draw(1)
            taken = drawn.only() if drawn else None
        if taken is not None or not will_wait:
            self._refill_if_low(1 if taken is None else 0)
        return taken

    def _draw(self, n: int) -> Drawn | None:
        if self._is_closed:
            raise closed()
        while True:
            ids: list[int] = []
            of_segment: list[tuple[Segment, list[int]]] = []
            limit = inf
            now = self._clock()
            has_some = self._advance(now)
            if self._current.left + self._reserve < n:
                return None
            while has_some and len(ids) < n:
                segment = self._current
                limit = min(limit, segment.limit)
                taken = list(islice(segment.ids, n - len(ids)))
                if taken:
                    ids += taken
                    of_segment.append((segment, taken))
                    segment.left -= len(taken)
                else:
                    segment.left = 0
                has_some = self._advance(now)
            # The process may have been stopped meanwhile.
            if len(ids) == n and self._clock() < limit:
                # After a fail-over, IDs of the next node may be below those of the last.
                ids.sort()
                return Drawn(ids, of_segment)
            self._drop(len(ids))

    def _advance(self, now: float) -> bool:
        """Drops what is too old, and returns whether there is an ID that is not."""
        if self._current.left > 0 and now < self._current.limit:
            return True
        self._drop(self._current.left)
        self._current = _empty()
        with contextlib.suppress(IndexError):
            while True:
                segment = self._segments.popleft()
                self._reserve -= segment.left
                if now < segment.limit:
                    segment.look_at = min(segment.limit, now + _LOOK_AGAIN)
                    self._current = segment
                    return True
                self._drop(segment.left)
        self._reserve = 0
        return False

    def _drop_all(self) -> None:
        left = self._current.left + self._reserve
        # First, because a finalizer that draws in between would make one of them the current one.
        self._segments.clear()
        self._current = _empty()
        self._reserve = 0
        self._drop(left)

    def _drop(self, ids: int) -> None:
        if ids > 0:
            self._accepted -= ids
            self._emit(Event("dropped", self.code, ids=ids))

    def _refill_if_low(self, missed: int) -> None:
        """Starts a refill if callers want more, or if the rest lasts less than half of `target`.

        Below one ID in that time it fetches nothing ahead: that would expire unused.
        """
        self._missed = max(self._missed, missed)
        now = self._clock()
        if self._refill is not None or self._is_closed or now < self._start_again_at:
            return
        self._measure(now)
        resume_at = self._waiters_resume_at if self._waiters else self._resume_at
        needed = max(self._missed, self._wanted, int(self._usage))
        has_enough = needed <= self._current.left + self._reserve
        if has_enough or (now < resume_at and not self._waiters):
            self._missed = 0
            return
        self._start_again_at = now + START_AGAIN
        self._after.append(partial(self.context.start, self))

    def _measure(self, now: float) -> None:
        """Brings usage up to date: a mean that forgets; its time constant is half of `target`."""
        used = self._accepted - self._current.left - self._reserve
        fresh = max(used - self._measured_use, 0)
        if fresh > 0:
            # The first use after a pause says nothing of the next one.
            fresh = fresh if now - self._used_at < self.context.target else 0
            self._used_at = now
        elapsed = max(now - self._measured_at, 1e-9) / (self.context.target / 2)
        self._usage = self._usage * exp(-elapsed) - fresh * expm1(-elapsed) / elapsed
        self._measured_at, self._measured_use = now, used

    @_changing
    def _size(self) -> int:
        """Returns how many IDs to ask for.

        If the last ones were used up within `target`, it is twice as many. While callers wait, they
        can use little, so what was used does not tell how many they need.
        """
        now = self._clock()
        self._measure(now)
        lacking = max(self._missed, self._wanted) - self._current.left - self._reserve
        self._missed = 0
        size = int(min(2 * self._usage, self._most)) + max(lacking, 0)
        if lacking > 0 and now - self._last_came < self.context.target:
            size = max(size, 2 * self._last_total)
        return min(self._most, max(self.context.min_range, size))

    def _lease(self) -> RaindropError | None:
        # Without callers that wait, a refill starts only after the longer pause.
        pause = self._waiters_resume_at - self._clock()
        if pause > 0:
            self.context.pause(pause)
        size = self._size()
        while True:
            error = self._ask(size)
            if error is None or error.code != "invalid_count" or size == 1:
                return error
            # The service or the layout allows less than the client's options.
            self._most = size = size // 2

    def _ask(self, up_to: int) -> RaindropError | None:
        """Asks the base URLs that may be asked, until one answers."""
        # The one that may be asked first is asked in any case.
        soonest = min(self._ask_at.values())
        failure: RaindropError | None = None
        target = f"/ids/{urllib.parse.quote(self.code, safe='')}?format=range&up_to={up_to}"
        if self.context.namespace is not None:
            target += f"&namespace={urllib.parse.quote(self.context.namespace, safe='')}"
        for url in self.context.urls:
            asked, process = self._clock(), os.getpid()
            if self._is_closed:
                return None
            if self._ask_at[url] > max(soonest, asked):
                continue
            reply = self.context.attempt(url, target)
            ids, failure = 0, None
            try:
                if os.getpid() != process:
                    # Green threads survive a fork: the parent has the same answer.
                    raise RaindropError("transport", "the process forked meanwhile")
                ids = self._accept(reply, up_to, asked)
            except RaindropError as error:
                failure = error
            seconds = self._clock() - asked
            self.context.emit(Event("request", self.code, seconds, ids, failure, up_to, url))
            if failure is None:
                self.context.prefer(url)
                # A hook that raises is the caller's mistake, which must not stay unnoticed.
                failure, self.context.hook_error = self.context.hook_error, None
                return failure
            ask_at = self._clock() + (failure.retry_after or 0.0)
            if failure.is_certain:
                # Another base URL would not answer otherwise, nor sooner.
                self._ask_at = {one: max(at, ask_at) for one, at in self._ask_at.items()}
                return failure
            self._ask_at[url] = ask_at
        return failure

    def _accept(self, reply: Reply | RaindropError, up_to: int, asked: float) -> int:
        """Keeps the IDs of a reply, and returns their number; or raises why it cannot be used."""
        if isinstance(reply, RaindropError):
            raise reply
        max_age = self.context.max_age
        answer = read_reply(reply, up_to, max(_LONGEST_RETRY_AFTER, max_age))
        limit = asked + min(max_age if answer.ages else inf, answer.life)
        self._keep(answer, limit)
        return answer.total

    @_changing
    def _keep(self, answer: Answer, limit: float) -> None:
        now = self._clock()
        first = answer.segments[0].first
        if first in self._known:
            raise RaindropError("invalid_answer", f"an earlier answer began with {first}, too")
        # Also one that is not used: when it comes again, its IDs are still older than they seem.
        self._known[first] = None
        if len(self._known) > _REMEMBERED:
            del self._known[next(iter(self._known))]
        if limit <= now:
            raise RaindropError("transport", "the answer came when its IDs were too old")
        if self._is_closed:
            raise closed()
        for segment in answer.segments:
            segment.limit = limit
        if answer.time != self.time:
            # All IDs in the buffer came with this `time`.
            self._drop_all()
            self.time = answer.time
        self._segments.extend(answer.segments)
        self._reserve += answer.total
        self._accepted += answer.total
        self._last_total, self._last_came = answer.total, now

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
        self._after.append(partial(self.context.log_failure, self.code, error))
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


def _empty() -> Segment:
    return Segment(iter(()), 0, 0, "", None, 0)


def closed() -> RaindropError:
    """Returns the error of a client that is closed."""
    return RaindropError("closed", "the client is closed")

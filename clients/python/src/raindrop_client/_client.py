"""The client and its drivers: threads send the requests, and callers wait in a thread or a task."""

import asyncio
import contextlib
import os
import re
import ssl
import threading
import weakref
from collections.abc import Callable, Generator, Iterable
from datetime import datetime
from functools import partial
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar
from uuid import UUID

from ._answer import LARGEST_ID, Reply, TimeField
from ._buffer import Buffer, Context, Drawn, Unique, Waiter, closed
from ._errors import RaindropError, usage, wrap
from ._options import (
    Clock,
    Event,
    Token,
    base_urls,
    count,
    proxy_parts,
    require,
    seconds,
    steady_clock,
    text,
)
from ._transport import Call, Transport
from ._version import __version__

# What a header of HTTP can carry as a token.
_TOKEN = re.compile(r"[\x21-\x7e]*")

USER_AGENT = f"raindrop-python/{__version__}"


class _BaseCode(Unique):
    """The handle of one code of a client."""

    def __init__(self, name: str, buffer: Buffer, context: Context) -> None:
        self.name = name
        self._buffer = buffer
        self._context = context

    def try_next(self) -> int | None:
        """Returns the next ID at once, or None if the buffer is empty.

        A refill then starts, unless one is under way or the last one failed just now.
        """
        taken = self._buffer.take()
        return None if taken is None else taken[0]

    def time_of(self, one: int) -> datetime | None:
        """Returns when an ID was claimed, as the last answer says, or None if there is none.

        None, too, where the IDs of that answer have no time, as in segment mode.
        """
        time = self._buffer.time
        return None if time is None else time.time_of(one)

    def _waiter(
        self, n: int, deadline: float | None, wake: Callable[[], object], *, takes: bool
    ) -> Waiter:
        if deadline is None:
            deadline = self._context.deadline
        elif deadline != 0:
            deadline = seconds("deadline", deadline)
        now = self._context.clock()
        return Waiter(n, takes, wake, now, now + deadline)

    def _count(self, n: int) -> int:
        return count("n", n, self._context.max_range)

    def _uuids(self, ids: list[int], time: TimeField | None) -> list[UUID]:
        try:
            return _uuids(ids, time, f"IDs of code {self.name}")
        except RaindropError:
            self._buffer.discard(len(ids))
            raise


def _uuids(ids: list[int], time: TimeField | None, at: str) -> list[UUID]:
    if time is None:
        raise usage(f"{at} have no time, or one that wraps, and a UUID needs one")
    if time.unit_ms != 1:
        raise usage(f"{at} have ticks of {time.unit_ms} ms, and a UUID needs 1 ms")
    if time.epoch_ms < 0:
        raise usage(f"{at} begin at {time.epoch_ms} Unix ms, and a UUID in 1970 or later")
    try:
        # Not in blocks: the child of a fork would have the rest of its parent's.
        return [time.uuid_of(one, int.from_bytes(os.urandom(10), "big")) for one in ids]
    except (OSError, NotImplementedError) as error:
        raise wrap("the operating system has no random bits", error) from error


AnyCode = TypeVar("AnyCode", bound=_BaseCode)


class Code(_BaseCode):
    """The handle of one code of a Client. Any number of threads may use it."""

    def next(self, deadline: float | None = None) -> int:
        """Returns the next ID. If the buffer is empty, waits for at most `deadline` seconds."""
        one, _ = self._buffer.take(will_wait=True) or self._wait(1, deadline).only()
        return one

    def next_many(self, n: int, deadline: float | None = None) -> list[int]:
        """Returns n IDs, ascending: 1 to `max_range`."""
        return self._draw(n, deadline).ids

    def next_text(self, deadline: float | None = None) -> str:
        """Returns the next ID as decimal text with the code's prefix."""
        one, segment = self._buffer.take(will_wait=True) or self._wait(1, deadline).only()
        return f"{segment.prefix}{one}"

    def next_text_many(self, n: int, deadline: float | None = None) -> list[str]:
        """Returns n ascending IDs as decimal texts with the code's prefix."""
        return self._draw(n, deadline).texts()

    def next_uuid(self, deadline: float | None = None) -> UUID:
        """Returns the next ID as a UUID of version 7, with random bits: they sort as their IDs do.

        Raises an error of kind `usage` where IDs have no ticks of a millisecond since 1970 or
        later: in segment mode, and where the time wraps, too; of kind `transport` if the operating
        system has no random bits.
        """
        one, segment = self._buffer.take(will_wait=True) or self._wait(1, deadline).only()
        return self._uuids([one], segment.time)[0]

    def next_uuid_many(self, n: int, deadline: float | None = None) -> list[UUID]:
        """Returns n ascending IDs as UUIDs."""
        drawn = self._draw(n, deadline)
        return self._uuids(drawn.ids, drawn.time)

    def warm_up(self, deadline: float | None = None) -> None:
        """Waits until the buffer has an ID, and takes none."""
        self._wait(1, deadline, takes=False)

    def _draw(self, n: int, deadline: float | None) -> Drawn:
        return self._buffer.draw(self._count(n)) or self._wait(n, deadline)

    def _wait(self, n: int, deadline: float | None, *, takes: bool = True) -> Drawn:
        # A signal handler can wake the call that it interrupts, which an Event does not allow.
        woken: SimpleQueue[None] = SimpleQueue()
        waiter = self._waiter(n, deadline, partial(woken.put, None), takes=takes)
        with _waiting(self._buffer, waiter):
            while (drawn := self._buffer.poll(waiter)) is None:
                with contextlib.suppress(Empty):
                    woken.get(timeout=self._buffer.patience(waiter))
            return drawn


class AsyncCode(_BaseCode):
    """The handle of one code of an AsyncClient. Any number of tasks may use it."""

    async def next(self, deadline: float | None = None) -> int:
        """Returns the next ID. If the buffer is empty, waits for at most `deadline` seconds."""
        one, _ = self._buffer.take(will_wait=True) or (await self._wait(1, deadline)).only()
        return one

    async def next_many(self, n: int, deadline: float | None = None) -> list[int]:
        """Returns n IDs, ascending: 1 to `max_range`."""
        return (await self._draw(n, deadline)).ids

    async def next_text(self, deadline: float | None = None) -> str:
        """Returns the next ID as decimal text with the code's prefix."""
        one, segment = self._buffer.take(will_wait=True) or (await self._wait(1, deadline)).only()
        return f"{segment.prefix}{one}"

    async def next_text_many(self, n: int, deadline: float | None = None) -> list[str]:
        """Returns n ascending IDs as decimal texts with the code's prefix."""
        return (await self._draw(n, deadline)).texts()

    async def next_uuid(self, deadline: float | None = None) -> UUID:
        """Returns the next ID as a UUID of version 7, with random bits: they sort as their IDs do.

        Raises an error of kind `usage` where IDs have no ticks of a millisecond since 1970 or
        later: in segment mode, and where the time wraps, too; of kind `transport` if the operating
        system has no random bits.
        """
        one, segment = self._buffer.take(will_wait=True) or (await self._wait(1, deadline)).only()
        return self._uuids([one], segment.time)[0]

    async def next_uuid_many(self, n: int, deadline: float | None = None) -> list[UUID]:
        """Returns n ascending IDs as UUIDs."""
        drawn = await self._draw(n, deadline)
        return self._uuids(drawn.ids, drawn.time)

    async def warm_up(self, deadline: float | None = None) -> None:
        """Waits until the buffer has an ID, and takes none."""
        await self._wait(1, deadline, takes=False)

    async def _draw(self, n: int, deadline: float | None) -> Drawn:
        return self._buffer.draw(self._count(n)) or await self._wait(n, deadline)

    async def _wait(self, n: int, deadline: float | None, *, takes: bool = True) -> Drawn:
        woken = asyncio.Event()
        loop = self._context.loop = asyncio.get_running_loop()

        def wake() -> None:
            # Fails if the loop is closed, and nobody waits there any more.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(woken.set)

        waiter = self._waiter(n, deadline, wake, takes=takes)
        with _waiting(self._buffer, waiter):
            while (drawn := self._buffer.poll(waiter)) is None:
                timer = loop.call_later(self._buffer.patience(waiter), woken.set)
                try:
                    await woken.wait()
                finally:
                    timer.cancel()
                woken.clear()
            return drawn


@contextlib.contextmanager
def _waiting(buffer: Buffer, waiter: Waiter) -> Generator[None, None, None]:
    """Ends the wait of a caller, however it ends."""
    error: RaindropError | None = None
    try:
        yield
    except RaindropError as thrown:
        error = thrown
        raise
    except BaseException as thrown:
        error = RaindropError("cancelled", f"the caller gave up: {type(thrown).__name__}")
        raise
    finally:
        buffer.leave(waiter, error)


class _Client(Unique, Generic[AnyCode]):
    """What both clients do: they differ in how their callers wait."""

    _kind: type[AnyCode]

    def __init__(
        self,
        urls: str | Iterable[str],
        *,
        token: Token | None = None,
        namespace: str | None = None,
        target: float = 2.0,
        min_range: int = 1,
        max_range: int = 100_000,
        max_age: float = 10.0,
        deadline: float = 2.0,
        request_timeout: float | None = None,
        ssl_context: ssl.SSLContext | None = None,
        proxy: str | None = None,
        on_event: Callable[[Event], None] | None = None,
        clock: Clock = steady_clock,
    ) -> None:
        """Sends no request yet. The README describes the options; times are in seconds."""
        urls = base_urls(urls)
        deadline = seconds("deadline", deadline)
        max_range = count("max_range", max_range, LARGEST_ID)
        if request_timeout is None:
            request_timeout = min(max(deadline / 2, 1.0), 5.0) if len(urls) > 1 else 5.0
        is_token = token is None or isinstance(token, str) or callable(token)
        require(is_token, "token", "a text or a function")
        is_context = ssl_context is None or isinstance(ssl_context, ssl.SSLContext)
        require(is_context, "ssl_context", "an ssl.SSLContext")
        require(on_event is None or callable(on_event), "on_event", "a function")
        require(callable(clock), "clock", "a function")
        if proxy:
            try:
                proxy_parts(proxy)
            except ValueError as error:
                raise usage(str(error)) from None
        self._token = token
        self._timeout = seconds("request_timeout", request_timeout)
        self._context = Context(
            urls=urls,
            namespace=None if namespace is None else text("namespace", namespace),
            target=min(seconds("target", target), seconds("max_age", max_age) / 2),
            min_range=count("min_range", min_range, max_range),
            max_range=max_range,
            max_age=max_age,
            deadline=deadline,
            on_event=on_event,
            clock=clock,
            start=self._start,
            pause=lambda seconds: self._closed.wait(seconds),
            attempt=self._attempt,
            forget=self._forget,
        )
        self._transport = Transport(self._timeout, ssl_context, proxy, clock)
        self._buffers: dict[str, Buffer] = {}
        self._codes: dict[str, AnyCode] = {}
        self._calls: set[Call] = set()
        self._closed = threading.Event()
        _contexts.add(self._context)

    def code(self, name: str) -> AnyCode:
        """Returns the handle of a code, whose buffer stays until the client is closed."""
        code = self._codes.get(name) if isinstance(name, str) else None
        if code is None:
            name = text("code", name)
            # Two threads may make two handles of the one buffer.
            fresh = Buffer(name, self._context)
            buffer = self._buffers.setdefault(name, fresh)
            code = self._codes[name] = self._kind(name, buffer, self._context)
            if self._closed.is_set():
                buffer.close()
        return code

    def close(self) -> None:
        """Ends requests and calls that wait, and drops all IDs."""
        self._closed.set()
        for buffer in tuple(self._buffers.values()):
            buffer.close()
        for call in tuple(self._calls):
            call.end()
        self._transport.close()

    def _forget(self) -> None:
        """Forgets what belongs to the parent: in the child of a fork, before anything else."""
        is_closed = self._closed.is_set()
        self._closed = threading.Event()
        if is_closed:
            self._closed.set()
        self._calls = set()
        self._context.loop = None
        self._transport.close()
        for buffer in tuple(self._buffers.values()):
            buffer.reset()
        # Last, because another thread that finds it uses what is above.
        self._context.pid = os.getpid()

    def _start(self, buffer: Buffer) -> None:
        """Runs a refill in a thread."""
        try:
            threading.Thread(target=buffer.refill, name="raindrop", daemon=True).start()
        except RuntimeError as error:  # no more threads, or the interpreter ends or allows none
            buffer.fail_start(wrap("no refill", error))

    def _attempt(self, url: str, target: str) -> Reply | RaindropError:
        """Sends a request from a thread of its own, because a token function may hang for ever."""
        call = Call()
        outcome: SimpleQueue[Reply | RaindropError] = SimpleQueue()

        def run() -> None:
            try:
                headers = {"Accept": "application/json", "User-Agent": USER_AGENT}
                headers.update(self._authorization())
                outcome.put(self._transport.post(url, target, headers, call))
            except BaseException as thrown:
                outcome.put(wrap("the request failed", thrown))
            if self._closed.is_set():
                self._transport.close()

        self._calls.add(call)
        try:
            if self._closed.is_set():
                return closed()
            threading.Thread(target=run, name="raindrop-request", daemon=True).start()
            return outcome.get(timeout=self._timeout)
        except Empty:
            call.end()
            return RaindropError("transport", f"no whole answer within {self._timeout:g} s")
        except Exception as error:
            return wrap("no request", error)
        finally:
            self._calls.discard(call)

    def _authorization(self) -> dict[str, str]:
        value = self._token() if callable(self._token) else self._token
        if value is None or value == "":
            return {}
        if not isinstance(value, str):
            value = self._context.run(value, self._timeout)
        if not _TOKEN.fullmatch(value):
            raise RaindropError("transport", "the token is not of printable ASCII")
        return {"Authorization": f"Bearer {value}"}


class Client(_Client[Code]):
    """Hands out unique 64-bit IDs from ranges that it leases from Raindrop ahead of demand.

    One client serves a whole process, and its children after a fork: each leases ranges of its own.
    """

    _kind = Code

    def __enter__(self) -> "Client":
        """Returns the client, which the end of the block closes."""
        return self

    def __exit__(self, *_: object) -> None:
        """Closes the client."""
        self.close()


class AsyncClient(_Client[AsyncCode]):
    """The same for asyncio: calls wait in their task, and requests are sent by threads."""

    _kind = AsyncCode

    async def __aenter__(self) -> "AsyncClient":
        """Returns the client, which the end of the block closes."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Closes the client."""
        self.close()


def _after_fork() -> None:
    for context in tuple(_contexts):
        context.forget()


_contexts: weakref.WeakSet[Context] = weakref.WeakSet()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

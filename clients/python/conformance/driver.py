"""Drives the client for the conformance suite: one JSON request a line, one JSON answer a line.

The protocol is in ../../conformance/README.md. With `--asyncio`, it drives AsyncClient.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import re
import sys
import threading
import time
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../src"))
from raindrop_client import (
    AsyncClient,
    AsyncCode,
    Client,
    Code,
    Event,
    RaindropError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from uuid import UUID

Message: TypeAlias = dict[str, Any]
T = TypeVar("T")


class Counts:
    """What the metrics hook has counted."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.requests = self.failed_requests = self.ids_fetched = self.ids_dropped = 0

    def on_event(self, event: Event) -> None:
        with self.lock:
            if event.type == "request":
                self.requests += 1
                self.ids_fetched += event.ids
                self.failed_requests += event.error is not None
            elif event.type == "dropped":
                self.ids_dropped += event.ids


class Burst:
    """Collects what the threads or tasks of one burst draw."""

    def __init__(self, request: Message, code: Code | AsyncCode) -> None:
        self.code = code
        self.count: int = request["count"]
        self.per_second: float = request.get("per_second", 0)
        self.deadline = seconds(request, "deadline_ms")
        self.began = time.monotonic()
        self.lock = threading.Lock()
        self.file: str = request["file"]
        self.drawn = self.failed = 0
        self.longest_wait = 0.0
        self.oldest_ms: float | None = None

    def pause(self, index: int) -> float:
        if not self.per_second:
            return 0.0
        return max(0.0, self.began + index / self.per_second - time.monotonic())

    def keep(self, ids: list[int], failed: int, longest: float, oldest_ms: float | None) -> None:
        with self.lock:
            with open(self.file, "a", encoding="ascii") as file:
                file.write("".join(f"{one}\n" for one in ids))
            self.drawn += len(ids)
            self.failed += failed
            self.longest_wait = max(self.longest_wait, longest)
            if oldest_ms is not None:
                self.oldest_ms = max(self.oldest_ms or 0.0, oldest_ms)

    def age_ms(self, one: int) -> float | None:
        claimed = self.code.time_of(one)
        return None if claimed is None else (time.time() - claimed.timestamp()) * 1000

    def answer(self) -> Message:
        return {
            "drawn": self.drawn,
            "failed": self.failed,
            "longest_wait_ms": self.longest_wait * 1000,
            "oldest_ms": self.oldest_ms,
        }


class Tally:
    """What one thread or task of a burst has drawn."""

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.failed = 0
        self.longest = 0.0
        self.oldest_ms: float | None = None

    def note(self, burst: Burst, one: int | None, waited: float) -> None:
        self.longest = max(self.longest, waited)
        if one is None:
            self.failed += 1
            return
        self.ids.append(one)
        age_ms = burst.age_ms(one)
        if age_ms is not None:
            self.oldest_ms = max(self.oldest_ms or 0.0, age_ms)

    def keep(self, burst: Burst) -> None:
        burst.keep(self.ids, self.failed, self.longest, self.oldest_ms)


class Driver:
    """What both drivers do in the same way."""

    client: Client | AsyncClient

    def __init__(self) -> None:
        self.counts = Counts()
        self.numbers = itertools.count(1)
        self.started: dict[int, Future[Message]] = {}

    def options(self, request: Message) -> Message:
        self.counts = Counts()
        options = request.get("options", {})
        faults = list(request.get("token_faults", []))
        token = request.get("token")

        def faulty() -> str:
            fault = faults.pop(0) if faults else None
            if fault == "hang":
                threading.Event().wait()
            if fault == "throw":
                raise LookupError("no token today")
            return str(token)

        given = {
            "target": seconds(options, "target_ms"),
            "max_age": seconds(options, "max_age_ms"),
            "deadline": seconds(options, "deadline_ms"),
            "request_timeout": seconds(options, "request_timeout_ms"),
            "min_range": options.get("min_range"),
            "max_range": options.get("max_range"),
            "token": faulty if faults else token,
        }
        known = {name: value for name, value in given.items() if value is not None}
        return {**known, "on_event": self.counts.on_event}

    def do_try(self, request: Message) -> Message:
        one = self.client.code(request["code"]).try_next()
        return {"error": {"kind": "empty"}} if one is None else {"ids": [str(one)]}

    def do_time_of(self, request: Message) -> Message:
        claimed = self.client.code(request["code"]).time_of(int(request["id"]))
        return {"unix_ms": None if claimed is None else round(claimed.timestamp() * 1000)}

    def do_stats(self, _request: Message) -> Message:
        with open("/proc/self/status", encoding="ascii") as file:
            resident = re.search(r"VmRSS:\s+(\d+) kB", file.read())
        assert resident
        counts = {name: value for name, value in vars(self.counts).items() if name != "lock"}
        return {**counts, "memory_bytes": int(resident[1]) * 1024}

    def do_close(self, _request: Message) -> Message:
        self.client.close()
        return {"ok": True}


class ThreadDriver(Driver):
    """Drives Client: what is done in the background has a thread."""

    client: Client

    def do_open(self, request: Message) -> Message:
        self.client = Client(request["urls"], **self.options(request))
        return {"ok": True}

    def do_next(self, request: Message) -> Message:
        code, n = self.client.code(request["code"]), request.get("n", 1)
        deadline = seconds(request, "deadline_ms")
        return timed(lambda: [code.next(deadline)] if n == 1 else code.next_many(n, deadline))

    def do_text(self, request: Message) -> Message:
        code, n = self.client.code(request["code"]), request.get("n")
        deadline = seconds(request, "deadline_ms")
        if n is None:
            return timed(lambda: [code.next_text(deadline)])
        return timed(lambda: code.next_text_many(n, deadline))

    def do_uuid(self, request: Message) -> Message:
        code, n = self.client.code(request["code"]), request.get("n")
        deadline = seconds(request, "deadline_ms")
        if n is None:
            return timed(lambda: [code.next_uuid(deadline)])
        return timed(lambda: code.next_uuid_many(n, deadline))

    def do_warm_up(self, request: Message) -> Message:
        self.client.code(request["code"]).warm_up()
        return {"ok": True}

    def do_burst(self, request: Message) -> Message:
        code = self.client.code(request["code"])
        burst = Burst(request, code)

        def draw() -> None:
            tally = Tally()
            for index in range(burst.count):
                if pause := burst.pause(index):
                    time.sleep(pause)
                began = time.monotonic()
                one = None
                with contextlib.suppress(RaindropError):
                    one = code.next(burst.deadline)
                tally.note(burst, one, time.monotonic() - began)
            tally.keep(burst)

        threads = [threading.Thread(target=draw) for _ in range(request["threads"])]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return burst.answer()

    def do_await(self, request: Message) -> Message:
        return self.started.pop(request["started"]).result()

    def act(self, request: Message) -> Message:
        try:
            answer: Message = getattr(self, "do_" + request["do"])(request)
        except RaindropError as error:
            return describe(error)
        return answer

    def run(self) -> None:
        for line in sys.stdin:
            request = json.loads(line)
            if not request.get("background"):
                say(self.act(request))
                continue
            number = next(self.numbers)
            self.started[number] = in_thread(partial(self.act, request))
            say({"started": number})


class TaskDriver(Driver):
    """Drives AsyncClient: what is done in the background is a task of the loop."""

    client: AsyncClient

    async def do_open(self, request: Message) -> Message:
        options = self.options(request)
        token = options.get("token")
        if callable(token):

            async def awaited() -> str:
                return await asyncio.wrap_future(in_thread(token))

            options["token"] = awaited
        self.client = AsyncClient(request["urls"], **options)
        return {"ok": True}

    async def do_next(self, request: Message) -> Message:
        code, n = self.client.code(request["code"]), request.get("n", 1)
        deadline = seconds(request, "deadline_ms")

        async def draw() -> list[int]:
            return [await code.next(deadline)] if n == 1 else await code.next_many(n, deadline)

        return await timed_task(draw())

    async def do_text(self, request: Message) -> Message:
        code, n = self.client.code(request["code"]), request.get("n")
        deadline = seconds(request, "deadline_ms")

        async def draw() -> list[str]:
            if n is None:
                return [await code.next_text(deadline)]
            return await code.next_text_many(n, deadline)

        return await timed_task(draw())

    async def do_uuid(self, request: Message) -> Message:
        code, n = self.client.code(request["code"]), request.get("n")
        deadline = seconds(request, "deadline_ms")

        async def draw() -> list[UUID]:
            if n is None:
                return [await code.next_uuid(deadline)]
            return await code.next_uuid_many(n, deadline)

        return await timed_task(draw())

    async def do_warm_up(self, request: Message) -> Message:
        await self.client.code(request["code"]).warm_up()
        return {"ok": True}

    async def do_burst(self, request: Message) -> Message:
        code = self.client.code(request["code"])
        burst = Burst(request, code)

        async def draw() -> None:
            tally = Tally()
            for index in range(burst.count):
                pause = burst.pause(index)
                if pause or index % 1000 == 0:
                    await asyncio.sleep(pause)
                began = time.monotonic()
                one = None
                with contextlib.suppress(RaindropError):
                    one = await code.next(burst.deadline)
                tally.note(burst, one, time.monotonic() - began)
            tally.keep(burst)

        await asyncio.gather(*(draw() for _ in range(request["threads"])))
        return burst.answer()

    async def do_await(self, request: Message) -> Message:
        return await asyncio.wrap_future(self.started.pop(request["started"]))

    async def act(self, request: Message) -> Message:
        try:
            answer = getattr(self, "do_" + request["do"])(request)
            return answer if isinstance(answer, dict) else await answer
        except RaindropError as error:
            return describe(error)

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        lines: asyncio.Queue[str] = asyncio.Queue()

        def read() -> None:
            for line in (
                [*sys.stdin, ""] if sys.stdin.isatty() else itertools.chain(sys.stdin, [""])
            ):
                loop.call_soon_threadsafe(lines.put_nowait, line)

        threading.Thread(target=read, daemon=True).start()
        while line := await lines.get():
            request = json.loads(line)
            if request.get("background"):
                number = next(self.numbers)
                self.started[number] = asyncio.run_coroutine_threadsafe(self.act(request), loop)
                say({"started": number})
            else:
                say(await self.act(request))


def in_thread(call: Callable[[], T]) -> Future[T]:
    """Calls a function in a thread of its own, which does not keep the process."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except Exception as thrown:
            future.set_exception(thrown)

    threading.Thread(target=run, daemon=True).start()
    return future


def seconds(fields: Message, name: str) -> float | None:
    return None if fields.get(name) is None else fields[name] / 1000


def describe(error: RaindropError) -> Message:
    retry_after = None if error.retry_after is None else error.retry_after * 1000
    fields = {"kind": error.kind, "code": error.code, "status": error.status}
    return {"error": {**fields, "retry_after_ms": retry_after, "message": str(error)[:300]}}


def timed(draw: Callable[[], list[int] | list[str] | list[UUID]]) -> Message:
    began = time.monotonic()
    try:
        answer: Message = {"ids": [str(one) for one in draw()]}
    except RaindropError as error:
        answer = describe(error)
    return {**answer, "waited_ms": (time.monotonic() - began) * 1000}


async def timed_task(
    draw: Coroutine[Any, Any, list[int] | list[str] | list[UUID]],
) -> Message:
    began = time.monotonic()
    try:
        answer: Message = {"ids": [str(one) for one in await draw]}
    except RaindropError as error:
        answer = describe(error)
    return {**answer, "waited_ms": (time.monotonic() - began) * 1000}


def say(answer: Message) -> None:
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    if sys.argv[1:] == ["--asyncio"]:
        asyncio.run(TaskDriver().run())
    else:
        ThreadDriver().run()

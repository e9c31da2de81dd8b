"""Answers as the service gives them, a clock that a test sets, and refills that it runs."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from _typeshed import TraceFunction

from raindrop_client._answer import Reply
from raindrop_client._buffer import Buffer, Context, Waiter
from raindrop_client._errors import RaindropError
from raindrop_client._options import Event

LAYOUT = "unit=millisecond"


def one_range(first: int, count: int, **more: Any) -> dict[str, Any]:
    fields = {"first": str(first), "last": str(first + count - 1), "step": "1", "count": count}
    return {**fields, **more}


def answer(*ranges: dict[str, Any], **more: Any) -> Reply:
    body = {"issued_at": "2026-11-28T09:30:00.123Z", "layout": LAYOUT, "ranges": ranges, **more}
    return Reply(200, "application/json", "", json.dumps(body).encode())


def problem(status: int, code: str, retry_after: str = "") -> Reply:
    body = json.dumps({"code": code, "detail": "made up", "status": status}).encode()
    return Reply(status, "application/problem+json", retry_after, body)


def at_line(
    number: int, handler: Callable[[], object], call: Callable[[], object], *modules: str
) -> bool:
    """Makes a call that a signal interrupts at one line of the client, or of one of the modules.

    Returns whether the call came so far. An exception of the handler goes through the call.
    """
    lines = 0

    def trace(frame: FrameType, event: str, _argument: object) -> TraceFunction | None:
        nonlocal lines
        if not str(frame.f_globals.get("__name__")).startswith(("raindrop_client.", *modules)):
            return None
        lines += event == "line"
        if event == "line" and lines == number:
            sys.settrace(None)
            handler()
        return trace

    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(None)
    return lines >= number


class Bench:
    """A buffer whose refills run when a test says so, against a service that it commands."""

    def __init__(self, urls: tuple[str, ...] = ("http://a",), **options: Any) -> None:
        self.now = 1000.0
        self.events: list[Event] = []
        self.started = 0
        # What each base URL answers; by default, the next IDs.
        self.replies: dict[str, Reply | RaindropError] = {}
        self.answer: Callable[[int], Reply] = self.issue
        self.asked: list[tuple[str, int]] = []
        self.pauses: list[float] = []
        self.next_id = 1
        values: dict[str, Any] = {
            "namespace": None,
            "target": 2.0,
            "min_range": 1,
            "max_range": 100_000,
            "max_age": 10.0,
            "deadline": 2.0,
            "on_event": self.events.append,
            **options,
        }
        self.context = Context(
            urls=urls,
            clock=lambda: self.now,
            start=lambda buffer: self.note_start(buffer),
            pause=self.pause,
            attempt=lambda url, target: self.attempt(url, target),
            forget=self.forget,
            **values,
        )
        self.buffer = Buffer("order", self.context)

    def forget(self) -> None:
        self.buffer.reset()
        self.context.pid = os.getpid()

    def note_start(self, _buffer: Buffer) -> None:
        self.started += 1

    def run(self) -> None:
        """Runs the refills that were started, until none is left."""
        while self.started:
            self.run_one()

    def run_one(self) -> None:
        self.started -= 1
        self.buffer.refill()

    def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds

    def attempt(self, url: str, target: str) -> Reply | RaindropError:
        size = int(target.rpartition("=")[2])
        self.asked.append((url, size))
        return self.replies.get(url) or self.answer(size)

    def issue(self, count: int) -> Reply:
        self.next_id += count
        return answer(one_range(self.next_id - count, count))

    def waiter(self, n: int = 1, deadline: float = 2.0) -> Waiter:
        return Waiter(n, True, lambda: None, self.now, self.now + deadline)

    def draw(self, n: int) -> list[int]:
        """Returns n IDs as a caller gets them that has all the time it needs."""
        waiter = self.waiter(n, 1e6)
        try:
            while (ids := self.poll(waiter)) is None:
                self.run()
            return ids
        finally:
            self.buffer.leave(waiter, None)

    def take(self) -> int | None:
        """Returns the next ID without its segment."""
        taken = self.buffer.take()
        return None if taken is None else taken[0]

    def draw_now(self, n: int) -> list[int]:
        """Returns n IDs, or none if there are fewer."""
        drawn = self.buffer.draw(n)
        return [] if drawn is None else drawn.ids

    def poll(self, waiter: Waiter) -> list[int] | None:
        drawn = self.buffer.poll(waiter)
        return None if drawn is None else drawn.ids

    def kinds_of_requests(self) -> list[str | None]:
        return [event.error.kind if event.error else None for event in self.of_type("request")]

    def of_type(self, name: str) -> list[Event]:
        return [event for event in self.events if event.type == name]

"""Prints what one ID costs from a warm buffer, and how many requests one process sends."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import statistics
import time
import uuid
from collections.abc import Callable

from integrations import peers
from raindrop_client import AsyncClient, Client, Event
from raindrop_client._answer import Reply

ROUNDS = int(os.environ.get("ROUNDS", "11"))
SECONDS = float(os.environ.get("SECONDS", "5"))
CALLS = 200_000
WARM_UP = 3.0
# So many that few refills fall into a measurement.
ENOUGH = {"min_range": 1_000_000, "max_range": 1_000_000, "target": 0.1, "deadline": 60.0}

blocks = itertools.count(252201579132751872, 1_000_000_000_000)


def answer(_url: str, target: str, _headers: object, _call: object) -> Reply:
    """Answers as the service does: rows of 4096 IDs, one for each millisecond."""
    rows = int(target.rpartition("=")[2]) // 4096
    first, stride = next(blocks), 4_194_304
    fields = {
        "first": str(first),
        "step": "1",
        "count": 4096,
        "repeat": rows,
        "stride": str(stride),
    }
    fields["last"] = str(first + (rows - 1) * stride + 4095)
    body = {
        "issued_at": "2026-11-28T09:30:00.123Z",
        "layout": "benchmark",
        "time": {"epoch_ms": 1735689600000, "unit_ms": 1, "shift": 22, "bits": 41},
        "prefix": "ORD-",
        "ranges": [fields],
    }
    return Reply(200, "application/json", "", json.dumps(body).encode())


def fill(client: Client | AsyncClient) -> None:
    """Lets a refill end that is under way."""
    client.code("order").try_next()
    time.sleep(0.02)


def costs() -> None:
    url = "http://raindrop.example.org"
    counter = itertools.count(252201579132751872)
    with Client(url, **ENOUGH) as client:
        client._transport.post = answer
        order = client.code("order")
        subjects: dict[str, Callable[[], object]] = {
            "next(itertools.count())": lambda: next(counter),
            "handle.next()": order.next,
            "handle.try_next()": order.try_next,
            "client.code(name).next()": lambda: client.code("order").next(),
            "handle.next_text()": order.next_text,
            "handle.next_uuid()": order.next_uuid,
            "uuid.uuid4()": uuid.uuid4,
        }
        times: dict[str, list[float]] = {}
        for _ in range(ROUNDS):
            for name, call in subjects.items():
                fill(client)
                began = time.process_time_ns()
                for _ in range(CALLS):
                    call()
                times.setdefault(name, []).append((time.process_time_ns() - began) / CALLS)
            fill(client)
            began = time.process_time_ns()
            for _ in range(CALLS // 100):
                order.next_many(100)
            times.setdefault("handle.next_many(100), each", []).append(
                (time.process_time_ns() - began) / CALLS
            )

    async def awaited() -> None:
        async with AsyncClient(url, **ENOUGH) as client:
            client._transport.post = answer
            order = client.code("order")
            for _ in range(ROUNDS):
                fill(client)
                began = time.process_time_ns()
                for _ in range(CALLS):
                    await order.next()
                times.setdefault("await handle.next()", []).append(
                    (time.process_time_ns() - began) / CALLS
                )

    asyncio.run(awaited())
    base = statistics.median(times["next(itertools.count())"])
    print(
        "| one ID | ns, median | fastest to slowest round | ÷ itertools.count |\n|---|--:|--:|--:|"
    )
    for name, found in times.items():
        middle = statistics.median(found)
        print(
            f"| `{name}` | {middle:.0f} | {min(found):.0f} to {max(found):.0f} | {middle / base:.1f} |"
        )
    print("\nCPU time of the process, with the loop that calls.\n")


def requests(url: str) -> None:
    print(
        "| wanted IDs/s | drawn IDs/s | requests/s | IDs a request | requests for each ID | waits/s | failed |"
    )
    print("|--:|--:|--:|--:|--:|--:|--:|")
    for rate in (10_000, 1_000_000):
        events: list[Event] = []
        with Client(url, deadline=20.0, on_event=events.append) as client:
            order = client.code("order")
            began = time.monotonic()
            measured_from, drawn = 0.0, 0
            while (elapsed := time.monotonic() - began) < WARM_UP + SECONDS:
                if not measured_from and elapsed >= WARM_UP:
                    measured_from, first = elapsed, drawn
                    events.clear()
                # What cannot be drawn in time is not made up for.
                for _ in range(min(int(rate * elapsed) - drawn, 10_000)):
                    order.next()
                    drawn += 1
                time.sleep(0.001)
            seconds, used = elapsed - measured_from, drawn - first
            asked = [event for event in events if event.type == "request"]
            waits = sum(event.type == "wait" for event in events)
            failed = sum(event.error is not None for event in asked)
            ids = sum(event.ids for event in asked)
        print(
            f"| {rate} | {used / seconds:.0f} | {len(asked) / seconds:.2f} | {ids / max(len(asked), 1):.0f} "
            f"| {len(asked) / used:.6f} | {waits / seconds:.2f} | {failed} |"
        )


if __name__ == "__main__":
    costs()
    with peers.folder() as of, peers.Node(of) as node:
        requests(node.url)

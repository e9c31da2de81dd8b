"""UUIDs of leased IDs: their bits, and which IDs have none."""

import asyncio
import json
import unittest
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock
from uuid import RFC_4122, UUID

from raindrop_client import AsyncClient, AsyncCode, Client, Code, RaindropError
from raindrop_client._answer import Reply, TimeField
from raindrop_client._buffer import Buffer

from .server import Server
from .support import Bench, answer, one_range

VECTORS = Path(__file__).parents[2] / "conformance" / "uuids.json"
TIME = {"epoch_ms": 1735689600000, "unit_ms": 1, "shift": 22, "bits": 41}
JS_SAFE = {"epoch_ms": 1582136402000, "unit_ms": 1, "shift": 12, "bits": 51}
# An ID of each, of uuids.json.
ONE = 252201579132751872
JS_SAFE_ONE = 871234567890123


class Uuids(unittest.TestCase):
    def test_bits_of_the_contract(self) -> None:
        vectors = json.loads(VECTORS.read_text(encoding="utf-8"))
        self.assertEqual(len(vectors), 8)
        for vector in vectors:
            random = int(vector["random"], 16)
            with self.subTest(vector["why"]):
                found = TimeField(**vector["time"]).uuid_of(int(vector["id"]), random)
                self.assertEqual(str(found), vector["uuid"])

    def check(self, uuids: list[UUID], next_id: int) -> None:
        self.assertEqual(uuids, sorted(set(uuids)))
        self.assertEqual({(one.version, one.variant) for one in uuids}, {(7, RFC_4122)})
        differ = 0
        for one in uuids:
            differ |= one.int ^ uuids[0].int
        # 22 bits are fields.
        self.assertEqual(differ % 2**52, 2**52 - 1)
        self.assertEqual(next_id, 1_000_000 + len(uuids))

    def test_threads(self) -> None:
        with Server() as server:
            server.fields = {"time": TIME, "prefix": "ORD-"}
            with Client(server.url, min_range=400, deadline=30.0) as ids:
                order = ids.code("order")
                self.check([order.next_uuid(), *order.next_uuid_many(300)], order.next())

    def test_tasks(self) -> None:
        async def draw(server: Server) -> None:
            async with AsyncClient(server.url, min_range=400, deadline=30.0) as ids:
                order = ids.code("order")
                uuids = [await order.next_uuid(), *await order.next_uuid_many(300)]
                self.check(uuids, await order.next())

        with Server() as server:
            server.fields = {"time": TIME}
            asyncio.run(draw(server))

    def test_ids_without_uuids_are_refused_and_dropped(self) -> None:
        refused: tuple[tuple[dict[str, Any], str], ...] = (
            ({"layout": None, "increment": "1"}, "have no time"),
            ({}, "or one that wraps"),
            ({"time": {**TIME, "unit_ms": 10}}, "ticks of 10 ms"),
            ({"time": {**TIME, "epoch_ms": -1}}, "begin at -1 Unix ms"),
        )
        for fields, reason in refused:
            # A draw is demand whatever comes of it, so a refill may follow it: here, none runs.
            bench = Moving((1, fields), (2, fields))
            bench.context.min_range = 1
            code = Code("order", bench.buffer, bench.context)
            draws: tuple[Callable[[], object], ...] = (
                code.next_uuid,
                partial(code.next_uuid_many, 2),
            )
            for draw in draws:
                with self.subTest(reason), self.assertRaisesRegex(RaindropError, reason) as raised:
                    draw()
                self.assertEqual(raised.exception.kind, "usage")
            self.assertEqual(bench.dropped(), [1, 2])

    def test_wrong_count(self) -> None:
        with Client("http://127.0.0.1:1") as ids, self.assertRaisesRegex(RaindropError, "n: 0"):
            ids.code("order").next_uuid_many(0)


class Moving(Bench):
    """A buffer that is refilled at once, with one answer after another: first ID, other fields.

    A refill for which there is no answer yet does not run.
    """

    def __init__(self, *answers: tuple[int, dict[str, Any]]) -> None:
        super().__init__(min_range=4)
        self.answers = list(answers)
        self.answer = self.next_answer

    def next_answer(self, count: int) -> Reply:
        first, fields = self.answers.pop(0)
        return answer(one_range(first, count), **fields)

    def note_start(self, _buffer: Buffer) -> None:
        self.started += 1
        if self.answers:
            self.run_one()

    def dropped(self) -> list[int]:
        return [event.ids for event in self.of_type("dropped")]


class TimesOfAnswers(unittest.TestCase):
    def check(self, uuids: list[UUID], first: int, fields: dict[str, int] = TIME) -> None:
        """Compares all bits but the random ones."""
        time = TimeField(**fields)
        random_bits = 74 - time.shift
        expected = [time.uuid_of(first + i, 0).int >> random_bits for i in range(len(uuids))]
        self.assertEqual([one.int >> random_bits for one in uuids], expected)

    def test_all_uuids_of_a_call_came_with_one_time(self) -> None:
        bench = Moving((JS_SAFE_ONE, {"time": JS_SAFE}), (ONE, {"time": TIME}))
        code = Code("order", bench.buffer, bench.context)
        code.warm_up()
        self.check(code.next_uuid_many(6), ONE)
        self.assertEqual(bench.dropped(), [4])

    def test_all_uuids_of_a_task_came_with_one_time(self) -> None:
        bench = Moving((JS_SAFE_ONE, {"time": JS_SAFE}), (ONE, {"time": TIME}))
        code = AsyncCode("order", bench.buffer, bench.context)

        async def draw() -> list[UUID]:
            await code.warm_up()
            return await code.next_uuid_many(6)

        self.check(asyncio.run(draw()), ONE)
        self.assertEqual(bench.dropped(), [4])

    def test_equal_times_are_one(self) -> None:
        bench = Moving((ONE, {"time": TIME}), (ONE + 4, {"time": dict(TIME)}))
        code = Code("order", bench.buffer, bench.context)
        code.warm_up()
        self.check(code.next_uuid_many(6), ONE)
        self.assertEqual(bench.dropped(), [])

    def test_no_uuid_has_the_time_of_an_earlier_answer(self) -> None:
        bench = Moving((ONE, {"time": TIME}), (1, {}))
        code = Code("order", bench.buffer, bench.context)
        self.check([code.next_uuid()], ONE)
        with self.assertRaisesRegex(RaindropError, "have no time") as raised:
            code.next_uuid_many(8)
        self.assertEqual(raised.exception.kind, "usage")
        self.assertIsNone(code.time_of(1))
        self.assertEqual(bench.dropped(), [3, 8])
        bench.answers.append((ONE + 4, {"time": TIME}))
        if bench.started:
            bench.run_one()
        self.check(code.next_uuid_many(8), ONE + 4)

    def test_an_answer_that_comes_while_ids_are_drawn(self) -> None:
        calls: tuple[tuple[int, str, Callable[[Code], list[UUID]]], ...] = (
            (1, "take", lambda code: [code.next_uuid()]),
            (1, "draw", lambda code: code.next_uuid_many(1)),
            (2, "draw", lambda code: code.next_uuid_many(2)),
        )
        for n, name, call in calls:
            bench = Moving((JS_SAFE_ONE, {"time": JS_SAFE}), (ONE, {"time": TIME}))
            code = Code("order", bench.buffer, bench.context)
            code.warm_up()
            method: Callable[..., object] = getattr(bench.buffer, name)

            def drawn_before(
                *of: Any, bench: Bench = bench, method: Callable[..., object] = method, **more: Any
            ) -> object:
                drawn = method(*of, **more)
                # Another thread needs more than there is.
                self.assertEqual(bench.draw(5), list(range(ONE, ONE + 5)))
                return drawn

            with self.subTest(n=n, name=name):
                with mock.patch.object(bench.buffer, name, drawn_before):
                    self.check(call(code), JS_SAFE_ONE, JS_SAFE)
                self.assertEqual(bench.dropped(), [4 - n])

    def test_no_random_bits(self) -> None:
        bench = Moving((ONE, {"time": TIME}))
        code = Code("order", bench.buffer, bench.context)
        code.warm_up()
        for cause in (OSError("no bits today"), NotImplementedError("no bits today")):
            with mock.patch("os.urandom", side_effect=cause):
                with self.assertRaisesRegex(RaindropError, "no bits today") as raised:
                    code.next_uuid()
                self.assertEqual(raised.exception.kind, "transport")
                self.assertIs(raised.exception.__cause__, cause)
        self.assertEqual(bench.dropped(), [1, 1])

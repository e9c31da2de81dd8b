"""UUIDs of leased IDs: their bits, and which IDs have none."""

import asyncio
import json
import unittest
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from uuid import RFC_4122, UUID

from raindrop_client import AsyncClient, Client, RaindropError
from raindrop_client._answer import TimeField

from .server import Server

VECTORS = Path(__file__).parents[2] / "conformance" / "uuids.json"
TIME = {"epoch_ms": 1735689600000, "unit_ms": 1, "shift": 22, "bits": 41}


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

    def test_ids_without_uuids(self) -> None:
        refused: tuple[tuple[dict[str, Any], str], ...] = (
            ({"layout": None, "increment": "1"}, "have no time"),
            ({}, "or one that wraps"),
            ({"time": {**TIME, "unit_ms": 10}}, "ticks of 10 ms"),
            ({"time": {**TIME, "epoch_ms": -1}}, "begin at -1 Unix ms"),
        )
        for fields, reason in refused:
            with Server() as server:
                server.fields = fields
                with Client(server.url, deadline=30.0) as ids:
                    order = ids.code("order")
                    draws: tuple[Callable[[], object], ...] = (
                        order.next_uuid,
                        partial(order.next_uuid_many, 2),
                    )
                    for draw in draws:
                        with self.assertRaisesRegex(RaindropError, reason) as raised:
                            draw()
                        self.assertEqual(raised.exception.kind, "usage")

    def test_wrong_count(self) -> None:
        with Client("http://127.0.0.1:1") as ids, self.assertRaisesRegex(RaindropError, "n: 0"):
            ids.code("order").next_uuid_many(0)

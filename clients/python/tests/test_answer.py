"""What is taken from an answer, and what is refused."""

import json
import unittest
from typing import Any

from raindrop_client._answer import LARGEST_BODY, Answer, Reply, read_reply
from raindrop_client._errors import RaindropError

from .support import answer, one_range, problem


def read(reply: Reply, up_to: int = 100) -> Answer:
    return read_reply(reply, up_to, 60.0)


def ids(reply: Reply) -> list[int]:
    return [one for segment in read(reply).segments for one in segment.ids]


class Ranges(unittest.TestCase):
    def test_plain_range(self) -> None:
        self.assertEqual(ids(answer(one_range(7, 3))), [7, 8, 9])

    def test_step(self) -> None:
        self.assertEqual(ids(answer(one_range(1, 3, step="5", last="11"))), [1, 6, 11])

    def test_repeated_rows(self) -> None:
        rows = one_range(10, 2, step="3", repeat=3, stride="100", last="213")
        found = read(answer(rows))
        self.assertEqual([*found.segments[0].ids], [10, 13, 110, 113, 210, 213])
        self.assertEqual(found.total, 6)

    def test_last_id_of_63_bits(self) -> None:
        last = 2**63 - 1
        self.assertEqual(ids(answer(one_range(last - 1, 2))), [last - 1, last])

    def test_millions_of_ids_are_not_expanded(self) -> None:
        rows = one_range(0, 1, repeat=10**12, stride="2", last=str(2 * (10**12 - 1)))
        segment = read(answer(rows), 10**12).segments[0]
        self.assertEqual([next(segment.ids), next(segment.ids)], [0, 2])

    def test_refused(self) -> None:
        twice: dict[str, Any] = one_range(10, 2)
        for name, ranges in {
            "none": [],
            "no list": {},
            "no object": [5],
            "count of 0": [{**one_range(1, 3), "count": 0}],
            "count is text": [{**one_range(1, 3), "count": "3"}],
            "count is true": [{**one_range(1, 1), "count": True}],
            "count is no whole number": [{**one_range(1, 3), "count": 3.0}],
            "step of 0": [one_range(1, 1, step="0")],
            "sign": [{**one_range(1, 1), "first": "+1"}],
            "blank": [{**one_range(1, 1), "first": " 1"}],
            "other digits": [{**one_range(1, 1), "first": "١"}],
            "leading zero": [{**one_range(1, 1), "first": "01"}],
            "number": [{**one_range(1, 1), "first": 1}],
            "wrong last": [one_range(1, 3, last="4")],
            "too large": [one_range(2**63 - 1, 2)],
            "stride without repeat": [one_range(1, 3, stride="10")],
            "repeat without stride": [one_range(1, 3, repeat=1)],
            "rows overlap": [one_range(1, 3, repeat=2, stride="2", last="5")],
            "descends": [one_range(20, 2), twice],
            "overlaps": [twice, one_range(11, 2)],
            "too many": [one_range(1, 101)],
            "too many in rows": [one_range(1, 51, repeat=2, stride="60", last="111")],
        }.items():
            with self.subTest(name), self.assertRaises(RaindropError) as raised:
                read(Reply(200, "application/json", "", json.dumps({"ranges": ranges}).encode()))
            self.assertEqual(raised.exception.kind, "invalid_answer")


class Fields(unittest.TestCase):
    def test_media_types(self) -> None:
        for name in ("application/json", "Application/JSON ; charset=UTF-8"):
            self.assertEqual(ids(Reply(200, name, "", answer(one_range(1, 1)).body)), [1])
        for name in ("", "text/html", "application/jsonx", "application/problem+json"):
            with self.subTest(name), self.assertRaisesRegex(RaindropError, "not application/json"):
                read(Reply(200, name, "", answer(one_range(1, 1)).body))

    def test_bodies_that_are_no_json(self) -> None:
        deep = b"[" * 400_000 + b"]" * 400_000
        for body in (b"", b"{", b"\xff", deep, b'{"ranges":' + b"9" * 5000 + b"}"):
            with self.subTest(body[:9]), self.assertRaises(RaindropError) as raised:
                read(Reply(200, "application/json", "", body))
            self.assertEqual(raised.exception.kind, "invalid_answer")

    def test_body_of_more_than_a_mebibyte(self) -> None:
        body = answer(one_range(1, 1)).body
        whole = body + b" " * (LARGEST_BODY - len(body))
        self.assertEqual(ids(Reply(200, "application/json", "", whole)), [1])
        with self.assertRaisesRegex(RaindropError, "1048576 bytes"):
            read(Reply(200, "application/json", "", whole + b" "))

    def test_time_of_an_id(self) -> None:
        fields = {"epoch_ms": 1735689600000, "unit_ms": 1, "shift": 22, "bits": 41}
        found = read(answer(one_range(1, 1), time=fields)).time
        assert found
        at = found.time_of(252201579132751872)
        self.assertEqual(at.isoformat(timespec="milliseconds"), "2026-11-27T22:39:02.144+00:00")
        for wrong in (
            7,
            {**fields, "bits": 42},
            {**fields, "unit_ms": 0},
            {**fields, "shift": "1"},
        ):
            with self.subTest(str(wrong)), self.assertRaisesRegex(RaindropError, "time"):
                read(answer(one_range(1, 1), time=wrong))

    def test_until_is_a_span(self) -> None:
        for until, life in {
            "2026-11-28T09:30:01.623Z": 1.5,
            "2026-11-28t10:30:00.1230000001+01:00": 1e-10,
            "2026-11-28T09:29:59Z": -1.123,
        }.items():
            self.assertAlmostEqual(read(answer(one_range(1, 1), until=until)).life, life, 6)
        wrong: tuple[Any, ...] = ("tomorrow", 7, None, "2026-13-01T00:00:00Z")
        for one in wrong:
            with self.subTest(str(one)), self.assertRaisesRegex(RaindropError, "until"):
                read(answer(one_range(1, 1), until=one))

    def test_numbers_have_no_age(self) -> None:
        self.assertTrue(read(answer(one_range(1, 1))).ages)
        body = json.dumps({"increment": "1", "ranges": [one_range(1, 1)]}).encode()
        self.assertFalse(read(Reply(200, "application/json", "", body)).ages)


class Problems(unittest.TestCase):
    def error(self, reply: Reply) -> RaindropError:
        with self.assertRaises(RaindropError) as raised:
            read(reply)
        return raised.exception

    def test_document(self) -> None:
        error = self.error(problem(503, "lease_unavailable", "7"))
        self.assertEqual(
            (error.kind, error.code, error.status), ("problem", "lease_unavailable", 503)
        )
        self.assertEqual((error.detail, error.retry_after), ("made up", 7.0))

    def test_retry_after_is_bounded(self) -> None:
        for text, seconds in {
            "0": 0.0,
            "60": 60.0,
            "5 ": 5.0,
            "86400": 60.0,
            "9" * 5000: 60.0,
            "-1": None,
            "1.5": None,
            "5, 6": None,
            "٥": None,
            "": None,
            "Fri, 31 Dec 1999 23:59:59 GMT": None,
        }.items():
            with self.subTest(text[:30]):
                self.assertEqual(self.error(problem(503, "overloaded", text)).retry_after, seconds)

    def test_page_of_a_proxy(self) -> None:
        page = Reply(502, "text/html", "3", b"<html>")
        error = self.error(page)
        self.assertEqual((error.kind, error.status, error.retry_after), ("transport", 502, 3.0))
        self.assertEqual(self.error(Reply(307, "application/json", "", b"{}")).kind, "transport")
        cut = Reply(503, "application/problem+json", "", b'{"code":')
        self.assertEqual(self.error(cut).kind, "transport")

    def test_what_is_certain(self) -> None:
        for status, certain in {400: True, 403: True, 404: True, 422: True, 401: False}.items():
            self.assertEqual(self.error(problem(status, "x")).is_certain, certain, status)
        for status in (408, 425, 429, 500, 503):
            self.assertFalse(self.error(problem(status, "x")).is_certain, status)
        self.assertFalse(self.error(Reply(404, "text/html", "", b"")).is_certain)

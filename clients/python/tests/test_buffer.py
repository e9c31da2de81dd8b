"""The protocol of one code, step by step, by a clock that the tests set."""

import copy
import itertools
import pickle
import threading
import unittest
from collections.abc import Iterator
from typing import Any
from unittest import mock

from raindrop_client import Event, RaindropError
from raindrop_client._answer import Reply
from raindrop_client._buffer import Buffer, Waiter

from .support import Bench, answer, one_range, problem

PAGE = Reply(200, "text/html", "", b"<html>")


def join(bench: Bench, n: int = 1, deadline: float = 2.0) -> Waiter:
    return bench.buffer.join(n, deadline, lambda: None, takes=True)


class Demand(unittest.TestCase):
    def test_a_cold_buffer_asks_for_what_is_wanted(self) -> None:
        bench = Bench()
        self.assertEqual(bench.draw(3), [1, 2, 3])
        self.assertEqual(bench.asked, [("http://a", 3)])

    def test_a_caller_that_has_its_ids_is_no_demand(self) -> None:
        bench = Bench()
        bench.draw(3)
        self.assertEqual(bench.started, 0)

    def test_all_who_wait_share_a_request(self) -> None:
        bench = Bench()
        waiters = [join(bench) for _ in range(5)]
        for waiter in waiters:
            self.assertIsNone(bench.buffer.poll(waiter))
        bench.run()
        self.assertEqual(
            [bench.buffer.poll(waiter) for waiter in waiters], [[n] for n in range(1, 6)]
        )
        self.assertEqual(bench.asked, [("http://a", 5)])

    def test_a_buffer_that_runs_dry_is_followed_by_twice_as_many(self) -> None:
        bench = Bench()
        for _ in range(7):
            bench.now += 0.3
            bench.draw(1)
        self.assertEqual([size for _, size in bench.asked], [1, 2, 4])

    def test_the_size_follows_the_rate(self) -> None:
        bench = Bench()
        for _ in range(4000):
            bench.now += 0.002
            bench.draw(1)
            bench.run()
        # 500 IDs a second, for 2 s.
        self.assertAlmostEqual(bench.asked[-1][1], 1000, delta=60)
        self.assertLess(len(bench.asked), 30)

    def test_little_demand_fetches_nothing_ahead(self) -> None:
        bench = Bench()
        for _ in range(5):
            bench.now += 20
            bench.draw(1)
        self.assertEqual([size for _, size in bench.asked], [1] * 5)

    def test_try_starts_a_refill_and_never_waits(self) -> None:
        bench = Bench()
        self.assertIsNone(bench.buffer.take())
        self.assertEqual(bench.started, 1)
        self.assertIsNone(bench.buffer.take())
        self.assertEqual(bench.started, 1)
        bench.run()
        self.assertEqual(bench.buffer.take(), 1)

    def test_bounds_of_a_request(self) -> None:
        bench = Bench(min_range=10, max_range=50)
        bench.draw(1)
        bench.draw(50)
        self.assertEqual([size for _, size in bench.asked], [10, 41])

    def test_many_may_take_several_answers(self) -> None:
        bench = Bench()
        bench.replies["http://a"] = answer(one_range(500, 2))
        waiter = join(bench, 4)
        self.assertIsNone(bench.buffer.poll(waiter))
        bench.run_one()
        bench.replies.clear()
        self.assertIsNone(bench.buffer.poll(waiter))
        bench.run_one()
        # Those of the second answer are below those of the first.
        self.assertEqual(bench.buffer.poll(waiter), [1, 2, 500, 501])

    def test_fewer_after_invalid_count(self) -> None:
        bench = Bench(min_range=100)
        too_many = problem(400, "invalid_count")
        bench.answer = lambda size: bench.issue(size) if size <= 25 else too_many
        self.assertEqual(bench.draw(1), [1])
        bench.draw(25)
        self.assertEqual([size for _, size in bench.asked], [100, 50, 25, 25])


class Freshness(unittest.TestCase):
    def test_ids_get_too_old(self) -> None:
        bench = Bench(min_range=10)
        bench.draw(1)
        bench.now += 9.99
        self.assertEqual(bench.buffer.take(), 2)
        bench.now += 0.01
        self.assertIsNone(bench.buffer.take())
        self.assertEqual([event.ids for event in bench.of_type("dropped")], [1, 7])

    def test_the_clock_is_read_after_an_id_is_taken(self) -> None:
        bench = Bench(min_range=10)
        bench.draw(1)
        bench.buffer.take()

        def stop() -> Iterator[int]:
            bench.now += 60
            yield 3

        bench.buffer._ids = stop()
        self.assertIsNone(bench.buffer.take())

    def test_many_are_replaced_when_the_process_was_stopped(self) -> None:
        bench = Bench(min_range=10)
        bench.draw(1)

        def stop(*of: Any) -> Iterator[int]:
            bench.now += 60
            return itertools.islice(*of)

        with mock.patch("raindrop_client._buffer.islice", stop):
            self.assertIsNone(bench.buffer.draw(5))

    def test_age_counts_from_before_the_request(self) -> None:
        bench = Bench(min_range=10)

        def slow(size: int) -> Reply:
            bench.now += 6
            return bench.issue(size)

        bench.answer = slow
        bench.draw(1)
        bench.now += 4
        self.assertIsNone(bench.buffer.take())

    def test_an_answer_that_is_too_old_is_refused(self) -> None:
        bench = Bench(("http://a", "http://b"))

        def slow(size: int) -> Reply:
            bench.now += 10 if bench.asked[-1][0] == "http://a" else 0
            return bench.issue(size)

        bench.answer = slow
        self.assertEqual(bench.draw(1), [2])
        self.assertEqual(
            [event.error and event.error.kind for event in bench.of_type("request")],
            ["transport", None],
        )

    def test_numbers_do_not_expire_and_until_ends_them(self) -> None:
        bench = Bench(min_range=10)
        bench.answer = lambda count: numbers(count)
        bench.draw(1)
        bench.now += 10**6
        self.assertEqual(bench.buffer.take(), 2)
        bench = Bench(min_range=10)
        until = "2026-11-28T09:30:01.123Z"
        bench.answer = lambda count: answer(one_range(1, count), until=until)
        bench.draw(1)
        bench.now += 1.0
        self.assertIsNone(bench.buffer.take())


def numbers(count: int) -> Reply:
    reply = answer(one_range(1, count))
    return Reply(200, reply.content_type, "", reply.body.replace(b'"layout"', b'"other"'))


class Failures(unittest.TestCase):
    def test_the_next_url_is_asked_at_once_and_then_first(self) -> None:
        for wrong in (
            PAGE,
            problem(401, "unauthorized"),
            problem(429, "x"),
            problem(500, "x"),
            RaindropError("transport", "refused"),
        ):
            bench = Bench(("http://a", "http://b"))
            bench.replies["http://a"] = wrong
            self.assertEqual(bench.draw(1), [1])
            self.assertEqual([url for url, _ in bench.asked], ["http://a", "http://b"])
            bench.draw(5)
            self.assertEqual(bench.asked[-1][0], "http://b")
            self.assertEqual(bench.pauses, [])

    def test_what_is_certain_is_not_asked_elsewhere(self) -> None:
        bench = Bench(("http://a", "http://b"))
        bench.replies["http://a"] = problem(404, "unknown_code")
        with self.assertRaises(RaindropError) as raised:
            bench.draw(1)
        self.assertEqual((raised.exception.code, bench.asked), ("unknown_code", [("http://a", 1)]))

    def test_back_off_doubles_up_to_ten_seconds(self) -> None:
        bench = Bench()
        bench.replies["http://a"] = PAGE
        bench.buffer.poll(join(bench, deadline=1000))
        for _ in range(10):
            bench.run_one()
        longest_pauses = (0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10, 10, 10)
        for pause, longest in zip(bench.pauses, longest_pauses, strict=True):
            self.assertTrue(longest / 2 <= pause <= longest, f"{pause}, {longest}")

    def test_those_who_have_time_go_on_waiting(self) -> None:
        bench = Bench()
        bench.replies["http://a"] = PAGE
        patient, hasty = join(bench, deadline=5.0), join(bench, deadline=0.05)
        self.assertIsNone(bench.buffer.poll(patient))
        bench.run_one()
        with self.assertRaisesRegex(RaindropError, "text/html"):
            bench.buffer.poll(hasty)
        self.assertIsNone(bench.buffer.poll(patient))
        bench.replies.clear()
        bench.run()
        self.assertEqual(bench.buffer.poll(patient), [1])
        self.assertEqual(len(bench.pauses), 1)

    def test_a_late_caller_gets_the_failure_and_not_the_deadline(self) -> None:
        bench = Bench()
        bench.replies["http://a"] = PAGE
        waiter = join(bench, deadline=5.0)
        bench.buffer.poll(waiter)
        bench.run_one()
        self.assertIsNone(bench.buffer.poll(waiter))
        bench.now += 5
        with self.assertRaisesRegex(RaindropError, "text/html"):
            bench.buffer.poll(waiter)

    def test_deadline(self) -> None:
        bench = Bench()
        waiter = join(bench)
        self.assertIsNone(bench.buffer.poll(waiter))
        bench.now += 2
        with self.assertRaises(RaindropError) as raised:
            bench.buffer.poll(waiter)
        self.assertEqual(raised.exception.kind, "deadline")

    def test_retry_after_of_a_url_leaves_it_out(self) -> None:
        bench = Bench(("http://a", "http://b"))
        bench.replies = {"http://a": problem(503, "x", "60"), "http://b": problem(503, "x", "1")}
        waiter = join(bench, deadline=100)
        bench.buffer.poll(waiter)
        bench.run_one()
        bench.replies.clear()
        bench.run()
        self.assertEqual([url for url, _ in bench.asked], ["http://a", "http://b", "http://b"])
        self.assertAlmostEqual(sum(bench.pauses), 1.0)

    def test_a_caller_waits_ten_seconds_whatever_retry_after_says(self) -> None:
        bench = Bench()
        bench.replies["http://a"] = problem(503, "x", "86400")
        waiter = join(bench, deadline=30)
        bench.buffer.poll(waiter)
        bench.run_one()
        bench.replies.clear()
        bench.run()
        self.assertEqual(bench.pauses, [10.0])
        self.assertEqual(bench.buffer.poll(waiter), [1])

    def test_a_refill_without_callers_heeds_retry_after(self) -> None:
        bench = Bench()
        bench.replies["http://a"] = problem(503, "x", "30")
        self.assertIsNone(bench.buffer.take())
        bench.run()
        for seconds, started in ((0.0, 0), (29.9, 0), (0.2, 1)):
            bench.now += seconds
            self.assertIsNone(bench.buffer.take())
            self.assertEqual(bench.started, started)

    def test_an_answer_that_came_before_is_refused(self) -> None:
        bench = Bench(("http://a", "http://b"))
        bench.replies["http://a"] = answer(one_range(1000, 2))
        self.assertEqual(bench.draw(2), [1000, 1001])
        self.assertEqual(bench.draw(1), [1])
        self.assertEqual(
            [event.error and event.error.kind for event in bench.of_type("request")],
            [None, "invalid_answer", None],
        )

    def test_a_hook_that_raises_is_a_usage_error(self) -> None:
        def on_event(_event: Event) -> None:
            raise LookupError("no metrics")

        bench = Bench(on_event=on_event)
        waiter = join(bench)
        self.assertIsNone(bench.buffer.poll(waiter))
        with self.assertLogs("raindrop_client", "WARNING"):
            bench.run_one()
        with self.assertRaisesRegex(RaindropError, "no metrics") as raised:
            bench.buffer.poll(waiter)
        self.assertEqual(raised.exception.kind, "usage")

    def test_failures_are_logged_once_a_minute(self) -> None:
        bench = Bench()
        bench.replies["http://a"] = PAGE
        with self.assertLogs("raindrop_client", "WARNING") as logs:
            for seconds in (0, 30, 29, 31):
                bench.now += seconds
                bench.buffer.take()
                bench.run()
        self.assertEqual(len(logs.records), 2)
        self.assertEqual(len(bench.asked), 4)


class Life(unittest.TestCase):
    def test_close_fails_those_who_wait_and_drops_the_rest(self) -> None:
        bench = Bench(min_range=10)
        bench.draw(1)
        waiter = join(bench, 20)
        bench.buffer.poll(waiter)
        bench.buffer.close()
        for call in (
            lambda: bench.buffer.poll(waiter),
            bench.buffer.take,
            lambda: bench.buffer.draw(2),
        ):
            with self.assertRaises(RaindropError) as raised:
                call()
            self.assertEqual(raised.exception.kind, "closed")
        self.assertEqual([event.ids for event in bench.of_type("dropped")], [9])
        bench.run()
        self.assertEqual(len(bench.asked), 1)

    def test_a_child_forgets_what_its_parent_holds(self) -> None:
        bench = Bench(min_range=10)
        bench.draw(1)
        with mock.patch("os.getpid", return_value=7):
            self.assertIsNone(bench.buffer.take())
            bench.run()
            self.assertEqual(bench.buffer.take(), 11)

    def test_a_buffer_has_no_copy(self) -> None:
        buffer: Buffer = Bench().buffer
        for make in (copy.copy, copy.deepcopy, pickle.dumps):
            with self.subTest(make.__name__), self.assertRaisesRegex(TypeError, "IDs would repeat"):
                make(buffer)

    def test_threads_and_a_signal_take_each_id_once(self) -> None:
        bench = Bench(min_range=60_000)
        bench.draw(1)
        taken: list[list[int]] = []

        def run() -> None:
            own = []
            for _ in range(2000):
                own += [bench.buffer.take(), *(bench.buffer.draw(5) or ())]
            taken.append([one for one in own if one is not None])

        threads = [threading.Thread(target=run) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        ids = [one for own in taken for one in own]
        self.assertEqual(len(ids), 4 * 2000 * 6)
        self.assertEqual(len(set(ids)), len(ids))

    def test_an_error_can_be_pickled(self) -> None:
        error = RaindropError(
            "problem", "x (503): y", code="x", status=503, detail="y", retry_after=1.0
        )
        again = pickle.loads(pickle.dumps(error))
        self.assertEqual((str(again), vars(again)), (str(error), vars(error)))

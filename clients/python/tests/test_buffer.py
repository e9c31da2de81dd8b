"""The protocol of one code, step by step, by a clock that the tests set."""

import asyncio
import copy
import itertools
import pickle
import signal
import threading
import unittest
from collections.abc import Callable, Iterator
from functools import partial
from queue import SimpleQueue
from typing import Any
from unittest import mock

from raindrop_client import AsyncCode, Code, Event, RaindropError
from raindrop_client._answer import Reply
from raindrop_client._buffer import Buffer, Waiter

from .support import Bench, answer, at_line, one_range, problem

PAGE = Reply(200, "text/html", "", b"<html>")


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
        waiters = [bench.waiter() for _ in range(5)]
        for waiter in waiters:
            self.assertIsNone(bench.buffer.poll(waiter))
        bench.run()
        self.assertEqual([bench.poll(waiter) for waiter in waiters], [[n] for n in range(1, 6)])
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
        self.assertIsNone(bench.take())
        self.assertEqual(bench.started, 1)
        self.assertIsNone(bench.take())
        self.assertEqual(bench.started, 1)
        bench.run()
        self.assertEqual(bench.take(), 1)

    def test_bounds_of_a_request(self) -> None:
        bench = Bench(min_range=10, max_range=50)
        bench.draw(1)
        bench.draw(50)
        self.assertEqual([size for _, size in bench.asked], [10, 41])

    def test_many_may_take_several_answers(self) -> None:
        bench = Bench()
        bench.replies["http://a"] = answer(one_range(500, 2))
        waiter = bench.waiter(4)
        self.assertIsNone(bench.buffer.poll(waiter))
        bench.run_one()
        bench.replies.clear()
        self.assertIsNone(bench.buffer.poll(waiter))
        bench.run_one()
        # Those of the second answer are below those of the first.
        self.assertEqual(bench.poll(waiter), [1, 2, 500, 501])

    def test_a_caller_without_time_starts_a_refill(self) -> None:
        bench = Bench()
        waiter = Waiter(1, False, lambda: None, bench.now, bench.now)
        with self.assertRaisesRegex(RaindropError, "no ID of code order within 0 s"):
            bench.buffer.poll(waiter)
        self.assertEqual(bench.started, 1)

    def test_fewer_after_invalid_count(self) -> None:
        bench = Bench(min_range=100)
        too_many = problem(400, "invalid_count")
        bench.answer = lambda size: bench.issue(size) if size <= 25 else too_many
        self.assertEqual(bench.draw(1), [1])
        bench.draw(25)
        self.assertEqual([size for _, size in bench.asked], [100, 50, 25, 25])


class Texts(unittest.TestCase):
    def bench(self) -> Bench:
        """Returns one whose nth answer has up to 4 IDs with the prefix "n-"."""
        bench = Bench(min_range=4)

        def issue(count: int) -> Reply:
            bench.next_id += min(count, 4)
            issued = one_range(bench.next_id - min(count, 4), min(count, 4))
            return answer(issued, prefix=f"{len(bench.asked)}-")

        def start(_buffer: Buffer) -> None:
            bench.started += 1
            bench.run_one()

        bench.answer = issue
        bench.context.start = start
        return bench

    def test_a_text_has_the_prefix_of_its_own_answer(self) -> None:
        bench = self.bench()
        code = Code("order", bench.buffer, bench.context)
        texts = ["1-1", "1-2", "1-3", "1-4", "2-5", "2-6"]
        self.assertEqual(code.next_text_many(6), texts)
        # IDs of the second answer are left when the third one comes.
        bench.buffer._refill_if_low(3)
        bench.buffer.flush()
        self.assertEqual([code.next_text() for _ in range(3)], ["2-7", "2-8", "3-9"])

    def test_a_text_has_no_prefix_of_an_answer_that_is_used_up(self) -> None:
        bench = self.bench()
        code = Code("order", bench.buffer, bench.context)
        self.assertEqual(code.next_text_many(4)[-1], "1-4")
        bench.buffer._refill_if_low(4)
        bench.buffer.flush()
        # So an exception of a signal handler can leave it.
        bench.buffer._current.left = 1
        drawn = bench.buffer.draw(1)
        assert drawn
        one, segment = drawn.only()
        self.assertEqual((one, segment.prefix), (5, "2-"))

    def test_a_text_of_a_task_has_the_prefix_of_its_own_answer(self) -> None:
        bench = self.bench()
        code = AsyncCode("order", bench.buffer, bench.context)

        async def draw() -> list[str]:
            return [*await code.next_text_many(6), await code.next_text()]

        texts = ["1-1", "1-2", "1-3", "1-4", "2-5", "2-6", "2-7"]
        self.assertEqual(asyncio.run(draw()), texts)


class Freshness(unittest.TestCase):
    def test_ids_without_layout_and_increment_get_too_old(self) -> None:
        bench = Bench(min_range=10)
        reply = answer(one_range(1, 10))
        body = reply.body.replace(b'"layout"', b'"other"')
        bench.answer = lambda _: Reply(200, reply.content_type, "", body)
        bench.draw(1)
        bench.now += 10
        self.assertIsNone(bench.take())

    def test_ids_get_too_old(self) -> None:
        bench = Bench(min_range=10)
        bench.draw(1)
        bench.now += 9.99
        self.assertEqual(bench.take(), 2)
        bench.now += 0.01
        self.assertIsNone(bench.take())
        self.assertEqual([event.ids for event in bench.of_type("dropped")], [1, 7])

    def test_the_clock_is_read_after_an_id_is_taken(self) -> None:
        bench = Bench(min_range=10)
        bench.draw(1)
        bench.take()

        def stop() -> Iterator[int]:
            bench.now += 60
            yield 3

        bench.buffer._current.ids = stop()
        self.assertIsNone(bench.take())

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
        self.assertIsNone(bench.take())

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

    def test_an_answer_that_was_too_old_is_refused_when_it_comes_again(self) -> None:
        bench = Bench(("http://a", "http://b"))
        late = answer(one_range(1000, 1))

        def slow(size: int) -> Reply:
            bench.now += 10 if len(bench.asked) == 1 else 0
            return late if len(bench.asked) <= 2 else bench.issue(size)

        bench.answer = slow
        self.assertEqual(bench.draw(1), [1])
        self.assertEqual(bench.kinds_of_requests(), ["transport", "invalid_answer", None])

    def test_numbers_do_not_expire_and_until_ends_them(self) -> None:
        bench = Bench(min_range=10)
        bench.answer = lambda count: numbers(count)
        bench.draw(1)
        bench.now += 10**6
        self.assertEqual(bench.take(), 2)
        bench = Bench(min_range=10)
        until = "2026-11-28T09:30:01.123Z"
        bench.answer = lambda count: answer(one_range(1, count), until=until)
        bench.draw(1)
        bench.now += 1.0
        self.assertIsNone(bench.take())


def numbers(count: int) -> Reply:
    reply = answer(one_range(1, count), increment="1")
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

    def test_a_caller_hears_of_a_refill_that_is_faster_than_its_wait(self) -> None:
        class Fast(Bench):
            def note_start(self, _buffer: Buffer) -> None:
                self.started += 1
                self.run_one()

        for call in (Code.next, Code.next_text, Code.next_uuid, lambda code: code.next_many(2)):
            bench = Fast()
            bench.replies["http://a"] = problem(404, "unknown_code")
            with self.assertRaisesRegex(RaindropError, "unknown_code"):
                call(Code("order", bench.buffer, bench.context))
            self.assertEqual(len(bench.asked), 1)

    def test_back_off_doubles_up_to_ten_seconds(self) -> None:
        bench = Bench()
        bench.replies["http://a"] = PAGE
        bench.buffer.poll(bench.waiter(deadline=1000))
        for _ in range(10):
            bench.run_one()
        longest_pauses = (0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10, 10, 10)
        for pause, longest in zip(bench.pauses, longest_pauses, strict=True):
            self.assertTrue(longest / 2 <= pause <= longest, f"{pause}, {longest}")

    def test_those_who_have_time_go_on_waiting(self) -> None:
        bench = Bench()
        bench.replies["http://a"] = PAGE
        patient, hasty = bench.waiter(deadline=5.0), bench.waiter(deadline=0.05)
        self.assertIsNone(bench.buffer.poll(patient))
        bench.run_one()
        with self.assertRaisesRegex(RaindropError, "text/html"):
            bench.buffer.poll(hasty)
        self.assertIsNone(bench.buffer.poll(patient))
        bench.replies.clear()
        bench.run()
        self.assertEqual(bench.poll(patient), [1])
        self.assertEqual(len(bench.pauses), 1)

    def test_a_late_caller_gets_the_failure_and_not_the_deadline(self) -> None:
        bench = Bench()
        bench.replies["http://a"] = PAGE
        waiter = bench.waiter(deadline=5.0)
        bench.buffer.poll(waiter)
        bench.run_one()
        self.assertIsNone(bench.buffer.poll(waiter))
        bench.now += 5
        with self.assertRaisesRegex(RaindropError, "text/html"):
            bench.buffer.poll(waiter)

    def test_deadline(self) -> None:
        bench = Bench()
        waiter = bench.waiter()
        self.assertIsNone(bench.buffer.poll(waiter))
        bench.now += 2
        with self.assertRaises(RaindropError) as raised:
            bench.buffer.poll(waiter)
        self.assertEqual(raised.exception.kind, "deadline")

    def test_retry_after_of_a_url_leaves_it_out(self) -> None:
        bench = Bench(("http://a", "http://b"))
        bench.replies = {"http://a": problem(503, "x", "60"), "http://b": problem(503, "x", "1")}
        waiter = bench.waiter(deadline=100)
        bench.buffer.poll(waiter)
        bench.run_one()
        bench.replies.clear()
        bench.run()
        self.assertEqual([url for url, _ in bench.asked], ["http://a", "http://b", "http://b"])
        self.assertAlmostEqual(sum(bench.pauses), 1.0)

    def test_a_caller_waits_ten_seconds_whatever_retry_after_says(self) -> None:
        bench = Bench()
        bench.replies["http://a"] = problem(503, "x", "86400")
        waiter = bench.waiter(deadline=30)
        bench.buffer.poll(waiter)
        bench.run_one()
        bench.replies.clear()
        bench.run()
        self.assertEqual(bench.pauses, [10.0])
        self.assertEqual(bench.poll(waiter), [1])

    def test_a_refill_without_callers_heeds_retry_after(self) -> None:
        bench = Bench()
        bench.replies["http://a"] = problem(503, "x", "30")
        self.assertIsNone(bench.take())
        bench.run()
        for seconds, started in ((0.0, 0), (29.9, 0), (0.2, 1)):
            bench.now += seconds
            self.assertIsNone(bench.take())
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
        waiter = bench.waiter()
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
                bench.take()
                bench.run()
        self.assertEqual(len(logs.records), 2)
        self.assertEqual(len(bench.asked), 4)


class Life(unittest.TestCase):
    def test_close_fails_those_who_wait_and_drops_the_rest(self) -> None:
        bench = Bench(min_range=10)
        bench.draw(1)
        waiter = bench.waiter(20)
        bench.buffer.poll(waiter)
        bench.buffer.close()
        for call in (
            lambda: bench.buffer.poll(waiter),
            bench.buffer.take,
            lambda: bench.draw_now(2),
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
            self.assertIsNone(bench.take())
            bench.run()
            self.assertEqual(bench.take(), 11)

    def test_a_buffer_has_no_copy(self) -> None:
        buffer: Buffer = Bench().buffer
        for make in (copy.copy, copy.deepcopy, pickle.dumps):
            with self.subTest(make.__name__), self.assertRaisesRegex(TypeError, "IDs would repeat"):
                make(buffer)

    def test_threads_and_a_signal_take_each_id_once(self) -> None:
        bench = Bench(min_range=100_000)
        bench.draw(1)
        taken: list[list[int | None]] = []
        by_handler: list[int | None] = []

        def run() -> None:
            own: list[int | None] = []
            taken.append(own)
            for _ in range(2000):
                own.append(bench.take())
                own += bench.draw_now(5) or [None]

        def handle(*_: object) -> None:
            by_handler.append(bench.take())
            by_handler.extend(bench.draw_now(5) or [None])

        before = signal.signal(signal.SIGALRM, handle)
        self.addCleanup(signal.signal, signal.SIGALRM, before)
        threads = [threading.Thread(target=run) for _ in range(3)]
        for thread in threads:
            thread.start()
        signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
        try:
            run()
            # However busy the machine is, some of them interrupt a call.
            while len(by_handler) < 20 * 6:
                run()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        for thread in threads:
            thread.join()
        ids = [one for own in [*taken, by_handler] for one in own]
        self.assertGreaterEqual(len(ids), 4 * 2000 * 6)
        self.assertNotIn(None, ids)
        self.assertEqual(len(set(ids)), len(ids))

    def test_two_threads_of_a_child_forget_once(self) -> None:
        bench = Bench()
        forgotten: list[int] = []
        may_go_on = threading.Event()

        def forget() -> None:
            forgotten.append(threading.get_ident())
            may_go_on.wait(10)
            bench.forget()

        bench.context.forget = forget
        with mock.patch("os.getpid", return_value=7):
            threads = [threading.Thread(target=bench.buffer.take) for _ in range(2)]
            for thread in threads:
                thread.start()
            # The second one has compared the process ids before the first one is done.
            threads[1].join(0.1)
            may_go_on.set()
            for thread in threads:
                thread.join()
        self.assertEqual(len(forgotten), 1)

    def test_an_error_can_be_pickled(self) -> None:
        error = RaindropError(
            "problem", "x (503): y", code="x", status=503, detail="y", retry_after=1.0
        )
        again = pickle.loads(pickle.dumps(error))
        self.assertEqual((str(again), vars(again)), (str(error), vars(error)))


class Interruptions(unittest.TestCase):
    """What a signal handler does at any line of a call, and what else ends a refill too early."""

    def benches(self) -> Iterator[tuple[str, Callable[[], Bench], Callable[[Bench], object]]]:
        """Yields calls, and makers of the buffers that they are made with."""

        def full() -> Bench:
            bench = Bench(max_range=4)
            for first in (100, 200, 300):
                reply = answer(one_range(first, 2), one_range(first + 50, 2))
                bench.replies["http://a"] = reply
                bench.buffer._missed = 100
                bench.take()
                bench.run_one()
            bench.replies.clear()
            bench.started = 0
            return bench

        def old() -> Bench:
            bench = full()
            bench.now += 20
            return bench

        def wait(bench: Bench) -> list[int] | None:
            waiter = bench.waiter(2)
            try:
                return bench.poll(waiter)
            finally:
                bench.buffer.leave(waiter, None)

        for make in (Bench, full, old):
            yield f"take {make.__name__}", make, lambda bench: [bench.take()]
            yield f"draw {make.__name__}", make, lambda bench: bench.draw_now(7)
            yield f"wait {make.__name__}", make, wait

    def test_an_exception_stops_no_refill(self) -> None:
        def interrupt() -> None:
            raise KeyboardInterrupt

        interrupted = 0
        for name, make, call in self.benches():
            for number in itertools.count(1):
                bench = make()
                try:
                    if not at_line(number, interrupt, partial(call, bench)):
                        break
                except KeyboardInterrupt:
                    interrupted += 1
                bench.started = 0
                drawn: list[int] = []
                # A buffer that holds what it does not have notices that by a first refill.
                for _ in range(6):
                    bench.now += 1.0
                    waiter = bench.waiter(2, 1e6)
                    drawn += bench.poll(waiter) or []
                    bench.run()
                    drawn += bench.poll(waiter) or []
                    bench.buffer.leave(waiter, None)
                with self.subTest(name, line=number):
                    self.assertGreaterEqual(len(drawn), 8)
                    self.assertEqual(len(set(drawn)), len(drawn))
                    self.assertEqual((len(bench.buffer._waiters), bench.buffer._wanted), (0, 0))
        self.assertGreater(interrupted, 200)

    def test_exceptions_of_signals_leave_the_lock_free(self) -> None:
        class InterruptionError(Exception):
            pass

        def interrupt(*_: object) -> None:
            raise InterruptionError

        bench = Bench(min_range=100_000)
        bench.draw(1)
        before = signal.signal(signal.SIGALRM, interrupt)
        self.addCleanup(signal.signal, signal.SIGALRM, before)
        for number in range(200):
            with self.assertRaises(InterruptionError):
                signal.setitimer(signal.ITIMER_REAL, 0.0001 + number * 1e-6)
                while True:
                    bench.take()
                    bench.buffer.draw(1)
            self.assertFalse(bench.buffer.lock._is_owned())  # type: ignore[attr-defined]

    def test_a_handler_that_draws_gets_other_ids(self) -> None:
        for name, make, call in self.benches():
            for number in itertools.count(1):
                bench = make()
                drawn: list[int | None] = []

                def draw(bench: Bench = bench, drawn: list[int | None] = drawn) -> None:
                    drawn += [bench.take(), *bench.draw_now(3)]

                def run(
                    bench: Bench = bench,
                    drawn: list[int | None] = drawn,
                    call: Callable[[Bench], Any] = call,
                ) -> None:
                    drawn += call(bench) or []

                if not at_line(number, draw, run):
                    break
                bench.run()
                bench.now += 1.0
                drawn += bench.draw(4)
                ids = [one for one in drawn if one is not None]
                with self.subTest(name, line=number):
                    self.assertEqual(len(set(ids)), len(ids))

    def test_a_handler_that_would_wait_for_its_own_call_is_told(self) -> None:
        bench = Bench()
        waiter = bench.waiter()
        self.assertEqual(bench.buffer.patience(waiter), 1.0)
        with bench.buffer.lock, self.assertRaisesRegex(RaindropError, "use try_next") as raised:
            bench.buffer.patience(waiter)
        self.assertEqual(raised.exception.kind, "usage")

    def test_a_refill_that_does_not_begin_is_started_again(self) -> None:
        bench = Bench()
        for seconds, started in ((0.0, 1), (0.9, 1), (0.1, 2)):
            bench.now += seconds
            self.assertIsNone(bench.take())
            self.assertEqual(bench.started, started)
        # The first one was late, and the other finds that nothing is left to do.
        bench.run()
        self.assertEqual(bench.asked, [("http://a", 1)])

    def test_only_one_refill_is_under_way(self) -> None:
        bench = Bench()
        bench.take()

        def issue(size: int) -> Reply:
            bench.buffer.refill()
            return bench.issue(size)

        bench.answer = issue
        bench.buffer.refill()
        self.assertEqual(bench.asked, [("http://a", 1)])

    def test_a_refill_whose_thread_is_ended_is_a_failure(self) -> None:
        bench = Bench()
        bench.take()
        bench.started = 0
        bench.answer = mock.Mock(side_effect=SystemExit)
        with self.assertLogs("raindrop_client", "WARNING"):
            bench.buffer.refill()
        bench.answer = bench.issue
        bench.now += 1.0
        self.assertEqual(bench.draw(1), [1])

    def test_a_refill_of_the_parent_ends_none_of_the_child(self) -> None:
        bench = Bench()
        may_end = {"parent": threading.Event(), "child": threading.Event()}
        names = iter(may_end)
        asks: SimpleQueue[None] = SimpleQueue()

        def issue(_size: int) -> Reply:
            name = next(names)
            asks.put(None)
            may_end[name].wait()
            return PAGE

        def begin() -> threading.Thread:
            bench.take()
            thread = threading.Thread(target=bench.buffer.refill)
            thread.start()
            asks.get()
            return thread

        bench.answer = issue
        of_parent = begin()
        with mock.patch("os.getpid", return_value=7), self.assertLogs("raindrop_client"):
            of_child = begin()
            may_end["parent"].set()
            of_parent.join()
            self.assertIsNone(bench.take())
            bench.buffer.refill()
            self.assertTrue(asks.empty())
            may_end["child"].set()
            of_child.join()
        self.assertEqual(len(bench.asked), 2)

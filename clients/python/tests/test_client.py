"""Both clients with a server on this machine: threads, tasks, forks, tokens, TLS and proxies."""

import asyncio
import contextlib
import copy
import ctypes
import gc
import http.client
import itertools
import multiprocessing
import os
import pickle
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
import unittest
import urllib.parse
import warnings
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import SimpleQueue
from typing import Any
from unittest import mock

from raindrop_client import AsyncClient, Client, Event, RaindropError, __version__
from raindrop_client._buffer import Buffer
from raindrop_client._transport import Call, Transport, _Idle

from .server import Server, certificates, temporary, tls_of_server
from .support import at_line

PATIENCE = 30.0


def client(*servers: Server, **options: Any) -> Client:
    return Client([server.url for server in servers], **{"deadline": PATIENCE, **options})


def first_failure(*servers: Server, **options: Any) -> str | None:
    """Returns the kind of error of the first request of a client."""
    kinds: SimpleQueue[str | None] = SimpleQueue()

    def on_event(event: Event) -> None:
        if event.type == "request":
            kinds.put(event.error.kind if event.error else None)

    with client(*servers, on_event=on_event, **options) as ids:
        ids.code("order").try_next()
        return kinds.get(timeout=PATIENCE)


class Calls(unittest.TestCase):
    def test_ids_texts_and_events(self) -> None:
        events: list[Event] = []
        with Server() as server, client(server, min_range=20, on_event=events.append) as ids:
            order = ids.code("order")
            self.assertEqual(order.next(), 1_000_000)
            self.assertEqual(order.next_many(3), [1_000_001, 1_000_002, 1_000_003])
            self.assertEqual(order.next_text(), "1000004")
            self.assertEqual(order.next_text_many(2), ["1000005", "1000006"])
            self.assertEqual(order.try_next(), 1_000_007)
            self.assertIs(ids.code("order"), order)
            self.assertIsNone(order.time_of(7))
            path, headers = server.requests[0]
        self.assertEqual(path, "/ids/order?format=range&up_to=20")
        self.assertEqual(headers["User-Agent"], f"raindrop-python/{__version__}")
        self.assertEqual([event.type for event in events], ["request", "wait", "dropped"])
        self.assertEqual((events[0].ids, events[0].up_to, events[0].url), (20, 20, server.url))
        self.assertEqual(events[2].ids, 12)

    def test_warm_up_takes_none(self) -> None:
        with Server() as server, client(server) as ids:
            ids.code("order").warm_up()
            self.assertEqual(ids.code("order").try_next(), 1_000_000)

    def test_names_are_quoted(self) -> None:
        with Server() as server, client(server, namespace="a b/c") as ids:
            ids.code("x/../y?").next()
            self.assertEqual(
                server.requests[0][0], "/ids/x%2F..%2Fy%3F?format=range&up_to=1&namespace=a%20b%2Fc"
            )

    def test_wrong_arguments(self) -> None:
        wrong: tuple[dict[str, Any], ...] = (
            {"urls": []},
            {"urls": ["ftp://a"]},
            {"urls": ["http://"]},
            {"urls": "http://a:x"},
            {"urls": "http://user@a"},
            {"urls": "http://a?b=c"},
            {"min_range": 0},
            {"min_range": 6, "max_range": 5},
            {"max_range": 2.0},
            {"max_age": 0},
            {"target": float("nan")},
            {"deadline": "2"},
            {"deadline": "2", "urls": ["http://a", "http://b"]},
            {"deadline": True},
            {"deadline": 1e300},
            {"request_timeout": 10**400},
            {"max_range": "5"},
            {"min_range": True},
            {"namespace": ""},
            {"namespace": 5},
            {"namespace": "\ud800"},
            {"token": 7},
            {"token": b"secret"},
            {"ssl_context": "ca.pem"},
            {"on_event": "print"},
            {"clock": 5},
            {"proxy": 5},
            {"proxy": "http://"},
            {"proxy": "socks5://a"},
            {"proxy": "http://user:secret"},
            {"proxy": "http://user:secret@a:99999"},
            {"urls": None},
            {"urls": 5},
            {"urls": [5]},
            {"urls": [b"http://a"]},
            {"urls": ""},
            {"urls": "http://a:0"},
            {"urls": "http://a:70000"},
            {"urls": "http://[::1"},
            {"urls": "http://a b"},
            {"urls": "http://a/b c"},
            {"urls": "http://a/é"},
            {"urls": "http://a\r\nX: y"},
            {"urls": "http://a\n"},
            {"urls": "http://a\\b"},
        )
        for options in wrong:
            with self.subTest(str(options)), self.assertRaises(RaindropError) as raised:
                Client(**{"urls": "http://a", **options})
            self.assertEqual(raised.exception.kind, "usage")
            self.assertNotIn("secret", str(raised.exception))
        with Client("http://a", max_range=5) as ids:
            order = ids.code("order")
            calls: tuple[Callable[[], object], ...] = (
                lambda: ids.code(""),
                lambda: ids.code(5),  # type: ignore[arg-type]
                lambda: ids.code([]),  # type: ignore[arg-type]
                lambda: ids.code("\ud800"),
                lambda: order.next_many(0),
                lambda: order.next_many(6),
                lambda: order.next_many(True),
                lambda: order.next(-1.0),
                lambda: order.next(float("inf")),
                lambda: order.next(1e300),
                lambda: order.next("2"),  # type: ignore[arg-type]
            )
            for call in calls:
                with self.assertRaises(RaindropError) as raised:
                    call()
                self.assertEqual(raised.exception.kind, "usage")

    def test_a_client_has_no_copy(self) -> None:
        with Client("http://a") as ids:
            for one in (ids, ids.code("order")):
                for make in (copy.copy, copy.deepcopy, pickle.dumps):
                    with self.assertRaisesRegex(TypeError, "IDs would repeat"):
                        make(one)

    def test_close_ends_calls_that_wait(self) -> None:
        with Server() as server, client(server) as ids:
            server.faults = ["hang"]
            errors: list[str] = []
            waits = threading.Event()

            def wait() -> None:
                waits.set()
                with self.assertRaises(RaindropError) as raised:
                    ids.code("order").next()
                errors.append(raised.exception.kind)

            thread = threading.Thread(target=wait)
            thread.start()
            waits.wait(PATIENCE)
            ids.close()
            thread.join(PATIENCE)
            self.assertEqual(errors, ["closed"])
            order, new = ids.code("order"), ids.code("new")
            for call in (order.next, order.warm_up, new.next, new.try_next, new.warm_up):
                with self.assertRaisesRegex(RaindropError, "closed"):
                    call()

    def test_a_caller_that_is_interrupted_leaves(self) -> None:
        events: list[Event] = []
        with Server() as server, client(server, on_event=events.append) as ids:
            server.faults = ["hang"]
            with (
                mock.patch.object(Buffer, "poll", side_effect=KeyboardInterrupt),
                self.assertRaises(KeyboardInterrupt),
            ):
                ids.code("order").next()
            waits = [event.error for event in events if event.type == "wait"]
            self.assertEqual([error and error.kind for error in waits], ["cancelled"])

    def test_forms_of_urls(self) -> None:
        for urls in (
            "HTTP://a/",
            ["https://a:8443/base/", "http://b"],
            ("http://bücher.example",),
            {"http://[::1]:8080"},
            (url for url in ["http://a", "http://a/"]),
        ):
            with self.subTest(str(urls)):
                Client(urls).close()

    def test_a_signal_handler_that_draws_while_its_thread_waits(self) -> None:
        with Server() as server, client(server, min_range=10, request_timeout=0.3) as ids:
            order, number = ids.code("order"), ids.code("number")
            number.warm_up()
            drawn: list[int | None] = []

            def handle(*_: object) -> None:
                drawn.extend([number.next(), order.try_next()])

            server.faults = ["hang"]
            before = signal.signal(signal.SIGALRM, handle)
            self.addCleanup(signal.signal, signal.SIGALRM, before)
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            self.assertIsInstance(order.next(), int)
            self.assertEqual(drawn, [1_000_000, None])

    def test_a_signal_handler_that_interrupts_a_draw_gets_an_error_at_once(self) -> None:
        with Server() as server, client(server) as ids:
            order = ids.code("order")
            with order._buffer.lock, self.assertRaisesRegex(RaindropError, "use try_next"):
                order.next()
            self.assertIsInstance(order.next(), int)

    def test_a_wake_up_at_any_line_of_a_wait(self) -> None:
        def draw(server: Server, number: int, goes_on: list[bool]) -> None:
            with client(server) as ids:
                buffer = ids.code("order")._buffer

                def wake() -> None:
                    for waiter in tuple(buffer._waiters):
                        waiter.wake()

                goes_on.append(at_line(number, wake, ids.code("order").next, "threading"))

        with Server() as server:
            for number in itertools.count(1):
                goes_on: list[bool] = []
                thread = threading.Thread(target=draw, args=(server, number, goes_on), daemon=True)
                thread.start()
                thread.join(PATIENCE)
                self.assertFalse(thread.is_alive(), f"hangs at line {number}")
                if not goes_on[0]:
                    break
            self.assertGreater(number, 50)

    def test_a_program_that_ends(self) -> None:
        program = """if True:
            import atexit, logging, sys
            logging.disable()
            from raindrop_client import Client, RaindropError
            ids = Client(sys.argv[1], min_range=10)
            def draw(): print(ids.code("order").try_next())
            def wait():
                try: print(ids.code("new").next(30.0) > 0)
                except RaindropError as error: print("interpreter shutdown" in str(error))
            atexit.register(wait)
            atexit.register(draw)
            print(ids.code("order").next())
        """
        with Server() as server:
            ended = subprocess.run(
                [sys.executable, "-X", "dev", "-W", "ignore", "-c", program, server.url],
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
                capture_output=True,
                timeout=PATIENCE,
                check=True,
                text=True,
            )
        self.assertEqual((ended.stdout, ended.stderr), ("1000000\n1000001\nTrue\n", ""))

    def test_a_client_that_is_not_referenced_is_collected(self) -> None:
        with Server() as server:
            ids = client(server)
            ids.code("order").next()
            reference = weakref.ref(ids)
            threads = [one for one in threading.enumerate() if one.name.startswith("raindrop")]
            for thread in threads:
                thread.join(PATIENCE)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ResourceWarning)
                del ids
                gc.collect()
            self.assertIsNone(reference())

    def test_an_interpreter_that_allows_no_such_threads(self) -> None:
        refused = RuntimeError("daemon threads are disabled in this (sub)interpreter")
        with Server() as server, client(server) as ids:
            with mock.patch("threading.Thread.__init__", side_effect=refused):
                with self.assertRaisesRegex(RaindropError, "daemon threads are disabled"):
                    ids.code("order").next()
            self.assertIsInstance(ids.code("order").next(), int)

    def test_no_thread_can_be_started(self) -> None:
        with Server() as server, client(server) as ids:
            with mock.patch("threading.Thread.start", side_effect=RuntimeError("no thread")):
                with self.assertRaisesRegex(RaindropError, "no thread"):
                    ids.code("order").next()
            self.assertEqual(ids.code("order").next(), 1_000_000)


class Connections(unittest.TestCase):
    def test_a_connection_is_kept(self) -> None:
        with Server() as server, client(server, max_range=5) as ids:
            for _ in range(5):
                ids.code("order").next_many(5)
            self.assertEqual(server.connections, 1)

    def test_a_connection_that_was_idle_for_a_minute_is_closed(self) -> None:
        now = 1000.0
        with (
            Server() as server,
            Server() as other,
            client(server, other, max_range=5, clock=lambda: now) as ids,
        ):
            for seconds, connections in ((0.0, 1), (59.0, 1), (61.0, 2)):
                now += seconds
                ids.code("order").next_many(5)
                self.assertEqual(server.connections, connections)
            # So long after the last draw, nothing is fetched ahead, which would race with the test.
            now += 30
            # Also those to a base URL that is not asked any more.
            server.faults = ["drop", "drop"]
            other.blocks = server.blocks
            ids.code("order").next_many(5)
            ids._transport._idle[server.url].append(kept := idle(now))
            now += 61
            ids.code("order").next_many(5)
            self.assertEqual(other.connections, 2)
            self.assertIsNone(kept.connection.sock)

    def test_a_request_that_ends_while_it_is_given_up(self) -> None:
        class Ending(Call):
            """Has a connection when it is asked the first time, and none afterwards."""

            @property
            def connection(self) -> http.client.HTTPConnection | None:
                self.__dict__["count"] = self.__dict__.get("count", 0) + 1
                is_first = self.__dict__["count"] == 1
                return http.client.HTTPConnection("127.0.0.1") if is_first else None

            @connection.setter
            def connection(self, _: object) -> None:
                pass

        Ending().end()

    def test_a_kept_connection_that_was_dropped_costs_no_error(self) -> None:
        events: list[Event] = []
        with Server() as server, client(server, max_range=5, on_event=events.append) as ids:
            server.drops_kept = True
            for _ in range(5):
                ids.code("order").next_many(5)
            self.assertEqual(
                [event.error for event in events if event.type == "request"], [None] * 5
            )
            self.assertEqual(server.connections, 5)

    def test_a_second_answer_is_nobodys(self) -> None:
        with Server() as server, client(server, max_range=5) as ids:
            server.faults = ["twice"]
            order = ids.code("order")
            self.assertEqual(order.next_many(5)[0], 1_000_000)
            self.assertEqual(order.next_many(5)[0], 2_000_000)

    def test_a_connection_with_an_early_hint_is_not_used_again(self) -> None:
        with Server() as server, client(server) as ids:
            server.faults = ["hint"]
            ids.code("order").next()
            # What comes after the hint would answer the next request.
            self.assertEqual((len(server.requests), server.connections), (2, 2))

    def test_an_address_without_a_port_has_the_usual_one(self) -> None:
        for url, port in (("http://[2001:db8::5]", 80), ("https://[2001:db8::5]", 443)):
            parts = urllib.parse.urlsplit(url)
            connection = Transport(1.0, None, None, time.monotonic)._connect(parts, None)
            self.assertEqual((connection.host, connection.port), ("2001:db8::5", port))

    def test_what_fails_is_asked_at_the_next_url(self) -> None:
        for fault in ("drop", "redirect", "cut"):
            with self.subTest(fault), Server() as server, Server() as other:
                with client(server, other) as ids:
                    server.faults = [fault]
                    ids.code("order").next()
                    self.assertEqual(len(other.requests), 1)

    def test_a_request_that_hangs_is_given_up(self) -> None:
        with Server() as server, Server() as other:
            with client(server, other, request_timeout=0.1) as ids:
                server.faults = ["hang"]
                ids.code("order").next()
                self.assertEqual(len(other.requests), 1)


def idle(since: float) -> _Idle:
    connection = http.client.HTTPConnection("127.0.0.1")
    connection.sock = socket.socket()
    return _Idle(connection, since)


class Tokens(unittest.TestCase):
    def test_text_and_function(self) -> None:
        with Server() as server:
            with client(server, token="secret") as ids:
                ids.code("order").next()
            tokens = iter(["one", "two"])
            with client(server, token=lambda: next(tokens), max_range=1) as ids:
                ids.code("order").next()
                ids.code("order").next()
            with client(server) as ids:
                ids.code("order").next()
        sent = [headers.get("Authorization") for _, headers in server.requests]
        self.assertEqual(sent, ["Bearer secret", "Bearer one", "Bearer two", None])

    def test_a_function_that_fails_or_hangs(self) -> None:
        forever = threading.Event()

        def hang() -> str:
            forever.wait()
            return ""

        def fail() -> str:
            raise LookupError("no token today")

        for token in (hang, fail, "of\nnobody", "é", lambda: 7):
            with self.subTest(str(token)), Server() as server:
                self.assertEqual(
                    first_failure(server, token=token, request_timeout=0.05), "transport"
                )
                self.assertEqual(server.requests, [])
        forever.set()


class Tasks(unittest.IsolatedAsyncioTestCase):
    async def test_ids_for_tasks(self) -> None:
        with Server() as server:
            async with AsyncClient(server.url, deadline=PATIENCE) as ids:
                order = ids.code("order")
                await order.warm_up()
                drawn = await asyncio.gather(*(order.next() for _ in range(500)))
                drawn += await order.next_many(100)
                drawn.append(int(await order.next_text()))
                drawn += [int(text) for text in await order.next_text_many(2)]
            self.assertEqual(len(set(drawn)), 603)

    async def test_cancel(self) -> None:
        events: list[Event] = []
        with Server() as server:
            server.faults = ["hang"]
            async with AsyncClient(server.url, deadline=PATIENCE, on_event=events.append) as ids:
                task = asyncio.create_task(ids.code("order").next())
                await asyncio.sleep(0)
                task.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await task
        kinds = [event.error and event.error.kind for event in events if event.type == "wait"]
        self.assertEqual(kinds, ["cancelled"])

    async def test_deadline(self) -> None:
        with Server() as server:
            server.faults = ["hang"]
            async with AsyncClient(server.url) as ids:
                with self.assertRaises(RaindropError) as raised:
                    await ids.code("order").next(0.05)
        self.assertEqual(raised.exception.kind, "deadline")

    async def test_asynchronous_token(self) -> None:
        loop = asyncio.get_running_loop()

        async def token() -> str:
            self.assertIs(asyncio.get_running_loop(), loop)
            return "awaited"

        with Server() as server:
            async with AsyncClient(server.url, token=token, deadline=PATIENCE) as ids:
                await ids.code("order").next()
            self.assertEqual(server.requests[0][1]["Authorization"], "Bearer awaited")

    async def test_asynchronous_token_that_hangs_is_cancelled(self) -> None:
        cancelled = asyncio.Event()

        async def token() -> str:
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.set()
            return ""

        with Server() as server:
            async with AsyncClient(server.url, token=token, request_timeout=0.05) as ids:
                with self.assertRaises(RaindropError):
                    await ids.code("order").next(0.05)
                await asyncio.wait_for(cancelled.wait(), PATIENCE)

    async def test_one_client_in_several_loops(self) -> None:
        with Server() as server:
            ids = AsyncClient(server.url, max_range=1, deadline=PATIENCE)

            async def draw() -> int:
                return await ids.code("order").next()

            drawn = [
                await draw(),
                *[await asyncio.to_thread(asyncio.run, draw()) for _ in range(2)],
            ]
            ids.close()
        self.assertEqual(len(set(drawn)), 3)


class Loops(unittest.TestCase):
    """A coroutine function as token, when no loop of a caller runs any more."""

    def test_token_without_the_loop_of_the_callers(self) -> None:
        async def token() -> str:
            return "awaited"

        for is_closed in (True, False):
            with self.subTest(is_closed=is_closed), Server() as server:
                ids = AsyncClient(server.url, token=token, max_range=1, deadline=PATIENCE)
                self.addCleanup(ids.close)
                loop = asyncio.new_event_loop()
                loop.run_until_complete(ids.code("order").next())
                if is_closed:
                    loop.close()
                else:
                    self.addCleanup(loop.close)
                self.assertEqual(first_of(ids), 2_000_000)

    def test_a_child_does_not_use_the_loop_of_its_parent(self) -> None:
        async def token() -> str:
            return "awaited"

        async def draw(ids: AsyncClient) -> int | None:
            await ids.code("order").next()
            with mock.patch("os.getpid", return_value=7):
                return await asyncio.to_thread(first_of, ids)

        with Server() as server:
            ids = AsyncClient(server.url, token=token, max_range=1, request_timeout=5.0)
            with mock.patch.object(asyncio, "run_coroutine_threadsafe") as scheduled:
                scheduled.side_effect = AssertionError
                ids._context.loop = asyncio.new_event_loop()
                self.addCleanup(ids._context.loop.close)
                ids._forget()
                self.assertIsNone(ids._context.loop)
            self.assertEqual(asyncio.run(draw(ids)), 2_000_000)
            ids.close()


def first_of(ids: AsyncClient) -> int | None:
    """Returns the next ID without an event loop."""
    ends = time.monotonic() + PATIENCE
    while (one := ids.code("order").try_next()) is None and time.monotonic() < ends:
        time.sleep(0.01)
    return one


def child_draws(ids: Client) -> list[int]:
    """Returns what a child draws, without waiting and then with."""
    reading, writing = os.pipe()
    if os.fork() == 0:
        order = ids.code("order")
        drawn = [order.try_next()]
        with contextlib.suppress(RaindropError):
            drawn += [order.next(PATIENCE), *order.next_many(20, PATIENCE)]
        os.write(writing, repr([one for one in drawn if one is not None]).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as file:
        found: list[int] = eval(file.read())
    os.wait()
    return found


class Forks(unittest.TestCase):
    def setUp(self) -> None:
        # Python 3.12 warns of every fork beside threads, and the client has one now and then.
        ignored = warnings.catch_warnings()
        ignored.__enter__()
        self.addCleanup(ignored.__exit__, None, None, None)
        warnings.simplefilter("ignore", DeprecationWarning)

    def test_a_child_leases_ranges_of_its_own(self) -> None:
        with Server() as server, client(server, min_range=100) as ids:
            own = [ids.code("order").next()]
            of_children = [child_draws(ids) for _ in range(3)]
            own += ids.code("order").next_many(20)
        everything = [*own, *(one for drawn in of_children for one in drawn)]
        self.assertEqual([len(drawn) for drawn in of_children], [21] * 3)
        self.assertEqual(len(set(everything)), len(everything))
        self.assertEqual(len(server.requests), 4)

    def test_a_fork_that_python_does_not_know_of(self) -> None:
        with Server() as server, client(server, min_range=100) as ids:
            order = ids.code("order")
            order.next()
            reading, writing = os.pipe()
            if ctypes.PyDLL(None).fork() == 0:
                # Python 3.13 may crash when it collects garbage in such a child.
                gc.disable()
                # Such a child of a process with threads can start none.
                with mock.patch.object(ids._context, "start"):
                    os.write(writing, repr(order.try_next()).encode())
                os._exit(0)
            os.close(writing)
            with os.fdopen(reading) as file:
                self.assertEqual(file.read(), "None")
            os.wait()
            self.assertEqual(order.try_next(), 1_000_001)

    def test_a_child_uses_no_connection_of_its_parent(self) -> None:
        with Server() as server, client(server) as ids:
            ids.code("order").next()
            with mock.patch("os.getpid", return_value=7):
                # Its buffer was never the parent's.
                ids.code("new").next()
            self.assertEqual(server.connections, 2)

    def test_a_fork_while_threads_draw(self) -> None:
        with Server() as server, client(server, max_range=50) as ids:
            ends = threading.Event()
            drawn: list[int] = []

            def draw() -> None:
                while not ends.is_set():
                    drawn.append(ids.code("order").next())

            threads = [threading.Thread(target=draw) for _ in range(3)]
            for thread in threads:
                thread.start()
            children = [one for _ in range(5) for one in child_draws(ids)]
            ends.set()
            for thread in threads:
                thread.join()
        everything = [*drawn, *children]
        self.assertEqual(len(children), 5 * 21)
        self.assertEqual(len(set(everything)), len(everything))

    def test_multiprocessing(self) -> None:
        global inherited
        with Server() as server, client(server, min_range=100) as inherited:
            own = inherited.code("order").next()
            with multiprocessing.get_context("fork").Pool(2) as pool:
                drawn = pool.map(draw_inherited, range(40))
        self.assertEqual(len({own, *drawn}), 41)


inherited: Client


def draw_inherited(_: int) -> int:
    return inherited.code("order").next(PATIENCE)


class Networks(unittest.TestCase):
    folder: Path

    @classmethod
    def setUpClass(cls) -> None:
        temporary_folder = temporary()
        cls.addClassCleanup(temporary_folder.cleanup)
        cls.folder = Path(temporary_folder.name)
        certificates(cls.folder)

    def context(self, *, has_certificate: bool = True) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.folder / "ca.pem")
        if has_certificate:
            context.load_cert_chain(self.folder / "client.pem", self.folder / "client.key")
        return context

    @contextlib.contextmanager
    def environment(self, **variables: str) -> Iterator[None]:
        names = ("http_proxy", "https_proxy", "no_proxy", "all_proxy")
        other = {name: value for name, value in os.environ.items() if name.lower() not in names}
        with mock.patch.dict(os.environ, {**other, **variables}, clear=True):
            yield

    def test_own_ca_and_client_certificate(self) -> None:
        with Server(tls_of_server(self.folder)) as server, self.environment():
            with client(server, ssl_context=self.context(), max_range=5) as ids:
                ids.code("order").next_many(5)
                ids.code("order").next_many(5)
            self.assertEqual(server.connections, 1)
            for context in (None, self.context(has_certificate=False)):
                self.assertEqual(first_failure(server, ssl_context=context), "transport")

    def test_proxy_of_the_environment(self) -> None:
        with Server() as proxy:
            there = proxy.url.replace("//", "//user:p%40ss@")
            with self.environment(http_proxy=there, no_proxy="here.example.org"):
                with Client("http://ids.example.org/base", deadline=PATIENCE) as ids:
                    ids.code("order").next()
        path, headers = proxy.requests[0]
        self.assertEqual(path, "http://ids.example.org/base/ids/order?format=range&up_to=1")
        self.assertEqual(headers["Host"], "ids.example.org")
        self.assertEqual(headers["Proxy-Authorization"], "Basic dXNlcjpwQHNz")

    def test_no_proxy_for_an_ipv6_address(self) -> None:
        parts = urllib.parse.urlsplit("http://[::1]:8080")
        transport = Transport(1.0, None, None, time.monotonic)
        for listed in ("::1", "[::1]", "a, ::1", "*"):
            with self.environment(http_proxy="http://proxy", no_proxy=listed):
                self.assertIsNone(transport._proxy_of(parts), listed)
        with self.environment(http_proxy="http://proxy", no_proxy="::2"):
            self.assertIsNotNone(transport._proxy_of(parts))

    def test_a_wrong_proxy_of_the_environment_is_named_without_its_password(self) -> None:
        events: SimpleQueue[Event] = SimpleQueue()
        with self.environment(http_proxy="socks5://user:secret@a"):
            with Client("http://a", on_event=events.put) as ids:
                ids.code("order").try_next()
                error = events.get(timeout=PATIENCE).error
        assert error
        self.assertEqual(error.kind, "transport")
        self.assertRegex(str(error), "proxy: must be http://")
        self.assertNotIn("secret", str(error))

    def test_no_proxy(self) -> None:
        with Server() as proxy, Server() as server:
            with self.environment(http_proxy=proxy.url, no_proxy="127.0.0.1"):
                with client(server) as ids:
                    ids.code("order").next()
            with self.environment(http_proxy=proxy.url), client(server, proxy="") as ids:
                ids.code("order").next()
        self.assertEqual((len(proxy.requests), len(server.requests)), (0, 2))

    def test_tunnel_through_a_proxy(self) -> None:
        with Server(tls_of_server(self.folder), is_proxy=True) as proxy, self.environment():
            options: dict[str, Any] = {"ssl_context": self.context(), "proxy": proxy.url}
            with Client("https://ids.example.org", deadline=PATIENCE, **options) as ids:
                ids.code("order").next()
        self.assertEqual(
            [path for path, _ in proxy.requests],
            ["ids.example.org:443", "/ids/order?format=range&up_to=1"],
        )
        self.assertNotIn("Authorization", proxy.requests[0][1])

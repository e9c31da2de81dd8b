"""Servers that fork after the application was loaded: gunicorn with --preload, Celery's prefork."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import unittest
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from celery import Celery

from . import peers

ROOT = Path(__file__).parent.parent
PROGRAMS = Path(sys.executable).parent
CALLS = 400


class Servers(unittest.TestCase):
    def setUp(self) -> None:
        stack = contextlib.ExitStack()
        self.addCleanup(stack.close)
        self.of = stack.enter_context(peers.folder())
        self.node = stack.enter_context(peers.Node(self.of))
        path = f"{ROOT / 'src'}{os.pathsep}{ROOT}"
        self.environment = {"IDS_URL": self.node.url, "PYTHONPATH": path}

    def check(self, answers: list[dict[str, Any]], processes: int) -> None:
        ids = [*answers[0]["own"], *(one for answer in answers for one in answer["ids"])]
        self.assertGreaterEqual(len({answer["process"] for answer in answers}), processes)
        self.assertEqual(len(set(ids)), len(ids))
        self.assertEqual(len(ids), 10 + 25 * len(answers))

    def test_gunicorn_with_preload(self) -> None:
        port = peers.free_port()
        url = f"http://127.0.0.1:{port}/"
        options = ("--preload", "--workers", "3", "--threads", "4", "--bind", f"127.0.0.1:{port}")
        command = [str(PROGRAMS / "gunicorn"), *options, "integrations.application:web"]
        found: list[dict[str, Any]] = []

        def call(_: int = 0) -> None:
            with contextlib.suppress(OSError):
                with urllib.request.urlopen(url, timeout=peers.PATIENCE) as response:
                    found.append(json.load(response))

        with peers.Process(
            command, self.of, lambda: peers.answers(url), environment=self.environment
        ):
            with ThreadPoolExecutor(8) as pool:
                list(pool.map(call, range(CALLS)))
                # The master forks another worker, from the same memory.
                os.kill(found[-1]["process"], signal.SIGKILL)
                list(pool.map(call, range(CALLS)))
        self.assertGreater(len(found), CALLS)
        self.check(found, 3)

    def test_celery_prefork(self) -> None:
        for name in ("queue", "results"):
            (self.of / name).mkdir()
        folders = {"QUEUE": str(self.of / "queue"), "RESULTS": str(self.of / "results")}
        options = (
            "--pool",
            "prefork",
            "--concurrency",
            "3",
            "--without-gossip",
            "--without-mingle",
        )
        application = ("-A", "integrations.application:worker", "worker", "--loglevel", "INFO")
        command = [str(PROGRAMS / "celery"), *application, *options]
        environment = {**self.environment, **folders}
        sender = Celery(broker="filesystem://", backend=f"file://{folders['RESULTS']}")
        transport = dict.fromkeys(("data_folder_in", "data_folder_out"), folders["QUEUE"])
        sender.conf.update(broker_transport_options=transport)
        with peers.Process(command, self.of, lambda: True, environment=environment):
            results = [sender.send_task("draw") for _ in range(CALLS // 2)]
            found = [result.get(timeout=peers.PATIENCE) for result in results]
        # Each process of the pool is replaced after 20 tasks.
        self.check(found, 6)

"""What gunicorn and Celery load once, before they fork: a client that has IDs in its buffer."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from typing import Any

from celery import Celery

from raindrop_client import Client

client = Client(os.environ["IDS_URL"], min_range=1000, deadline=30.0)
order = client.code("order")
order.warm_up()
# Drawn by the process that forks.
own = order.next_many(10)


def draw() -> dict[str, Any]:
    return {"process": os.getpid(), "ids": order.next_many(25), "own": own}


def web(
    _environ: dict[str, Any], start: Callable[[str, list[tuple[str, str]]], object]
) -> Iterable[bytes]:
    body = json.dumps(draw()).encode()
    start("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
    return [body]


worker = Celery()
worker.conf.update(
    broker_url="filesystem://",
    broker_transport_options={
        "data_folder_in": os.environ.get("QUEUE", ""),
        "data_folder_out": os.environ.get("QUEUE", ""),
    },
    result_backend=f"file://{os.environ.get('RESULTS', '')}",
    broker_connection_retry_on_startup=True,
    worker_max_tasks_per_child=20,
)


@worker.task(name="draw")
def draw_in_worker() -> dict[str, Any]:
    return draw()

"""Draws IDs with many threads of several processes from two nodes, which are killed in turn.

    RAINDROP=… python -m integrations.load --threads 64 --processes 4 --ids 1000000

It ends with an error if two IDs are equal. Calls that failed are counted and repeated.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
import time
from array import array
from pathlib import Path

from raindrop_client import Client, Event, RaindropError

from . import peers


def draw(client: Client, threads: int, each: int, seconds: float, file: Path) -> None:
    """Draws in the threads of one process, and writes the IDs and what it came to."""
    order = client.code("order")
    drawn: list[array[int]] = []
    failed = [0] * threads
    began = time.monotonic()

    def run(index: int) -> None:
        own = array("q")
        while len(own) < each:
            try:
                # One by one and many at a time.
                if len(own) % 10 or each - len(own) < 10:
                    own.append(order.next())
                else:
                    own.extend(order.next_many(10))
            except RaindropError:
                failed[index] += 1
            if len(own) % 20 == 0:
                # At an even rate, so that every kill falls into it.
                time.sleep(max(0.0, began + seconds * len(own) / each - time.monotonic()))
        drawn.append(own)

    workers = [threading.Thread(target=run, args=(index,)) for index in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    with file.open("wb") as output:
        for own in drawn:
            own.tofile(output)
    print(
        f"process {os.getpid()}: {sum(map(len, drawn))} IDs, {sum(failed)} calls failed", flush=True
    )


def main() -> int:
    parser = argparse.ArgumentParser(description="Compares the IDs of many threads.")
    parser.add_argument("--threads", type=int, default=64)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--ids", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=20.0)
    arguments = parser.parse_args()
    each = arguments.ids // (arguments.threads * arguments.processes)
    requests: list[Event] = []
    with peers.folder() as of, peers.Node(of) as first, peers.Node(of) as second:
        nodes = (first, second)
        client = Client([node.url for node in nodes], on_event=requests.append, max_range=20_000)
        # The processes are forked from one that has IDs.
        own = client.code("order").next_many(100)
        children = []
        for number in range(arguments.processes):
            file = of / f"ids-{number}"
            child = os.fork()
            if child == 0:
                draw(client, arguments.threads, each, arguments.seconds, file)
                os._exit(0)
            children.append((child, file))
        kills = 0
        running = {child for child, _ in children}
        while running:
            time.sleep(1)
            nodes[kills % 2].restart()
            kills += 1
            for child in tuple(running):
                if os.waitpid(child, os.WNOHANG)[0]:
                    running.remove(child)
        ids = array("q", own)
        for _, file in children:
            ids.frombytes(file.read_bytes())
        client.close()
    equal = len(ids) - len(set(ids))
    print(f"{len(ids)} IDs of {arguments.processes} processes, {kills} kills: {equal} equal")
    expected = arguments.processes * arguments.threads * each + len(own)
    return 0 if equal == 0 and len(ids) == expected else 1


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Requests IDs of two nodes until standard input ends, and reports as JSON how that went.

    tests/packages/load.py PREFERRED OTHER

As a load balancer does, it asks the other node if the preferred one refuses the connection, breaks
it or answers 503. A request fails if both do.
"""

import json
import sys
import threading
import urllib.error
import urllib.request

THREADS = 4


class Load:
    def __init__(self, nodes):
        self.nodes = nodes
        self.lock = threading.Lock()
        self.ended = threading.Event()
        self.ids, self.answered, self.failed = [], [0] * len(nodes), []

    def request(self):
        errors = []
        for index, node in enumerate(self.nodes):
            try:
                with urllib.request.urlopen(f"{node}/id/order", timeout=60) as answer:
                    issued = json.load(answer)["id"]
            except (OSError, ValueError) as error:
                errors.append(f"{node}: {error}")
                continue
            with self.lock:
                self.ids.append(issued)
                self.answered[index] += 1
            return
        with self.lock:
            self.failed.append(errors)

    def run(self):
        while not self.ended.is_set():
            self.request()


def main(nodes):
    load = Load(nodes)
    threads = [threading.Thread(target=load.run) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    sys.stdin.read()
    load.ended.set()
    for thread in threads:
        thread.join()
    repeated = len(load.ids) - len(set(load.ids))
    by_node = dict(zip(nodes, load.answered))
    print(json.dumps({"answered": by_node, "repeated": repeated, "failed": len(load.failed)}))
    for errors in load.failed[:5]:
        print(errors, file=sys.stderr)
    # Both nodes must have had their part, or nothing was tried.
    return 1 if load.failed or repeated or not all(load.answered) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

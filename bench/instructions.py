#!/usr/bin/env python3
"""Counts what a request `GET /id/<code>` costs the server under callgrind: user instructions and heap
allocations, which do not depend on the processor or on other work of the machine.

The client is not under callgrind. It keeps connections of HTTP/1 open, sends one request on each and
reads the answers. After as many requests as a warm-up, callgrind counts N requests, and then 2 N; the
difference is divided by N, so that neither the start nor the end of a count is in the result.

Prints a line for each target, or with --json one object. Exits with 1 if a target is not
met.
"""

import argparse
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

# The functions that allocate: of the C library, and of jemalloc as Rust calls it.
ALLOCATORS = re.compile(r"(_rjem_)?(malloc|calloc|realloc|mallocx|rallocx|posix_memalign|aligned_alloc)")
TARGETS = {"instructions": 18_500, "allocations": 18}
START_WITHIN = 600

# One worker, as in `make bench-http`; and a store that takes no time, since no request needs it.
ENVIRONMENT = {
    "TOKIO_WORKER_THREADS": "1",
    "RAINDROP__STORE__URL": "memory:",
    "RAINDROP__WORKER__ID": "1",
}


class Server:
    """A program under callgrind, with a folder of its own."""

    def __init__(self, program, folder):
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port = probe.getsockname()[1]
        self.folder = folder
        environment = {"PATH": os.environ["PATH"], **ENVIRONMENT}
        self.process = subprocess.Popen(
            ["valgrind", "--tool=callgrind", "--fair-sched=try", "--compress-strings=no", "--compress-pos=no",
             f"--callgrind-out-file={folder}/counts", f"--log-file={folder}/valgrind.log", program,
             "--listen", f"127.0.0.1:{self.port}"],
            cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()

    def connect(self):
        deadline = time.monotonic() + START_WITHIN
        while True:
            try:
                connection = socket.create_connection(("127.0.0.1", self.port), timeout=600)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                return connection
            except ConnectionRefusedError:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    self.process.kill()
                    sys.exit(f"the server did not start: {self.process.communicate()[1].decode()}")
                time.sleep(0.1)

    def dump(self, name):
        """Writes what was counted since the last dump; returns the file."""
        before = set(self.folder.glob("counts.*"))
        vgdb = ["vgdb", f"--pid={self.process.pid}", "dump", name]
        subprocess.run(vgdb, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        (new,) = set(self.folder.glob("counts.*")) - before
        return new


def answer(connection):
    text = b""
    while (end := text.find(b"\r\n\r\n")) < 0:
        text += received(connection)
    head, body = text[:end].decode().lower(), text[end + 4:]
    length = int(re.search(r"\ncontent-length: (\d+)", head)[1])
    while len(body) < length:
        body += received(connection)
    return int(head.split()[1]), body


def received(connection):
    part = connection.recv(65536)
    return part or sys.exit("the server closed a connection")


def ask(connections, path, count):
    """Sends so many requests, one at a time on each connection; returns the bodies, or None if an answer
    was not 200."""
    sent = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: */*\r\n\r\n".encode()
    bodies = set()
    for first in range(0, count, len(connections)):
        busy = connections[: count - first]
        for connection in busy:
            connection.sendall(sent)
        for status, body in [answer(connection) for connection in busy]:
            if status != 200:
                return None
            bodies.add(body)
    return bodies


def counts(file):
    """Reads the instructions and allocations of a dump."""
    instructions = allocations = 0
    called = ""
    with open(file, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if line.startswith("cfn="):
                called = line[4:].strip()
            elif line.startswith("calls=") and ALLOCATORS.fullmatch(called):
                allocations += int(line[6:].split()[0])
            elif line.startswith(("totals:", "summary:")):
                instructions = int(line.split()[1])
    return {"instructions": instructions, "allocations": allocations}


def measure(program, options):
    """Returns what a request costs, by kind of cost."""
    path = "/id/order"
    with tempfile.TemporaryDirectory(prefix="raindrop-instructions-") as folder:
        folder = Path(folder)
        with Server(program, folder) as server:
            probe = server.connect()
            deadline = time.monotonic() + START_WITHIN
            while ask([probe], path, 1) is None:
                if time.monotonic() > deadline:
                    sys.exit(f"{path} was not answered with 200 within {START_WITHIN} s")
                time.sleep(0.1)
            connections = [server.connect() for _ in range(options.connections)]
            found = []
            for name, count in (("warm-up", 1), ("once", 1), ("twice", 2)):
                count *= options.requests
                bodies = ask(connections, path, count)
                if bodies is None or len(bodies) != count:
                    sys.exit(f"{count} requests did not get as many IDs")
                file = server.dump(name)
                found.append(counts(file))
                if name == "twice" and options.keep:
                    Path(options.keep).write_bytes(file.read_bytes())
            _, once, twice = found
            return {kind: (twice[kind] - once[kind]) / options.requests for kind in once}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("raindrop", help="the program, with symbols")
    parser.add_argument("--requests", type=int, default=2048, help="how many (N)")
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--json", action="store_true", help="for scripts")
    parser.add_argument("--keep", help="a file for the counts of 2 N, for callgrind_annotate")
    options = parser.parse_args()

    found = measure(os.path.realpath(options.raindrop), options)
    is_met = {kind: found[kind] <= limit for kind, limit in TARGETS.items()}
    if options.json:
        print(json.dumps({"per_request": found, "targets": TARGETS, "met": is_met}))
    else:
        for kind, limit in TARGETS.items():
            met = "met" if is_met[kind] else "not met"
            what = f"/id, {options.connections} connections, {kind} per request"
            print(f"target: {what}: at most {limit} | {found[kind]:.1f} | {met}")
    sys.exit(0 if all(is_met.values()) else 1)


if __name__ == "__main__":
    main()

"""Services of the built binary, on free ports, each with an SQLite file of its own."""

import contextlib
import hashlib
import os
import pathlib
import re
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

BINARY = os.environ["RAINDROP"]
TOKEN = "raindrop_of_the_console_tests_0123456789"
PATIENCE = 60

CONFIG = """
[http]
listen = "127.0.0.1:{port}"
{http}

[store]
url = "sqlite://{folder}/raindrop.db"

[worker]
holder = "{holder}"

[namespaces.js]
layout.preset = "js-safe"

[namespaces.numbers]
mode = "segment"
segment.auto_create = true
segment.min_step = 500

[[code]]
name = "bound"
namespace = "js"

[[code]]
name = "invoice"
namespace = "numbers"
prefix = "INV-"
"""


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def get(url, token=None):
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=30)


def claimed(service):
    """How many IDs were claimed, of any code."""
    text = get(f"{service.url}/metrics").read().decode()
    return sum(map(int, re.findall(r"^raindrop_ids_issued_total\{.*\} (\d+)$", text, re.M)))


class Service:
    """A service with a folder, which can be stopped and started again at the same address."""

    def __init__(self, folder, http="", tokens=None, holder="10.0.0.7:8080#orders-1"):
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.folder = folder
        self.config = pathlib.Path(folder, f"{self.port}.toml")
        text = CONFIG.format(port=self.port, folder=folder, http=http, holder=holder)
        if tokens:
            file = pathlib.Path(folder, "tokens.toml")
            file.write_text(tokens)
            text += f'\n[auth]\ntokens_file = "{file}"\n'
        self.config.write_text(text)
        self.process = None

    def start(self):
        own = {name: value for name, value in os.environ.items() if not name.startswith("RAINDROP_")}
        self.log = open(pathlib.Path(self.folder, f"{self.port}.log"), "w", encoding="utf-8")
        self.process = subprocess.Popen(
            [BINARY, "serve", "--config", str(self.config)],
            cwd=self.folder,
            env=own,
            stdout=self.log,
            stderr=self.log,
        )
        end = time.monotonic() + PATIENCE
        while not self._is_ready():
            if self.process.poll() is not None or time.monotonic() > end:
                log = pathlib.Path(self.log.name).read_text(encoding="utf-8")
                self.stop()
                raise AssertionError(f"the service is not ready: {log}")
            time.sleep(0.05)
        return self

    def _is_ready(self):
        try:
            return get(f"{self.url}/readyz").status == 200
        except (urllib.error.URLError, OSError):
            return False

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.log.close()


def token_file(**more):
    """A token file with one entry for TOKEN."""
    text = f'[[token]]\nname = "test"\nhash = "sha256:{hashlib.sha256(TOKEN.encode()).hexdigest()}"\n'
    return text + "".join(f"{name} = {value}\n" for name, value in more.items())


@contextlib.contextmanager
def serving(**settings):
    with tempfile.TemporaryDirectory(prefix="raindrop-console-") as folder:
        service = Service(folder, **settings)
        service.start()
        try:
            yield service
        finally:
            service.stop()

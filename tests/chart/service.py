"""A service of the built binary, on a free port, with an SQLite file of its own."""

import contextlib
import os
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

BINARY = os.environ["RAINDROP"]


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def _is_ready(url):
    try:
        with urllib.request.urlopen(f"{url}/readyz", timeout=5) as answer:
            return answer.status == 200
    except (urllib.error.URLError, OSError):
        return False


@contextlib.contextmanager
def served(config=None):
    """Serves, with the configuration file of this path, and yields the address."""
    with tempfile.TemporaryDirectory(prefix="raindrop-chart-") as folder:
        url = f"http://127.0.0.1:{free_port()}"
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("RAINDROP_")},
            "RAINDROP__HTTP__LISTEN": url.removeprefix("http://"),
            "RAINDROP__HTTP__DRAIN_DELAY": "0s",
            "RAINDROP__STORE__URL": f"sqlite://{folder}/raindrop.db",
            # Metrics of both modes.
            "RAINDROP__NAMESPACES__PLAIN__MODE": "segment",
            "RAINDROP__NAMESPACES__PLAIN__SEGMENT__AUTO_CREATE": "true",
        }
        if config:
            environment["RAINDROP__HTTP__ADMIN_LISTEN"] = f"127.0.0.1:{free_port()}"
        arguments = ["--config", config] if config else []
        with open(f"{folder}/log", "w+") as log:
            process = subprocess.Popen(
                [BINARY, "serve", *arguments], env=environment, cwd=folder, stderr=log, stdout=log
            )
            try:
                deadline = time.monotonic() + 60
                while not _is_ready(url):
                    if process.poll() is not None or time.monotonic() > deadline:
                        log.seek(0)
                        raise AssertionError(f"raindrop does not serve: {log.read()}")
                    time.sleep(0.05)
                yield url
            finally:
                process.send_signal(signal.SIGTERM)
                process.wait(60)

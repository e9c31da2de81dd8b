"""Private servers for the tests, on free ports: nodes of the service, PostgreSQL, MariaDB."""

from __future__ import annotations

import atexit
import contextlib
import functools
import glob
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

HERE = Path(__file__).parent
PATIENCE = 60.0

CONFIG = """
[http]
listen = "127.0.0.1:{port}"

[store]
url = "sqlite://{store}"

[worker]
holder = "python-tests-{port}"

[[code]]
name = "order"
prefix = "ORD-"
"""


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as response:
            return bool(response.status == 200)
    except OSError:
        return False


AnyProcess = TypeVar("AnyProcess", bound="Process")


class Process:
    """A program that runs until the end of the block, with its output in a file of its folder."""

    def __init__(
        self,
        command: Sequence[str],
        folder: Path,
        is_ready: Callable[[], bool],
        *,
        ends_by: signal.Signals = signal.SIGTERM,
        user: str | None = None,
        environment: dict[str, str] | None = None,
    ) -> None:
        self.command = command
        self.folder = folder
        self.is_ready = is_ready
        self.ends_by = ends_by
        self.user = user
        clean = {name: value for name, value in os.environ.items() if name[:8] != "RAINDROP"}
        self.environment = {**clean, **(environment or {})}
        self.child: subprocess.Popen[bytes] | None = None

    def __enter__(self: AnyProcess) -> AnyProcess:
        log = self.folder / f"{Path(self.command[0]).name}-{id(self)}.log"
        with log.open("ab") as output:
            self.child = subprocess.Popen(
                self.command,
                cwd=self.folder,
                stdout=output,
                stderr=output,
                user=self.user,
                env=self.environment,
                # A process group, so that what it has forked can be ended, too.
                start_new_session=True,
            )
        ends = time.monotonic() + PATIENCE
        while not self.is_ready():
            if self.child.poll() is not None or time.monotonic() > ends:
                self.end(signal.SIGKILL)
                raise RuntimeError(f"{self.command[0]} is not ready: {log.read_text()[-2000:]}")
            time.sleep(0.05)
        return self

    def end(self, by: signal.Signals) -> None:
        if self.child is not None:
            self.child.send_signal(by)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.child.wait(timeout=PATIENCE)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.child.pid, signal.SIGKILL)
            self.child.wait()

    def __exit__(self, *_: object) -> None:
        self.end(self.ends_by)


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="raindrop-python-") as path:
        yield Path(path)


class Node(Process):
    """A node of the service. Those of one folder share its store."""

    def __init__(self, of: Path) -> None:
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        config = of / f"{port}.toml"
        config.write_text(CONFIG.format(port=port, store=of / "raindrop.db"))
        binary = str(Path(os.environ["RAINDROP"]).resolve())
        command = [binary, "serve", "--config", str(config)]
        super().__init__(command, of, lambda: answers(f"{self.url}/readyz"))

    def restart(self) -> None:
        self.end(signal.SIGKILL)
        self.__enter__()


def postgres(of: Path) -> Process:
    """Returns a PostgreSQL without passwords; `port` of it is its last argument."""
    programs = max(glob.glob("/usr/lib/postgresql/*/bin"), key=lambda path: int(path.split("/")[4]))
    user = "postgres" if os.getuid() == 0 else None
    data = of / "postgres"
    data.mkdir()
    if user is not None:
        shutil.chown(data, user)
        of.chmod(0o755)
    options = ["-U", "postgres", "-A", "trust", "-N", "--no-locale", "-E", "UTF8"]
    initdb = [f"{programs}/initdb", "-D", str(data), *options]
    subprocess.run(initdb, cwd=data, user=user, check=True, capture_output=True)
    port = str(free_port())
    settings = ("-c", "listen_addresses=127.0.0.1", "-c", f"unix_socket_directories={data}")
    command = [f"{programs}/postgres", "-D", str(data), *settings, "-c", "fsync=off", "-p", port]
    ask = [f"{programs}/pg_isready", "-h", "127.0.0.1", "-p", port]
    # SIGQUIT: nothing of it is kept, so it need not shut down in order.
    return Process(
        command,
        of,
        lambda: subprocess.run(ask, capture_output=True).returncode == 0,
        ends_by=signal.SIGQUIT,
        user=user,
    )


def mariadb(of: Path) -> Process:
    """Returns a MariaDB without passwords; `port` of it is its last argument."""
    data = f"--datadir={of / 'mariadb'}"
    user = ["--user=root"] if os.getuid() == 0 else []
    install = [
        "mariadb-install-db",
        "--no-defaults",
        data,
        "--auth-root-authentication-method=normal",
    ]
    small = ["--skip-name-resolve", "--innodb-log-file-size=16M", "--innodb-flush-method=nosync"]
    subprocess.run([*install, "--skip-test-db", *small, *user], check=True, capture_output=True)
    sock, port = f"--socket={of / 'mariadb.sock'}", str(free_port())
    own = [data, sock, f"--tmpdir={of}", f"--pid-file={of / 'mariadb.pid'}", *user]
    run = ["--bind-address=127.0.0.1", "--skip-log-bin", "--performance-schema=0", *small]
    quick = ["--innodb-flush-log-at-trx-commit=2", "--innodb-buffer-pool-size=64M"]
    command = [shutil.which("mariadbd") or "mariadbd", "--no-defaults", *own, *run, *quick]
    create = [
        "mariadb",
        "--no-defaults",
        sock,
        "-u",
        "root",
        "-e",
        "CREATE DATABASE IF NOT EXISTS application",
    ]
    return Process(
        [*command, f"--port={port}"],
        of,
        lambda: subprocess.run(create, capture_output=True).returncode == 0,
        ends_by=signal.SIGKILL,
    )


@dataclass(frozen=True)
class Peers:
    """The service and the ports of two databases, which all modules of tests share."""

    url: str
    postgres: int
    mariadb: int


@functools.cache
def shared() -> Peers:
    stack = contextlib.ExitStack()
    atexit.register(stack.close)
    of = stack.enter_context(folder())
    node = stack.enter_context(Node(of))
    databases = [stack.enter_context(make(of)) for make in (postgres, mariadb)]
    return Peers(node.url, *map(port_of, databases))


def port_of(process: Process) -> int:
    return int(process.command[-1].rpartition("=")[2])

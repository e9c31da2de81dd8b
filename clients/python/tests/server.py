"""A server of IDs on a free port, whose answers a test commands."""

from __future__ import annotations

import itertools
import json
import ssl
import subprocess
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from .support import LAYOUT, one_range


class Handler(BaseHTTPRequestHandler):
    """Answers as the service does, or as `server.faults` says, one for each request."""

    protocol_version = "HTTP/1.1"
    server: Server

    def setup(self) -> None:
        super().setup()
        self.count = 0
        with self.server.lock:
            self.server.connections += 1

    def do_POST(self) -> None:
        self.count += 1
        with self.server.lock:
            self.server.requests.append((self.path, dict(self.headers)))
            fault = self.server.faults.pop(0) if self.server.faults else None
        if fault == "drop" or (self.server.drops_kept and self.count > 1):
            self.close_connection = True
        elif fault == "hang":
            self.server.released.wait()
        elif fault == "redirect":
            self.answer(307, b"moved", "text/html", "/elsewhere")
        elif fault == "cut":
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n")
            self.wfile.write(b'Content-Length: 500\r\n\r\n{"ranges":[')
            self.close_connection = True
        elif fault == "hint":
            self.wfile.write(b"HTTP/1.1 103 Early Hints\r\n\r\n")
        else:
            self.answer(200, self.ids(), "application/json", times=2 if fault == "twice" else 1)

    def do_CONNECT(self) -> None:
        """Becomes the service itself, with TLS, in place of a tunnel to it."""
        with self.server.lock:
            self.server.requests.append((self.path, dict(self.headers)))
        self.send_response(200)
        self.end_headers()
        assert self.server.tls
        self.connection = self.server.tls.wrap_socket(self.connection, server_side=True)
        self.rfile = self.connection.makefile("rb")
        self.wfile = self.connection.makefile("wb", buffering=0)
        self.close_connection = False

    def ids(self) -> bytes:
        size = int(parse_qs(urlsplit(self.path).query)["up_to"][0])
        with self.server.lock:
            first = next(self.server.blocks) * 1_000_000
        fields = {"layout": LAYOUT, **self.server.fields, "ranges": [one_range(first, size)]}
        return json.dumps(fields).encode()

    def answer(
        self, status: int, body: bytes, content_type: str, location: str = "", times: int = 1
    ) -> None:
        head = f"HTTP/1.1 {status} \r\nContent-Type: {content_type}\r\nLocation: {location}\r\n"
        whole = f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
        # At once, so that a client that reads the first one has the second one, too.
        self.wfile.write(whole * times)

    def finish(self) -> None:
        super().finish()
        self.connection.close()

    def log_message(self, *_: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, tls: ssl.SSLContext | None = None, *, is_proxy: bool = False) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.tls = tls
        self.lock = threading.Lock()
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.connections = 0
        self.faults: list[str] = []
        self.drops_kept = False
        self.released = threading.Event()
        self.blocks = itertools.count(1)
        # What answers have besides ranges.
        self.fields: dict[str, Any] = {}
        scheme = "http"
        if tls is not None and not is_proxy:
            self.socket = tls.wrap_socket(self.socket, server_side=True)
            scheme = "https"
        self.url = f"{scheme}://127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Says nothing of clients that went away, or whose certificate is refused."""

    def __exit__(self, *of: Any) -> None:
        self.released.set()
        self.shutdown()
        super().__exit__(*of)


def certificates(folder: Path) -> None:
    """Makes a CA, and certificates of it for the server and a client, by openssl."""

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    new = ("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    of_ca = ("-addext", "keyUsage=critical,keyCertSign", "-subj", "/CN=ca")
    openssl(*new, "-x509", "-days", "2", *of_ca, "-keyout", "ca.key", "-out", "ca.pem")
    names = "subjectAltName=IP:127.0.0.1,DNS:ids.example.org\n"
    (folder / "names").write_text(f"{names}authorityKeyIdentifier=keyid\n")
    for name in ("server", "client"):
        openssl(*new, "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr")
        sign = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2")
        openssl(
            "x509", "-req", "-in", f"{name}.csr", *sign, "-extfile", "names", "-out", f"{name}.pem"
        )


def tls_of_server(folder: Path) -> ssl.SSLContext:
    """Returns the settings of a server that lets in clients with a certificate of the CA alone."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=folder / "ca.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(folder / "server.pem", folder / "server.key")
    return context


def temporary() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="raindrop-python-")

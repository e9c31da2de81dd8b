"""A service of the built binary, on a free port, with an SQLite file of its own."""

import contextlib
import hashlib
import os
import pathlib
import signal
import socket
import ssl
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

BINARY = os.environ["RAINDROP"]
# The token that a secured service accepts.
TOKEN = "of-the-chart-tests"
# What openssl needs to write a revocation list.
AUTHORITY = """
[ca]
default_ca = authority
[authority]
database = index.txt
default_md = sha256
default_crl_days = 30
crl_extensions = extensions
[extensions]
authorityKeyIdentifier = keyid
"""


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def ask(url, path):
    """Asks a service that this file starts; its certificate is its own."""
    request = urllib.request.Request(url + path, headers={"Authorization": f"Bearer {TOKEN}"})
    return urllib.request.urlopen(request, timeout=10, context=ssl._create_unverified_context())


def _is_ready(url):
    try:
        with ask(url, "/readyz") as answer:
            return answer.status == 200
    except (urllib.error.URLError, OSError):
        return False


def _secured(folder):
    """Makes a certificate, which is also the authority of clients, its revocation list and a token file; the
    settings that use them."""
    names = ("tls.crt", "tls.key", "crl.pem", "tokens.toml")
    certificate, key, revoked, tokens = (f"{folder}/{name}" for name in names)
    pathlib.Path(f"{folder}/ca.cnf").write_text(AUTHORITY)
    pathlib.Path(f"{folder}/index.txt").touch()
    for command in (
        ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
        + ["-days", "365", "-subj", "/CN=test", "-addext", "subjectAltName=DNS:ids.example.org"]
        + ["-keyout", key, "-out", certificate],
        ["ca", "-config", "ca.cnf", "-gencrl", "-cert", certificate, "-keyfile", key, "-out", revoked],
    ):
        subprocess.run(["openssl", *command], cwd=folder, check=True, capture_output=True)
    token_hash = hashlib.sha256(TOKEN.encode()).hexdigest()
    pathlib.Path(tokens).write_text(
        f'[[token]]\nname = "test"\nhash = "sha256:{token_hash}"\nexpires = "2999-01-01"\n'
    )
    return {
        "RAINDROP__HTTP__TLS__CERT_FILE": certificate,
        "RAINDROP__HTTP__TLS__KEY_FILE": key,
        "RAINDROP__HTTP__TLS__CLIENT_CA_FILE": certificate,
        "RAINDROP__HTTP__TLS__CLIENT_CRL_FILE": revoked,
        "RAINDROP__AUTH__TOKENS_FILE": tokens,
    }


@contextlib.contextmanager
def served(config=None, secured=False):
    """Serves, with the configuration file of this path, and yields the address. If `secured`, with TLS
    and for requests with TOKEN alone."""
    with tempfile.TemporaryDirectory(prefix="raindrop-chart-") as folder:
        url = f"http{'s' if secured else ''}://127.0.0.1:{free_port()}"
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("RAINDROP_")},
            "RAINDROP__HTTP__LISTEN": url.partition("://")[2],
            "RAINDROP__HTTP__DRAIN_DELAY": "0s",
            "RAINDROP__STORE__URL": f"sqlite://{folder}/raindrop.db",
            # Metrics of both modes.
            "RAINDROP__NAMESPACES__PLAIN__MODE": "segment",
            "RAINDROP__NAMESPACES__PLAIN__SEGMENT__AUTO_CREATE": "true",
        }
        if secured:
            environment.update(_secured(folder))
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

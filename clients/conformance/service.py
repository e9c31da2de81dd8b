"""The real service: nodes that share one store and one file of tokens."""

import hashlib
import json
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request

BINARY = os.environ.get("RAINDROP", "")
TOKEN = "of-the-conformance-suite"
# How long a node may take until it is ready, or until it has read the tokens again.
PATIENCE_S = 60

CONFIG = """
[http]
listen = "127.0.0.1:{port}"

[store]
url = "sqlite://{store}"

[worker]
holder = "conformance-{label}-{name}"

[auth]
tokens_file = "{folder}/tokens.toml"

[namespaces.numbers]
mode = "segment"

[[code]]
name = "order"
prefix = "ORD-"

[[code]]
name = "number"
namespace = "numbers"
increment = 2
remainder = 1

[[code]]
name = "invoice"
namespace = "numbers"
prefix = "INV-"
"""

# The codes that the scenarios use. `space`: within what their IDs are unique.
CODES = {
    "plain": {"space": "default", "prefix": ""},
    "order": {"space": "default", "prefix": "ORD-"},
    "other": {"space": "default", "prefix": ""},
    "number": {"space": "numbers/number", "prefix": "", "increment": 2},
    "invoice": {"space": "numbers/invoice", "prefix": "INV-", "increment": 1},
}


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Node:
    """One process of the service, always at the same port."""

    def __init__(self, name, folder, store):
        self.name = name
        self.folder = folder
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.config = folder / f"{name}.toml"
        self.config.write_text(CONFIG.format(port=self.port, folder=folder, store=store, label=folder.name, name=name))
        self.process = None

    def start(self):
        own = {name: value for name, value in os.environ.items() if not name.startswith("RAINDROP_")}
        with open(self.folder / f"{self.name}.log", "a", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                [BINARY, "serve", "--config", str(self.config)], cwd=self.folder, env=own, stdout=log, stderr=log
            )

    def wait_until_ready(self):
        ends = time.monotonic() + PATIENCE_S
        while self.status("GET", "/readyz")[0] != 200:
            if self.process.poll() is not None or time.monotonic() > ends:
                log = (self.folder / f"{self.name}.log").read_text(encoding="utf-8")
                raise RuntimeError(f"node {self.name} is not ready: {log[-2000:]}")
            time.sleep(0.05)

    def kill(self):
        """Ends the process as a power failure would."""
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def status(self, method, path, token=TOKEN):
        """Asks the node without a proxy; returns the status and the JSON of its answer."""
        request = urllib.request.Request(
            self.url + path, method=method, headers={"Authorization": f"Bearer {token}"}
        )
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return answer.status, json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as refused:
            return refused.code, None
        except (OSError, ValueError):
            return 0, None


class Service:
    """The nodes `a` and `b`, which share the store with those of other services."""

    def __init__(self, folder, store):
        self.tokens = folder / "tokens.toml"
        self.token = TOKEN
        self.write_tokens(TOKEN)
        self.nodes = {name: Node(name, folder, store) for name in ("a", "b")}

    def restore(self):
        """Starts what does not run, and lets in the usual token."""
        # One after the other, because the first one creates the store.
        for node in self.nodes.values():
            self.start(node)
        if self.token != TOKEN:
            self.let_in(TOKEN)

    def start(self, node):
        if node.process is None or node.process.poll() is not None:
            node.start()
        node.wait_until_ready()

    def write_tokens(self, token):
        digest = hashlib.sha256(token.encode()).hexdigest()
        fresh = self.tokens.with_suffix(".fresh")
        fresh.write_text(f'[[token]]\nname = "conformance"\nhash = "sha256:{digest}"\npermissions = ["ids"]\n')
        fresh.replace(self.tokens)

    def let_in(self, token):
        """Makes `token` the only one, and waits until every running node has read it."""
        self.token = token
        self.write_tokens(token)
        for node in self.nodes.values():
            if node.process.poll() is not None:
                continue
            node.process.send_signal(signal.SIGHUP)
            ends = time.monotonic() + PATIENCE_S
            while node.status("GET", "/parse/1", token)[0] == 401:
                if time.monotonic() > ends:
                    raise RuntimeError(f"node {node.name} did not read its tokens anew")
                time.sleep(0.02)

    def parse(self, text, encoding="decimal"):
        """Returns what the service reads from an ID's text."""
        for node in self.nodes.values():
            status, fields = node.status("GET", f"/parse/{urllib.parse.quote(text, safe='')}?encoding={encoding}")
            if status == 200:
                return fields
        raise RuntimeError(f"no node could parse {text}: status {status}")

    def stop(self):
        for node in self.nodes.values():
            node.kill()

"""A proxy in front of one node, which breaks connections and answers on command.

It speaks HTTP/1.1 on plain sockets, because a library would repair what has to be broken. It records every
request for IDs, and which answers a client may use: those that it sent once, whole and as the node gave them.
"""

import asyncio
import dataclasses
import datetime
import json
import re
import socket
import time
import urllib.parse

REASONS = {200: "OK", 307: "Temporary Redirect", 429: "Too Many Requests", 502: "Bad Gateway", 503: "Service Unavailable"}
# Headers that concern one connection only, and are not forwarded.
HOP_BY_HOP = {"connection", "keep-alive", "upgrade", "http2-settings", "transfer-encoding", "content-length", "host", "te", "date"}
ENDLESS_BYTES = 64 << 20


@dataclasses.dataclass
class Request:
    method: str
    target: str
    headers: dict
    body: bytes


@dataclasses.dataclass
class Answer:
    status: int
    headers: dict
    body: bytes


@dataclasses.dataclass
class Exchange:
    """A request for IDs, and what became of it. Times are of the steady clock, in seconds."""

    node: str
    method: str
    code: str
    query: dict
    authorization: str
    user_agent: str
    began: float
    ended: float = 0.0
    # The fault's name, or "" if the answer was forwarded as it was.
    fault: str = ""
    # Whether the client may use the IDs of the answer.
    usable: bool = False
    # Until when the client may use them, in Unix seconds, if the proxy gave the answer such an end.
    until: float = None
    # The prefix of the IDs' texts, if the proxy gave the answer another one than its code has.
    prefix: str = None
    answer: Answer = None
    sent_bytes: int = 0

    @property
    def up_to(self):
        text = self.query.get("up_to", [""])[0]
        return int(text) if text.isdigit() else 0

    def document(self):
        return json.loads(self.answer.body)

    def issued(self):
        """How many IDs the answer has."""
        ranges = self.document()["ranges"] if self.usable else []
        return sum(one["count"] * one.get("repeat", 1) for one in ranges)

    def problem(self, max_range, token):
        """Returns in which way the request breaks the contract, or None."""
        if self.method != "POST":
            return "is not a POST"
        if self.query.keys() - {"namespace"} != {"format", "up_to"} or self.query["format"] != ["range"]:
            return "has other parameters than the contract"
        if not 1 <= self.up_to <= max_range:
            return f"asks for less than 1 or more than {max_range}"
        if not re.match(r"raindrop-[a-z]+/[0-9]", self.user_agent):
            return f"has the User-Agent {self.user_agent!r}, not the client's name and version"
        return None if self.authorization == f"Bearer {token}" else "has not the token"


class Gone(Exception):
    """The client has closed the connection."""


async def read_head(reader):
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = {}
    for line in head[1:]:
        name, colon, value = line.partition(":")
        if colon:
            headers[name.strip().lower()] = value.strip()
    return head[0], headers


async def read_body(reader, headers, until_end=False):
    if headers.get("transfer-encoding", "").lower() == "chunked":
        body = b""
        while size := int((await reader.readline()).split(b";")[0], 16):
            body += await reader.readexactly(size)
            await reader.readline()
        await reader.readline()
        return body
    if "content-length" in headers:
        return await reader.readexactly(int(headers["content-length"]))
    return await reader.read() if until_end else b""


class Proxy:
    """The proxy of one node. Its methods run in the event loop."""

    def __init__(self, name, node_port, exchanges):
        self.name = name
        self.node_port = node_port
        # All exchanges of a scenario, shared by the proxies of all nodes.
        self.exchanges = exchanges
        self.port = 0
        self.reserve()
        self.url = f"http://127.0.0.1:{self.port}"
        self.server = None
        self.faults = []
        self.writers = set()
        self.held = []
        self.others = {}

    def reserve(self):
        """Takes the port without listening: connections are refused, and no other one gets the port."""
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(("127.0.0.1", self.port))
        self.port = self.socket.getsockname()[1]

    async def listen(self):
        if self.server is None:
            self.server = await asyncio.start_server(self.connection, sock=self.socket)

    async def command(self, fault):
        """Adds a fault. It applies to the next `times` requests, of one `code` if it names one; `times` can be "ever"."""
        name = fault["fault"]
        if name == "refuse":
            self.server.close()
            self.server = None
            self.reserve()
            self.abort()
        elif name == "none":
            await self.clear()
            if fault.get("abort"):
                self.abort()
        elif not hasattr(self, "fault_" + name):
            raise ValueError(f"no such fault: {name}")
        else:
            self.faults.append({"times": 1, **fault})

    async def clear(self):
        """Forwards everything again. Answers that hang go on hanging, unless their connections are aborted."""
        self.faults.clear()
        await self.listen()

    async def reset(self):
        """Ends all connections and faults: what was before a scenario."""
        await self.clear()
        self.abort()
        self.held.clear()

    def abort(self):
        for writer in list(self.writers):
            writer.transport.abort()

    def next_fault(self, code):
        for fault in self.faults:
            if fault.get("code", code) == code:
                if fault["times"] != "ever":
                    fault["times"] -= 1
                    if not fault["times"]:
                        self.faults.remove(fault)
                return fault
        return {"fault": "pass"}

    async def connection(self, reader, writer):
        self.writers.add(writer)
        try:
            while True:
                line, headers = await read_head(reader)
                method, target, _ = line.split(" ", 2)
                request = Request(method, target, headers, await read_body(reader, headers))
                can_go_on = await self.exchange(request, reader, writer)
                writer.was_used = True
                if not can_go_on or headers.get("connection", "").lower() == "close":
                    break
        except (OSError, EOFError, asyncio.LimitOverrunError, ValueError, Gone):
            pass
        finally:
            self.writers.discard(writer)
            writer.close()

    async def exchange(self, request, reader, writer):
        """Answers one request; returns whether the connection can be used again."""
        path, _, query = request.target.partition("?")
        if not path.startswith("/ids/"):
            await self.send(writer, await self.forward(request))
            return True
        exchange = Exchange(
            self.name,
            request.method,
            urllib.parse.unquote(path.removeprefix("/ids/")),
            urllib.parse.parse_qs(query, keep_blank_values=True),
            request.headers.get("authorization", ""),
            request.headers.get("user-agent", ""),
            time.monotonic(),
        )
        self.exchanges.append(exchange)
        fault = self.next_fault(exchange.code)
        exchange.fault = "" if fault["fault"] == "pass" else fault["fault"]
        work = asyncio.create_task(getattr(self, "fault_" + fault["fault"])(fault, request, exchange, writer))
        # A client that gives up closes its connection, which is seen only by reading.
        watch = asyncio.create_task(self.until_gone(reader))
        try:
            await asyncio.wait({work, watch}, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                raise Gone
            return bool(await work)
        finally:
            exchange.ended = time.monotonic()
            for task in (work, watch):
                task.cancel()
            await asyncio.gather(work, watch, return_exceptions=True)

    async def until_gone(self, reader):
        while not reader.at_eof():
            await asyncio.sleep(0.005)
            if reader.exception():
                return

    async def forward(self, request):
        """Asks the node, on a connection of its own."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.node_port)
        try:
            lines = [f"{request.method} {request.target} HTTP/1.1", f"Host: 127.0.0.1:{self.node_port}", "Connection: close"]
            lines += [f"{name}: {value}" for name, value in request.headers.items() if name not in HOP_BY_HOP]
            lines += [f"Content-Length: {len(request.body)}", "", ""]
            writer.write("\r\n".join(lines).encode("latin-1") + request.body)
            line, headers = await read_head(reader)
            body = await read_body(reader, headers, until_end=True)
            kept = {name: value for name, value in headers.items() if name not in HOP_BY_HOP}
            return Answer(int(line.split(" ")[1]), kept, body)
        finally:
            writer.close()

    def head(self, answer, framing):
        lines = [f"HTTP/1.1 {answer.status} {REASONS.get(answer.status, 'Status')}"]
        lines += [f"{name}: {value}" for name, value in {**answer.headers, **framing}.items()]
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")

    async def send(self, writer, answer):
        writer.write(self.head(answer, {"content-length": len(answer.body)}) + answer.body)
        await writer.drain()
        return True

    async def ask(self, request, exchange):
        """Asks the node for IDs, and keeps the answer."""
        exchange.answer = await self.forward(request)
        return exchange.answer

    # The faults. Each returns whether the connection can be used again.

    async def fault_pass(self, _fault, request, exchange, writer):
        answer = await self.ask(request, exchange)
        # Before it is sent: the client may use it as soon as it has read it.
        exchange.usable = answer.status == 200
        return await self.send(writer, answer)

    async def fault_slow(self, fault, request, exchange, writer):
        """Waits for `seconds` before it answers; `usable: false` if the client must have given up by then."""
        answer = await self.ask(request, exchange)
        await asyncio.sleep(fault["seconds"])
        exchange.usable = answer.status == 200 and fault.get("usable", True)
        return await self.send(writer, answer)

    async def fault_trickle(self, fault, request, exchange, writer):
        """Sends the answer in small pieces, over `seconds`."""
        answer = await self.ask(request, exchange)
        exchange.usable = answer.status == 200 and fault.get("usable", True)
        text = self.head(answer, {"content-length": len(answer.body)}) + answer.body
        size = max(1, len(text) // 40)
        for start in range(0, len(text), size):
            writer.write(text[start : start + size])
            await writer.drain()
            await asyncio.sleep(fault["seconds"] / 40)
        return True

    async def fault_hang(self, _fault, _request, _exchange, _writer):
        """Never answers."""
        await asyncio.Event().wait()

    async def fault_reverse(self, fault, request, exchange, writer):
        """Holds answers until there are `times` of them, and sends the last one first."""
        answer = await self.ask(request, exchange)
        exchange.usable = answer.status == 200
        turn = asyncio.Event()
        self.held.append(turn)
        if fault["times"] == 0:
            for waiting in reversed(self.held):
                waiting.set()
                await asyncio.sleep(0.05)
            self.held.clear()
        await turn.wait()
        return await self.send(writer, answer)

    async def fault_cut(self, fault, request, exchange, writer):
        """Ends the connection after the fraction `at` of the answer's body, or before its head if `at` is null."""
        answer = await self.ask(request, exchange)
        if fault.get("at") is not None:
            text = self.head(answer, {"content-length": len(answer.body)})
            writer.write(text + answer.body[: int(len(answer.body) * fault["at"])])
            await writer.drain()
            # A reset takes from the client what it has not read yet.
            await asyncio.sleep(0.2)
        if fault.get("how") == "reset":
            writer.transport.abort()
        return False

    async def fault_stale(self, fault, request, exchange, writer):
        """Resets a connection that had a request before; on a new one, forwards."""
        if not getattr(writer, "was_used", False):
            return await self.fault_pass(fault, request, exchange, writer)
        writer.transport.abort()
        return False

    async def fault_answer(self, fault, _request, _exchange, writer):
        """Answers by itself, with `status`, `type`, `headers` and `body`."""
        headers = {"content-type": fault.get("type", "application/problem+json")}
        for name, value in fault.get("headers", {}).items():
            headers[name] = str(value).format(**{name: proxy.url for name, proxy in self.others.items()})
        body = fault.get("body", "")
        body = body if isinstance(body, str) else json.dumps(body)
        return await self.send(writer, Answer(fault["status"], headers, body.encode()))

    async def fault_raw(self, fault, _request, _exchange, writer):
        """Sends `text` as it is, and ends the connection."""
        writer.write(fault["text"].encode("latin-1"))
        await writer.drain()
        return False

    async def fault_nested(self, fault, _request, _exchange, writer):
        """Answers with JSON of so many nested lists that a parser may run out of stack."""
        body = b'{"ranges":' + b"[" * fault["depth"] + b"]" * fault["depth"] + b"}"
        return await self.send(writer, Answer(200, {"content-type": "application/json"}, body))

    async def fault_replay(self, fault, _request, exchange, writer):
        """Answers with what it sent `back` usable answers of this code ago, or with `late` ones that came too late."""
        before = [one for one in self.exchanges if one.code == exchange.code and (one.usable or fault.get("late") and one.answer)]
        return await self.send(writer, before[-fault.get("back", 1)].answer)

    async def fault_twice(self, _fault, request, exchange, writer):
        """Sends the answer twice, the second time without a request."""
        answer = await self.ask(request, exchange)
        exchange.usable = answer.status == 200
        await self.send(writer, answer)
        return await self.send(writer, answer)

    async def fault_alter(self, fault, request, exchange, writer):
        """Changes the answer.

        `fields` by path, its `type`, only its first part (`keep`), `pad` bytes more of it, or an `until` of so many
        seconds from now on.
        """
        answer = await self.ask(request, exchange)
        document = json.loads(answer.body)
        if "until" in fault:
            exchange.until = time.time() + fault["until"]
            document["until"] = datetime.datetime.fromtimestamp(exchange.until, datetime.UTC).isoformat().replace("+00:00", "Z")
        for change in fault.get("fields", []):
            alter(document, change, exchange.up_to)
            if change["at"] == "prefix":
                exchange.prefix = document.get("prefix", "")
        if fault.get("pad"):
            document["padding"] = "x" * fault["pad"]
        body = json.dumps(document).encode()
        body = body[: int(len(body) * fault.get("keep", 1))]
        changed = Answer(200, {**answer.headers, "content-type": fault.get("type", "application/json")}, body)
        # A harmless change of an answer leaves its IDs usable.
        exchange.usable = fault.get("usable", False)
        if not fault.get("chunked"):
            return await self.send(writer, changed)
        writer.write(self.head(changed, {"transfer-encoding": "chunked"}))
        for start in range(0, len(body), 8192):
            piece = body[start : start + 8192]
            writer.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
            await writer.drain()
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True

    async def fault_invent(self, fault, _request, exchange, writer):
        """Answers with `ranges` that nobody issued. A count of "more" is one more than was asked for."""
        ranges = []
        for given in fault["ranges"]:
            one = dict(given)
            if one["count"] == "more":
                one["count"] = exchange.up_to + 1
            last = int(one["first"]) + (one["count"] - 1) * int(one.setdefault("step", "1"))
            last += (one.get("repeat", 1) - 1) * int(one.get("stride", "0"))
            one.setdefault("last", str(last))
            ranges.append(one)
        time_field = {"epoch_ms": 1735689600000, "unit_ms": 1, "shift": 22, "bits": 41}
        document = {"issued_at": "2026-11-28T09:30:00.123Z", "layout": "invented", "time": time_field, "ranges": ranges}
        return await self.send(writer, Answer(200, {"content-type": "application/json"}, json.dumps(document).encode()))

    async def fault_endless(self, _fault, _request, exchange, writer):
        """Sends a body without an end, until the client has had enough."""
        writer.write(self.head(Answer(200, {"content-type": "application/json"}, b""), {"transfer-encoding": "chunked"}))
        piece = b"10000\r\n" + b" " * 65536 + b"\r\n"
        while exchange.sent_bytes < ENDLESS_BYTES:
            writer.write(piece)
            await writer.drain()
            exchange.sent_bytes += 65536
        return False


def alter(document, change, up_to):
    """Changes one field: `set`, `add` (a number, also one that is text) or `remove`; `at` is its path."""
    *parents, last = [int(part) if part.isdigit() else part for part in change["at"].split(".")]
    for part in parents:
        document = document[part]
    if "set" in change:
        document[last] = change["set"]
    elif "add" in change:
        amount = up_to if change["add"] == "asked" else change["add"]
        was = document[last]
        document[last] = str(int(was) + amount) if isinstance(was, str) else was + amount
    elif "remove" in change:
        del document[last]
    else:
        raise ValueError(f"no such change: {change}")

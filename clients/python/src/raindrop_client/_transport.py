import base64
import contextlib
import http
import http.client
import selectors
import socket
import ssl
import urllib.parse
import urllib.request
from collections import defaultdict
from dataclasses import dataclass

from ._answer import LARGEST_BODY, Reply
from ._errors import RaindropError
from ._options import Clock, proxy_parts

# More idle connections to one base URL are closed. Each is used by one request at a time.
_MOST_IDLE = 8

# Connections that were idle for so many seconds are closed: a load balancer may have dropped them
# without a word.
_LONGEST_IDLE = 60.0


class Call:
    """One request that is under way, which another thread can end."""

    def __init__(self) -> None:
        self.is_ended = False
        self.connection: http.client.HTTPConnection | None = None

    def end(self) -> None:
        """Ends the request, also where it waits for bytes. Its own thread closes the connection."""
        self.is_ended = True
        # Read once: its own thread may take it away meanwhile.
        connection = self.connection
        sock = connection.sock if connection else None
        with contextlib.suppress(OSError):
            if sock is not None:
                # Not that of TLS: it would let the rest of a request go out unencrypted.
                socket.socket.shutdown(sock, socket.SHUT_RDWR)


@dataclass(frozen=True, slots=True)
class _Idle:
    """A kept connection, and since when nothing uses it."""

    connection: http.client.HTTPConnection
    since: float


class Transport:
    """Sends requests by `http.client`, and keeps their connections."""

    def __init__(
        self, timeout: float, ssl_context: ssl.SSLContext | None, proxy: str | None, clock: Clock
    ) -> None:
        """`proxy` is a URL, empty for none, or None for what the environment says."""
        self._timeout = timeout
        self._ssl_context = ssl_context
        self._proxy = proxy
        self._clock = clock
        self._idle: defaultdict[str, list[_Idle]] = defaultdict(list)

    def close(self) -> None:
        """Closes the idle connections. A child closes its copies, and its parent's go on."""
        for url in tuple(self._idle):
            self._close_idle(url)

    def post(self, url: str, target: str, headers: dict[str, str], call: Call) -> Reply:
        """Returns the whole answer to a request without a body. Redirects are not followed."""
        parts = urllib.parse.urlsplit(url)
        proxy = self._proxy_of(parts)
        target = parts.path + target
        if proxy and parts.scheme == "http":
            target = f"http://{parts.netloc}{target}"
            headers = {**headers, **_authorization(proxy)}
        self._close_old()
        connection = self._take_idle(url)
        response = None
        if connection is not None:
            # If the far end had dropped it, a new connection may be well: IDs that were issued are
            # a gap.
            with contextlib.suppress(ConnectionError, ssl.SSLEOFError):
                response = _exchange(connection, target, headers, call)
        if connection is None or response is None:
            self._close_idle(url)
            connection = self._connect(parts, proxy)
            response = _exchange(connection, target, headers, call)
        is_kept = False
        try:
            body = response.read(LARGEST_BODY + 1)
            # `read` does not tell that a body ended early.
            if response.length and len(body) <= LARGEST_BODY:
                raise RaindropError("transport", "the connection ended within the answer")
            # After an early hint comes the answer itself, which must not answer the next request.
            is_final = response.status >= http.HTTPStatus.OK
            is_kept = is_final and response.isclosed() and not response.will_close
        finally:
            # From here on, another request may use it.
            call.connection = None
            if is_kept and not call.is_ended and len(self._idle[url]) < _MOST_IDLE:
                self._idle[url].append(_Idle(connection, self._clock()))
            else:
                connection.close()
        content_type = response.headers.get("content-type", "")
        return Reply(response.status, content_type, response.headers.get("retry-after", ""), body)

    def _close_idle(self, url: str) -> None:
        for idle in self._idle.pop(url, ()):
            idle.connection.close()

    def _close_old(self) -> None:
        before = self._clock() - _LONGEST_IDLE
        for idle in tuple(self._idle.values()):
            # The oldest comes first.
            with contextlib.suppress(IndexError):
                while idle[0].since <= before:
                    idle.pop(0).connection.close()

    def _take_idle(self, url: str) -> http.client.HTTPConnection | None:
        """Returns a kept connection on which nothing came since: no end, no second answer."""
        with contextlib.suppress(IndexError):
            while True:
                connection = self._idle[url].pop().connection
                with selectors.DefaultSelector() as selector:
                    selector.register(connection.sock, selectors.EVENT_READ)
                    if not selector.select(0):
                        return connection
                connection.close()
        return None

    def _connect(
        self, parts: urllib.parse.SplitResult, proxy: urllib.parse.SplitResult | None
    ) -> http.client.HTTPConnection:
        there = proxy or parts
        # Without a port, http.client would take the end of an IPv6 address for one.
        usual = 80 if proxy or parts.scheme == "http" else 443
        host, port = there.hostname or "", there.port or usual
        if parts.scheme == "http":
            return http.client.HTTPConnection(host, port, timeout=self._timeout)
        self._ssl_context = self._ssl_context or ssl.create_default_context()
        connection = http.client.HTTPSConnection(
            host, port, timeout=self._timeout, context=self._ssl_context
        )
        if proxy:
            connection.set_tunnel(parts.hostname or "", parts.port or 443, _authorization(proxy))
        return connection

    def _proxy_of(self, parts: urllib.parse.SplitResult) -> urllib.parse.SplitResult | None:
        proxy = self._proxy
        if proxy is None:
            # An IPv6 address is listed without the brackets of a URL, too.
            hosts = (parts.netloc, parts.hostname or "")
            if not any(urllib.request.proxy_bypass(host) for host in hosts):
                proxy = urllib.request.getproxies().get(parts.scheme)
        return proxy_parts(proxy) if proxy else None


def _exchange(
    connection: http.client.HTTPConnection, target: str, headers: dict[str, str], call: Call
) -> http.client.HTTPResponse:
    """Sends a request, and returns the head of its answer."""
    call.connection = connection
    try:
        if call.is_ended:
            raise RaindropError("transport", "the request was given up")
        connection.request("POST", target, headers=headers)
        return connection.getresponse()
    except BaseException:
        connection.close()
        raise


def _authorization(proxy: urllib.parse.SplitResult) -> dict[str, str]:
    if proxy.username is None:
        return {}
    user = f"{urllib.parse.unquote(proxy.username)}:{urllib.parse.unquote(proxy.password or '')}"
    return {"Proxy-Authorization": f"Basic {base64.b64encode(user.encode()).decode()}"}

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

from ._answer import LARGEST_BODY, Reply
from ._errors import RaindropError

# More idle connections to one base URL are closed. Each is used by one request at a time.
_MOST_IDLE = 8


class Call:
    """One request that is under way, which another thread can end."""

    def __init__(self) -> None:
        self.is_ended = False
        self.connection: http.client.HTTPConnection | None = None

    def end(self) -> None:
        """Ends the request, also where it waits for bytes. Its own thread closes the connection."""
        self.is_ended = True
        sock = self.connection.sock if self.connection else None
        with contextlib.suppress(OSError):
            if sock is not None:
                # Not that of TLS: it would let the rest of a request go out unencrypted.
                socket.socket.shutdown(sock, socket.SHUT_RDWR)


class Transport:
    """Sends requests by `http.client`, and keeps their connections."""

    def __init__(
        self, timeout: float, ssl_context: ssl.SSLContext | None, proxy: str | None
    ) -> None:
        """`proxy` is a URL, empty for none, or None for what the environment says."""
        self._timeout = timeout
        self._ssl_context = ssl_context
        self._proxy = proxy
        self._idle: defaultdict[str, list[http.client.HTTPConnection]] = defaultdict(list)

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
            if is_kept and len(self._idle[url]) < _MOST_IDLE:
                self._idle[url].append(connection)
            else:
                connection.close()
        content_type = response.headers.get("content-type", "")
        return Reply(response.status, content_type, response.headers.get("retry-after", ""), body)

    def _close_idle(self, url: str) -> None:
        for connection in self._idle.pop(url, ()):
            connection.close()

    def _take_idle(self, url: str) -> http.client.HTTPConnection | None:
        """Returns a kept connection on which nothing came since: no end, no second answer."""
        with contextlib.suppress(IndexError):
            while True:
                connection = self._idle[url].pop()
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
        if proxy is None and not urllib.request.proxy_bypass(parts.netloc):
            proxy = urllib.request.getproxies().get(parts.scheme)
        if not proxy:
            return None
        there = urllib.parse.urlsplit(proxy if "://" in proxy else f"http://{proxy}")
        if there.scheme != "http":
            raise RaindropError("transport", f"proxy: {there.scheme}://, but must be http://")
        return there


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

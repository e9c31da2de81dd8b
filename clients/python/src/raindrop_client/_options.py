import contextlib
import re
import threading
import time
import urllib.parse
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Literal

from ._errors import RaindropError, usage

Token = str | Callable[[], str | Awaitable[str]]
Clock = Callable[[], float]

# Goes on while the machine sleeps, where the platform has such a clock. `time.monotonic` may not.
steady_clock: Clock = time.monotonic
if hasattr(time, "CLOCK_BOOTTIME"):
    steady_clock = partial(time.clock_gettime, time.CLOCK_BOOTTIME)


@dataclass(frozen=True, slots=True)
class Event:
    """What the hook is told. Durations are in seconds.

    - `request`: a request for `up_to` IDs to `url` has ended, with `ids` or an error.
    - `dropped`: `ids` will never be handed out: they were too old, became no UUIDs, were left when
      an answer came with another `time`, or the client was closed.
    - `wait`: a call that found too few IDs has ended, perhaps with an error.
    """

    type: Literal["request", "dropped", "wait"]
    code: str
    duration: float = 0.0
    ids: int = 0
    error: RaindropError | None = None
    up_to: int = 0
    url: str = ""


# The most seconds that every platform can wait.
_LONGEST = min(86_400.0 * 365, threading.TIMEOUT_MAX)


def require(holds: bool, name: str, allowed: str) -> None:
    """Raises a usage error that says what is allowed. It quotes no value: that may be a secret."""
    if not holds:
        raise usage(f"{name}: must be {allowed}")


def base_urls(urls: str | Iterable[str]) -> tuple[str, ...]:
    """Returns the base URLs without a slash at the end, or raises a usage error."""
    require(isinstance(urls, Iterable), "urls", "a base URL or several")
    urls = (urls,) if isinstance(urls, str) else tuple(urls)
    for url in urls:
        if not _is_base_url(url):
            raise usage(
                f"urls: {url!r}, but must be http:// or https:// with a host and perhaps a path"
            )
    require(len(urls) > 0, "urls", "at least one base URL")
    return tuple(url.rstrip("/") for url in urls)


def _is_base_url(url: str) -> bool:
    try:
        parts = urllib.parse.urlsplit(url)
        return (
            parts.scheme in ("http", "https")
            and bool(parts.hostname)
            and parts.port != 0
            and parts.path.isascii()
            and not re.search(r"[\s\x00-\x1f\x7f@?#\\]", url)
        )
    except (AttributeError, TypeError, ValueError):
        return False


def proxy_parts(proxy: str) -> urllib.parse.SplitResult:
    """Returns the parts of a proxy's URL, or raises a ValueError that tells no password."""
    try:
        parts = urllib.parse.urlsplit(proxy if "://" in proxy else f"http://{proxy}")
        if parts.scheme == "http" and parts.hostname and parts.port != 0:
            return parts
    except (TypeError, ValueError):
        pass
    raise ValueError("proxy: must be http://host:port, perhaps with user:password@ before the host")


def text(name: str, value: str) -> str:
    """Returns a text that a URL can carry, or raises a usage error."""
    if isinstance(value, str) and value:
        with contextlib.suppress(UnicodeEncodeError):
            value.encode()
            return value
    raise usage(f"{name}: {value!r}, but must be a text of at least one character")


def seconds(name: str, value: float) -> float:
    """Returns a number of seconds above 0, or raises a usage error."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not (is_number and 0 < value <= _LONGEST):
        raise usage(f"{name}: {value!r}, but must be seconds, above 0 and at most {_LONGEST:.0f}")
    return value


def count(name: str, value: int, most: int) -> int:
    """Returns a number of IDs from 1 to `most`, or raises a usage error."""
    if type(value) is not int or not 1 <= value <= most:
        raise usage(f"{name}: {value!r}, but must be a whole number from 1 to {most}")
    return value

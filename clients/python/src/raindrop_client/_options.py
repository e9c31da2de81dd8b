import math
import time
import urllib.parse
from collections.abc import Awaitable, Callable, Sequence
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
    - `dropped`: `ids` will never be handed out: they were too old, or the client was closed.
    - `wait`: a call that found too few IDs has ended, perhaps with an error.
    """

    type: Literal["request", "dropped", "wait"]
    code: str
    duration: float = 0.0
    ids: int = 0
    error: RaindropError | None = None
    up_to: int = 0
    url: str = ""


def base_urls(urls: str | Sequence[str]) -> tuple[str, ...]:
    """Returns the base URLs without a slash at the end, or raises a usage error."""
    urls = (urls,) if isinstance(urls, str) else tuple(urls)
    for url in urls:
        try:
            parts = urllib.parse.urlsplit(url)
            is_right = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        except ValueError:
            is_right = False
        if not is_right or any(one in url for one in "@?#"):
            raise usage(
                f"urls: {url!r}, but must be http:// or https:// with a host and perhaps a path"
            )
    if not urls:
        raise usage("urls: none, but a client needs at least one base URL")
    return tuple(url.rstrip("/") for url in urls)


def positive(name: str, value: float) -> float:
    """Returns a number of seconds, or raises a usage error."""
    if not (isinstance(value, (int, float)) and math.isfinite(value) and value > 0):
        raise usage(f"{name}: {value!r}, but must be a number of seconds above 0")
    return value


def count(name: str, value: int, most: int) -> int:
    """Returns a number of IDs from 1 to `most`, or raises a usage error."""
    if type(value) is not int or not 1 <= value <= most:
        raise usage(f"{name}: {value!r}, but must be a whole number from 1 to {most}")
    return value

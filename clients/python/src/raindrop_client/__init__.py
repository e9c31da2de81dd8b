"""Unique 64-bit IDs from Raindrop without a round trip for each.

The client leases ranges of IDs ahead of demand, and answers from memory.
"""

from ._client import AsyncClient, AsyncCode, Client, Code
from ._errors import Kind, RaindropError
from ._options import Clock, Event, Token
from ._version import __version__

__all__ = [
    "AsyncClient",
    "AsyncCode",
    "Client",
    "Clock",
    "Code",
    "Event",
    "Kind",
    "RaindropError",
    "Token",
    "__version__",
]

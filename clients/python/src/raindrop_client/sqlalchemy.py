"""Defaults of SQLAlchemy's columns, for the core, the ORM and asynchronous engines.

id: Mapped[int] = mapped_column(BigInteger, primary_key=True, default=next_id(client.code("order")))
"""

from collections.abc import Callable
from uuid import UUID

from sqlalchemy.util import await_only

from ._client import AsyncCode, Code

__all__ = ["next_id", "next_text", "next_uuid"]


def next_id(code: Code | AsyncCode) -> Callable[[], int]:
    """Returns a default that gives each new row an ID. A row that has one keeps it.

    The code of an AsyncClient is for asynchronous engines: then a wait does not block the loop.
    """
    if isinstance(code, Code):
        return lambda: code.next()  # without the context that SQLAlchemy could give it

    def default() -> int:
        one = code.try_next()
        return await_only(code.next()) if one is None else one

    return default


def next_text(code: Code | AsyncCode) -> Callable[[], str]:
    """Returns a default that gives each new row the text of an ID, with the code's prefix."""
    if isinstance(code, Code):
        return lambda: code.next_text()
    return lambda: await_only(code.next_text())


def next_uuid(code: Code | AsyncCode) -> Callable[[], UUID]:
    """Returns a default that gives each new row an ID as a UUID.

    It is for columns of the type `Uuid` with `as_uuid`, the default.
    """
    if isinstance(code, Code):
        return lambda: code.next_uuid()
    return lambda: await_only(code.next_uuid())

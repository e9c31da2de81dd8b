import copy
from dataclasses import KW_ONLY, dataclass
from typing import Literal

Kind = Literal["problem", "invalid_answer", "transport", "deadline", "cancelled", "closed", "usage"]

# Problems with these statuses are of one node, or of one moment.
_OF_ONE_NODE = (401, 408, 425, 429)


@dataclass(eq=False, repr=False)
class RaindropError(Exception):
    """The error of every call of this package.

    `kind` tells the cases apart. `code` and `detail` are those of a problem document, `status` is
    that of HTTP, and `retry_after` says how many seconds the service asks to wait, as far as the
    client follows it.
    """

    kind: Kind
    message: str
    _: KW_ONLY
    code: str | None = None
    status: int | None = None
    detail: str | None = None
    retry_after: float | None = None

    def __post_init__(self) -> None:
        """Gives the base class what a pickled error is made of again."""
        super().__init__(self.kind, self.message)

    def __str__(self) -> str:
        """Returns the message."""
        return self.message

    @property
    def is_certain(self) -> bool:
        """Whether every node would answer so, now and later."""
        of_request = self.kind == "problem" and 400 <= (self.status or 0) < 500
        return self.kind == "usage" or (of_request and self.status not in _OF_ONE_NODE)

    def again(self) -> "RaindropError":
        """Returns a copy to raise, because each caller adds a traceback of its own."""
        error = copy.copy(self)
        error.__cause__ = self.__cause__
        return error


def usage(message: str) -> RaindropError:
    """Returns the error of a wrong argument."""
    return RaindropError("usage", message)


def wrap(what: str, thrown: BaseException) -> RaindropError:
    """Returns a RaindropError unchanged, and others as the cause of one of kind `transport`."""
    if isinstance(thrown, RaindropError):
        return thrown
    error = RaindropError("transport", f"{what}: {type(thrown).__name__}: {thrown}")
    error.__cause__ = thrown
    return error

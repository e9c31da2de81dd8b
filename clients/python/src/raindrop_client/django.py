"""Fields of Django's models whose value is an ID.

    class Order(models.Model):
        id = RaindropField("order", primary_key=True)

The setting RAINDROP holds the options of the client: {"urls": ["http://127.0.0.1:8080"]}.
"""

import functools
from typing import TYPE_CHECKING, Any, TypeAlias
from uuid import UUID

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import models

from ._client import Client

__all__ = ["RaindropField", "RaindropTextField", "RaindropUUIDField", "client"]

# Django's fields are generic for type checkers alone.
if TYPE_CHECKING:
    _Field: TypeAlias = models.Field[Any, Any]
    _BigIntegerField: TypeAlias = models.BigIntegerField[Any, Any]
    _CharField: TypeAlias = models.CharField[Any, Any]
    _UUIDField: TypeAlias = models.UUIDField[Any, Any]
else:
    _Field, _BigIntegerField, _CharField = models.Field, models.BigIntegerField, models.CharField
    _UUIDField = models.UUIDField


@functools.cache
def client() -> Client:
    """Returns the client of this process, made of the setting RAINDROP when it is first needed."""
    options: dict[str, Any] = getattr(settings, "RAINDROP", {})
    if "urls" not in options:
        raise ImproperlyConfigured('RAINDROP must be the options of a client: {"urls": […]}')
    return Client(**options)


def _missing() -> None:
    """Returns no value: a new object has none until it is saved."""


class _RaindropMixin(_Field):
    """Gives an object that is saved for the first time an ID. One that has a value keeps it."""

    def __init__(self, code: str, *args: Any, **options: Any) -> None:  # noqa: ANN401
        """Takes the options of Django's field, and the code."""
        self.code = code
        options = {"editable": False, "blank": True, **options}
        # With a default, Django inserts a new object without looking for it first.
        options["default"] = _missing
        super().__init__(*args, **options)

    def deconstruct(self) -> tuple[str, str, list[Any], dict[str, Any]]:
        """Returns what a migration writes."""
        name, path, positional, options = super().deconstruct()
        del options["default"]
        return name, path, [self.code, *positional], options

    def draw(self) -> int | str | UUID:
        """Returns a new value."""
        raise NotImplementedError

    def get_pk_value_on_save(self, instance: models.Model) -> int | str | UUID:
        """Returns the key of a new object, also in `bulk_create`."""
        return self.draw()

    def pre_save(self, model_instance: models.Model, add: bool) -> Any:  # noqa: ANN401
        """Returns the value that is written; a new object without one gets it now."""
        value = super().pre_save(model_instance, add)
        if add and value in (None, ""):
            value = self.draw()
            setattr(model_instance, self.attname, value)
        return value


class RaindropField(_RaindropMixin, _BigIntegerField):
    """A big integer that is an ID of a code."""

    def draw(self) -> int:
        """Returns a new ID."""
        return client().code(self.code).next()


class RaindropTextField(_RaindropMixin, _CharField):
    """A text that is an ID of a code in decimal, with the code's prefix."""

    def __init__(self, code: str, *args: Any, **options: Any) -> None:  # noqa: ANN401
        """Takes the options of Django's field, and the code."""
        options.setdefault("max_length", 64)
        super().__init__(code, *args, **options)

    def draw(self) -> str:
        """Returns the text of a new ID."""
        return client().code(self.code).next_text()


class RaindropUUIDField(_RaindropMixin, _UUIDField):
    """A UUID of version 7 that is made of an ID of a code."""

    def draw(self) -> UUID:
        """Returns a new ID as a UUID."""
        return client().code(self.code).next_uuid()

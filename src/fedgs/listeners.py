"""Functions that are called for every new record: those that a plug-in file registers.

`fedgs run` calls them; `fedgs.compare` takes a function as `on_record`. They are no part of a run's
identity.
"""

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from fedgs.errors import ConfigError, shown

__all__ = ["check_listener", "on_record", "registered_listeners"]

F = TypeVar("F", bound=Callable[..., Any])

_listeners: dict[tuple[str, str], Callable[..., Any]] = {}


def on_record(function: F) -> F:
    """Decorator for a plug-in file: `fedgs run` calls the function for every new record.

    The function takes the run (`fedgs.report.Run`, without records) and the record
    (`fedgs.records.Record`). It is called in the process of the command, in the order of the rounds
    of each run, before the record is stored. Its exception ends that run alone. A function of the
    same name from the same module replaces the earlier one.

    Raises:
        ConfigError: not a function of two arguments.

    >>> import fedgs
    >>> @fedgs.on_record
    ... def show(run, record):
    ...     print(run.label, run.seed, record.round, record.test_loss)
    """
    check_listener(function, "fedgs.on_record")
    name = (getattr(function, "__module__", ""), getattr(function, "__qualname__", repr(function)))
    _listeners[name] = function
    return function


def registered_listeners() -> tuple[Callable[..., Any], ...]:
    """The registered functions, in the order in which they were registered."""
    return tuple(_listeners.values())


def check_listener(function: object, setting: str) -> None:
    """Refuse what cannot be called with a run and a record.

    Args:
        function: what was given.
        setting: where it was given, for the message.

    Raises:
        ConfigError: it cannot.

    >>> check_listener(print, "on_record")
    >>> check_listener(lambda run: None, "on_record")
    Traceback (most recent call last):
    fedgs.errors.ConfigError: on_record must be a function of a run and a record, got <function ...
    """
    try:
        if not callable(function):
            raise TypeError
        try:
            signature = inspect.signature(function)
        except ValueError:  # built-in functions may have none
            return
        signature.bind(None, None)
    except TypeError:
        raise ConfigError(
            f"{setting} must be a function of a run and a record, got {shown(function)}"
        ) from None

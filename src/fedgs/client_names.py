"""Client names: which values may name a client, checked in one place for all data sources."""

import logging
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import cast

import numpy as np

from fedgs.errors import DataError

__all__ = ["LONG", "checked_names", "clean_name", "kept_names", "natural_key", "warn_of_text_order"]

_log = logging.getLogger("fedgs")

LONG = 1000
"""Up to so many clients, records and `Clients` hold a key for each of them in any case."""

_SMALLEST, _LARGEST = -(2**63), 2**63 - 1


def clean_name(name: object) -> str | int | None:
    """The name as a plain `str` or `int`, or None where it cannot name a client.

    Texts must not be empty and must have a form in UTF-8. Integers must fit 64 bits. Floats that
    are whole numbers become integers; booleans, NaN and None are no names.

    >>> clean_name(np.str_("a")), clean_name(np.int32(3)), clean_name(2.0)
    ('a', 3, 2)
    >>> clean_name(float("nan")), clean_name(True)
    (None, None)
    """
    if isinstance(name, str):
        return str(name) if name and _is_text(name) else None
    if isinstance(name, bool | np.timedelta64) or not isinstance(
        name, int | float | np.integer | np.floating
    ):
        return None
    try:
        whole = int(name)
    except (ValueError, OverflowError):  # NaN and inf
        return None
    return whole if whole == name and _SMALLEST <= whole <= _LARGEST else None


def checked_names(names: Iterable[object]) -> tuple[str | int, ...]:
    """The names as a tuple of `str` and `int`.

    Raises:
        DataError: not a collection of names, a name that is neither a text nor an integer, a name
            that occurs twice, or two names that are equal as text, such as 1 and "1".

    >>> checked_names(np.array([3, 5]))
    (3, 5)
    """
    if isinstance(names, str | bytes) or not isinstance(names, Iterable):
        raise DataError(f"client names must be a tuple with a name for each client, got {names!r}")
    raw = tuple(names)
    types = set(map(type, raw))
    valid = types <= {str} and "" not in raw and _is_text("".join(map(str, raw)))
    plain = cast(tuple[str, ...], raw) if valid else _cleaned(raw)
    if len(set(plain)) != len(plain):
        repeated = next(name for name in plain if plain.count(name) > 1)
        raise DataError(f"client names must be distinct, got {repeated!r} twice")
    if len(types) > 1 and len({str(name) for name in plain}) != len(plain):
        texts = {name for name in plain if isinstance(name, str)}
        repeated = next(name for name in plain if isinstance(name, int) and str(name) in texts)
        raise DataError(
            f"client names must be distinct as text, got {repeated!r} and {str(repeated)!r}"
        )
    return plain


def kept_names(names: Iterable[object]) -> tuple[str | int, ...] | range:
    """The names as `Clients` keeps them: checked; a range where they are 0..N-1 and N > 1000.

    Raises:
        DataError: see `checked_names`.

    >>> kept_names(list(range(2000))), kept_names(range(2))
    (range(0, 2000), (0, 1))
    """
    if not isinstance(names, range):
        names = checked_names(names)
    everyone = range(len(names))
    is_range = names == (everyone if isinstance(names, range) else tuple(everyone))
    return everyone if is_range and len(names) > LONG else checked_names(names)


def natural_key(name: str | int) -> tuple[tuple[str | int, ...], str]:
    """A sort key that compares the digits within texts as numbers.

    >>> sorted(["client10", "client2", "client1"], key=natural_key)
    ['client1', 'client2', 'client10']
    """
    text = str(name)
    # Pieces alternate, text, digits, text, ..., so equal positions have equal types.
    pieces = re.split(r"([0-9]+)", text)
    return tuple(int(piece) if place % 2 else piece for place, piece in enumerate(pieces)), text


@lru_cache(maxsize=64)
def warn_of_text_order(names: Sequence[str | int], what: str) -> None:
    """Log a warning, once, where a matrix is likely to list the clients in another order.

    That is where texts are sorted character by character and their numbers are not, as in client1,
    client10, client2.

    Args:
        names: the clients' names, in their order.
        what: the matrix, as the message calls it.
    """
    if not all(isinstance(name, str) for name in names) or list(names) != sorted(names, key=str):
        return
    natural = sorted(names, key=natural_key)
    pairs = enumerate(zip(names, natural, strict=True))
    row = next((row for row, (name, expected) in pairs if name != expected), None)
    if row is not None:
        _log.warning(
            "row %d of %s is read for client %r, since names are in the order of their characters "
            "(%r stands in row %d); Federation.from_arrays has client_order='natural'",
            row,
            what,
            names[row],
            natural[row],
            names.index(natural[row]),
        )


def _is_text(text: str) -> bool:
    """Whether a text can be written to a file; half of a surrogate pair cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _cleaned(names: tuple[object, ...]) -> tuple[str | int, ...]:
    plain: list[str | int] = []
    for position, name in enumerate(names):
        clean = clean_name(name)
        if clean is None:
            raise DataError(
                "client names must be non-empty texts or 64-bit integers, "
                f"got {name!r} for client {position}"
            )
        plain.append(clean)
    return tuple(plain)

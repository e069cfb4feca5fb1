"""Verification of a federation against a file, a folder or a fingerprint."""

import re
from pathlib import Path

from fedgs.data.difference import first_difference
from fedgs.data.federation import Federation
from fedgs.data.files import File
from fedgs.data.leaf import Leaf
from fedgs.errors import DataError

__all__ = ["verify"]


def verify(federation: Federation, reference: str) -> str | None:
    """The first difference between a federation and a reference, or None where they are the same.

    Args:
        federation: any.
        reference: an `.npz` or a LEAF folder that was exported, or the fingerprint (at least its
            first 12 digits).

    Raises:
        DataError: no such file, a broken one, or a text that is no fingerprint.

    >>> from fedgs.data.synthetic import Synthetic
    >>> federation = Synthetic(clients=2).load()
    >>> verify(federation, federation.fingerprint[:16]) is None
    True
    """
    path = Path(reference)
    if path.is_dir():
        return first_difference(federation, Leaf(path=reference).load())
    if path.is_file() or path.suffix == ".npz":
        return first_difference(federation, File(path=reference).load())
    digits = reference.lower()
    if not re.fullmatch(r"[0-9a-f]{12,64}", digits):
        raise DataError(
            "verify needs an exported .npz, an exported LEAF folder, "
            f"or 12 to 64 digits of a fingerprint; got {reference!r}"
        )
    if federation.fingerprint.startswith(digits):
        return None
    return f"the fingerprint is {federation.fingerprint[: len(digits)]}, expected {digits}"

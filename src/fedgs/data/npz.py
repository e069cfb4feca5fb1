"""Reads the arrays of an .npz file, none of which may be a pickle."""

import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from fedgs.arrays import AnyArray, IntArray, open_npz
from fedgs.errors import DataError

__all__ = ["integers", "read_npz"]


def read_npz(path: Path) -> dict[str, AnyArray]:
    """All arrays of an .npz file; members of other types are ignored.

    Raises:
        DataError: no such file, one that is truncated or not an .npz file, or an array of objects,
            which is named, since it is a pickle.
    """
    if not path.is_file():
        raise DataError(f"data.path: no file {str(path)!r}")
    try:
        with open_npz(path) as archive:
            members = {key: _read_array(archive, key, path) for key in archive.files}
            # NumPy returns the bytes of a member of the archive that is no .npy file
            return {key: array for key, array in members.items() if isinstance(array, np.ndarray)}
    except DataError:
        raise
    except (
        zipfile.BadZipFile,
        zlib.error,
        EOFError,
        OSError,
        ValueError,
        KeyError,
        TypeError,
    ) as error:
        raise DataError(
            f"{path} is truncated or is not an .npz file of plain arrays: {error}"
        ) from None


def _read_array(archive: Mapping[str, AnyArray], key: str, path: Path) -> AnyArray:
    try:
        return archive[key]
    except ValueError as error:
        # NumPy's words for an array of objects: it is a pickle, which is never loaded
        if "Object arrays" not in str(error):
            raise
    raise DataError(
        f"{path}: {key} must be an array of numbers or texts, got an array of objects; "
        f"save texts with {key}.astype(str) and numbers with {key}.astype(float)"
    )


def integers(value: AnyArray, where: str, *, low: int, high: int | None) -> IntArray:
    """(n,) int64 from integers or floats that are whole numbers."""
    allowed = f"integers >= {low}" if high is None else f"integers in {low}..{high}"
    if value.ndim != 1:
        raise DataError(
            f"{where} must have shape (n,), one for each example of x, got {value.shape}"
        )
    if value.dtype.kind not in "iuf":
        hint = ""
        if value.dtype.kind in "USMb":
            hint = "; number them with np.unique(ids, return_inverse=True)[1]"
        raise DataError(f"{where} must hold {allowed}, got {value.dtype}{hint}")
    with np.errstate(invalid="ignore"):
        fine = (value >= low) & (value < 2**63 if high is None else value <= high)
        if value.dtype.kind == "f":
            fine &= value == np.floor(value)
    wrong = np.flatnonzero(~fine)
    if len(wrong):
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        raise DataError(
            f"{where} must hold {allowed}, got {value[wrong[0]].item()} in row {wrong[0]}{more}"
        )
    return value.astype(np.int64)

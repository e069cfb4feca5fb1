"""How stored examples become model inputs, and which stored examples need that."""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Annotated

import numpy as np
import numpy.typing as npt
from pydantic import BeforeValidator, InstanceOf, PlainSerializer

from fedgs.arrays import AnyArray
from fedgs.errors import DataError

__all__ = [
    "Normalization",
    "NormalizationSetting",
    "as_normalization",
    "check_bytes",
    "chosen_normalization",
    "warn_of_pixels",
]

_log = logging.getLogger("fedgs")
_MAX_SMALL_INTEGER = 15  # bytes up to here may be small integers; images have larger ones
_HOW = "scale 255, mean 0.5 and sd 0.5"


@dataclass(frozen=True)
class Normalization:
    """How stored examples become model inputs: (x / scale - mean) / sd.

    The channels are axis 1 of x. A number, a list or an array for `mean` or `sd` becomes a tuple.
    By default examples are only scaled.

    Attributes:
        scale: above 0, such as 255 for bytes.
        mean: one number for each channel, or one for all.
        sd: one number above 0 for each channel, or one for all.

    Raises:
        DataError: not finite, not above 0, or lists of different lengths.

    >>> white = np.full((1, 1, 2, 2), 255, dtype=np.uint8)
    >>> Normalization(scale=255.0, mean=(0.5,), sd=(0.5,)).apply(white)[0, 0, 0]
    array([1., 1.], dtype=float32)
    """

    scale: float
    mean: tuple[float, ...] = (0.0,)
    sd: tuple[float, ...] = (1.0,)

    def __post_init__(self) -> None:
        scale = _listed("scale", self.scale)
        if len(scale) != 1 or not _float32(scale[0]) > 0:
            raise DataError(f"normalization.scale must be one number above 0, got {self.scale!r}")
        mean, sd = _listed("mean", self.mean), _listed("sd", self.sd)
        if len(mean) != len(sd) or not mean:
            raise DataError(
                "normalization.mean and normalization.sd must have one number for each channel, "
                f"got {len(mean)} and {len(sd)}"
            )
        if not all(_float32(entry) > 0 for entry in sd):
            raise DataError(f"normalization.sd must be above 0 in every channel, got {sd}")
        object.__setattr__(self, "scale", scale[0])
        object.__setattr__(self, "mean", mean)
        object.__setattr__(self, "sd", sd)

    def apply(self, x: AnyArray) -> npt.NDArray[np.float32]:
        """(b, channels, ...) stored examples -> (b, channels, ...) float32."""
        shape = (1, len(self.mean)) + (1,) * (x.ndim - 2)
        mean = np.asarray(self.mean, dtype=np.float32).reshape(shape)
        sd = np.asarray(self.sd, dtype=np.float32).reshape(shape)
        return (x.astype(np.float32) / np.float32(self.scale) - mean) / sd

    def check(self, shape: tuple[int, ...]) -> None:
        """Refuse examples of `shape` that have another number of channels.

        Raises:
            DataError: the message says where the channels must be.
        """
        given = len(self.mean)
        if given in (1, shape[0]):
            return
        hint = ""
        if given in shape:
            axis = len(shape) - 1 - shape[::-1].index(given)
            hint = f"; channels come first, so use np.moveaxis(x, {axis + 1}, 1)"
            if axis == len(shape) - 1 >= 1:
                hint += " or channels = 'last'"
        raise DataError(
            f"normalization must have one mean and sd or one for each of the {shape[0]} channels "
            f"of examples of shape {shape}, got {given}{hint}"
        )

    def check_range(self, x: AnyArray, where: str) -> None:
        """Refuse examples whose smallest or largest value would not become a finite input.

        O(n·d) for floats.

        Raises:
            DataError: the message has the value.
        """
        if x.size == 0:
            return
        narrow = x.dtype.kind in "iu" and x.dtype.itemsize == 1
        bounds = (
            (np.iinfo(x.dtype).min, np.iinfo(x.dtype).max)
            if narrow
            else (x.min().item(), x.max().item())
        )
        for bound in bounds:
            with np.errstate(over="ignore", invalid="ignore"):
                inputs = self.apply(np.full((1, len(self.mean)), bound, dtype=np.float64))
            if not np.isfinite(inputs).all():
                raise DataError(
                    "normalization must leave inputs within float32's range, "
                    f"got {inputs[~np.isfinite(inputs)][0]} for the value {bound:.6g} of the "
                    f"{where} (scale {self.scale}, mean {self.mean}, sd {self.sd})"
                )


def as_normalization(value: object) -> Normalization | None:
    """A normalization from a table or the object itself; None stays None.

    The defaults of a table are `scale` 1, `mean` 0 and `sd` 1.

    Raises:
        DataError: something else, or a table with other keys.

    >>> as_normalization({"scale": 255.0, "mean": 0.5, "sd": 0.5})
    Normalization(scale=255.0, mean=(0.5,), sd=(0.5,))
    """
    if value is None or isinstance(value, Normalization):
        return value
    if not isinstance(value, Mapping) or not value or not set(value) <= {"scale", "mean", "sd"}:
        shown = (
            f"the keys {', '.join(map(str, value)) or 'none'}"
            if isinstance(value, Mapping)
            else repr(value)
        )
        raise DataError(
            f"normalization must be a table with scale, mean and sd, such as {_HOW}, got {shown}"
        )
    return Normalization(**{"scale": 1.0, **value})


def chosen_normalization(
    setting: Normalization | None, table: object, where: str
) -> Normalization | None:
    """The normalization of a file, which may store one itself.

    Args:
        setting: the user's; None: the stored one.
        table: the stored one in the forms of `as_normalization`.
        where: what messages call the file.

    Raises:
        DataError: the setting and the stored normalization differ.
    """
    stored = as_normalization(table)
    if setting is not None and stored not in (None, setting):
        raise DataError(
            f"data.normalization must be left out or equal to the one stored in {where}, {stored}, "
            f"got {setting}"
        )
    return setting or stored


def _table(value: Normalization | None) -> dict[str, object] | None:
    if value is None:
        return None
    return {
        key: list(part) if isinstance(part, tuple) else part for key, part in asdict(value).items()
    }


# The type of a setting that holds a normalization: in a configuration it is a table.
NormalizationSetting = Annotated[
    InstanceOf[Normalization] | None,
    BeforeValidator(as_normalization),
    PlainSerializer(_table, return_type=dict[str, object] | None),
]


def check_bytes(x: AnyArray, where: str) -> None:
    """Refuse images held as bytes for which no normalization is given.

    O(n) where all values are small.

    Raises:
        DataError: uint8 examples with two or more axes and a value above 15.
    """
    if x.dtype != np.uint8 or x.ndim < 3:
        return
    for start in range(0, len(x), 1024):
        largest = int(x[start : start + 1024].max(initial=0))
        if largest > _MAX_SMALL_INTEGER:
            raise DataError(
                f"{where} of type uint8 and shape {x.shape[1:]} must have a normalization, "
                f"such as {_HOW}, got none and values up to {largest}; "
                "scale 1, mean 0 and sd 1 leave them as they are"
            )


def warn_of_pixels(x: AnyArray, name: str) -> None:
    """Log a warning for examples that look like images on the scale 0..255 without a normalization.

    These are whole numbers from 0 to 255, some above 127, in examples with two or more axes or at
    least 64 features. Images of type uint8 get no warning, since `check_bytes` refuses them.
    """
    if (
        x.dtype.kind == "b"
        or (x.ndim < 3 and x.shape[1] < 64)
        or (x.dtype == np.uint8 and x.ndim >= 3)
    ):
        return
    largest = 0
    for start in range(0, len(x), 1024):
        block = x[start : start + 1024]
        if (
            block.min(initial=0) < 0
            or block.max(initial=0) > 255
            or (block.dtype.kind == "f" and np.any(block != np.floor(block)))
        ):
            return
        largest = max(largest, int(block.max(initial=0)))
    if largest > 127:
        _log.warning(
            "the examples of %s are whole numbers from 0 to %d, as pixels are, "
            "and models receive them as they are; "
            "a normalization such as %s brings them to the scale of 1",
            name,
            largest,
            _HOW,
        )


def _listed(key: str, value: object) -> tuple[float, ...]:
    """Finite numbers as a tuple of Python's numbers, integers kept as integers."""
    plain = value.tolist() if isinstance(value, np.ndarray | np.generic) else value
    if not isinstance(plain, Iterable) or isinstance(plain, str | bytes | Mapping):
        plain = (plain,)
    numbers: list[float] = []
    for entry in plain:
        number = entry.item() if isinstance(entry, np.generic) else entry
        if (
            not isinstance(number, int | float)
            or isinstance(number, bool)
            or not np.isfinite(_float32(number))
        ):
            raise DataError(
                f"normalization.{key} must be finite numbers within float32's range, got {value!r}"
            )
        numbers.append(number)
    return tuple(numbers)


def _float32(value: float) -> np.float32:
    try:
        with np.errstate(over="ignore"):
            return np.float32(value)
    except OverflowError:  # an integer beyond float64
        return np.float32(np.inf)

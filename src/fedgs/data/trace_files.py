"""Public traces of devices, and how they are fetched."""

import contextlib
import logging
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from fedgs.data.locate import reason_of
from fedgs.errors import DataError, require_extra
from fedgs.traces import Traces, convert

__all__ = ["FLAME_FILES", "fetch_flame"]

_FLAME_COMMIT = "6ef1133bbf8cfc64589ad56d982523538c4cdad3"
_FLAME_FOLDER = (
    "lib/python/examples/async_cifar10/trainer/config_dir0.1_num300_traceFail_6d_3state_oort"
)
_FLAME_URL = f"https://raw.githubusercontent.com/dhruvsgarg/flame/{_FLAME_COMMIT}/{_FLAME_FOLDER}/"
FLAME_FILES = tuple(f"trainer_{number}.json" for number in range(1, 301))
# `Traces.digest` of the converted files.
_FLAME_DIGEST = "82e6def48d55500b55c526ac13b25680b017586ffe93573683ef66d281fe28b8"


def fetch_flame() -> Traces:
    """The traces of 300 phones in Cisco Flame's examples, downloaded from one commit.

    300 files of 3.3 MB are downloaded into a temporary folder and converted. The hash of the
    intervals is checked. The phones charge for 6 days of January and February 2020; the data are
    from FLASH (BSD-2-Clause), the files from a fork of Flame (Apache-2.0).

    Raises:
        DataError: no connection, a file that is missing or truncated, or other intervals.
        MissingExtraError: pooch is not installed.
    """
    with tempfile.TemporaryDirectory(prefix="fedgs-flame-") as folder:
        place = Path(folder)
        _download(_FLAME_URL, FLAME_FILES, place)
        traces = convert(place, form="flame")
    if traces.digest != _FLAME_DIGEST:
        raise DataError(
            f"the traces of {_FLAME_URL} have the wrong hash, so they were not kept: expected "
            f"{_FLAME_DIGEST}, got {traces.digest}"
        )
    origin = {
        "source": f"github.com/dhruvsgarg/flame, commit {_FLAME_COMMIT}, {_FLAME_FOLDER}",
        "licence": "Apache-2.0; data made from FLASH, BSD-2-Clause",
        "rule": "charging",
        "second_0": "18:00",
    }
    return replace(traces, origin={**traces.origin, **origin})


def _download(base_url: str, files: tuple[str, ...], folder: Path) -> None:
    """Download files whose content is checked together, later."""
    try:
        import pooch
    except ImportError:
        raise require_extra("pooch", "sim") from None
    with _quiet(pooch.get_logger()):
        for name in files:
            url = base_url + name
            try:
                pooch.retrieve(url, known_hash=None, fname=name, path=folder, progressbar=False)
            except OSError as error:
                raise DataError(f"{url} could not be downloaded ({reason_of(error)})") from None


@contextlib.contextmanager
def _quiet(logger: logging.Logger) -> Iterator[None]:
    """Without a line for every file."""
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before

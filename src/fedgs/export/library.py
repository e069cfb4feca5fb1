"""Libraries that only an export needs, imported when it is asked for."""

import importlib
from typing import Any

from fedgs.errors import MissingExtraError

__all__ = ["library"]


def library(module: str, what: str) -> Any:
    """The imported module.

    Args:
        module: such as "pyarrow.parquet".
        what: what needs it, as the beginning of a sentence.

    Raises:
        MissingExtraError: the library is not installed; the message has the command.

    >>> library("json", "this").dumps([1])
    '[1]'
    >>> library("not_there.at_all", "--to nowhere")
    Traceback (most recent call last):
    fedgs.errors.MissingExtraError: --to nowhere needs 'not_there', which is not installed:
    pip install not_there
    """
    name = module.partition(".")[0]
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != name:
            raise
        raise MissingExtraError(
            f"{what} needs '{name}', which is not installed: pip install {name}"
        ) from None

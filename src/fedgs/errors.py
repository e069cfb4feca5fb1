"""Every error that fedgs raises on purpose.

All derive from `FedgsError`. The message is one sentence for the user that names the setting, what
is allowed and the value that was given. The command line turns `UserError` into exit code 2 and
`RunError` into exit code 1, without a traceback.

>>> import fedgs
>>> try:
...     fedgs.Evaluation(every=0)
... except fedgs.errors.UserError as error:
...     print(error)
evaluation.every should be greater than or equal to 1, got 0
"""

import contextlib
import os
import traceback
from collections.abc import Iterator
from pathlib import Path

_PACKAGE = str(Path(__file__).resolve().parent)
_EXTRAS = {
    "torch": "sim",
    "safetensors": "sim",
    "pooch": "sim",
    "cloudpickle": "sim",
    "matplotlib": "report",
    "plotly": "report",
    "cryptography": "secure",
    "flwr": "flower",
    "ray": "cluster",
}


class FedgsError(Exception):
    """Base of all errors of this package."""


class UserError(FedgsError, ValueError):
    """The request cannot be carried out; nothing has been written."""


class ConfigError(UserError):
    """A setting is unknown, of the wrong type or out of range."""


class DataError(UserError):
    """A federation, or a file that it is made from, is not usable."""


class GraphError(UserError):
    """Similarities, an adjacency matrix or distances are not usable."""


class SelectionError(UserError):
    """A selection problem, or a sampler's answer to it, is not valid."""


class OutputError(UserError):
    """An output folder or a stored record cannot be used."""


class MissingExtraError(UserError, ImportError):
    """An optional dependency is not installed; the message says which extra brings it."""


class ProtocolError(FedgsError):
    """A message of the secure scalar product is malformed, replayed, reordered or forged.

    `sender` is the number of the party that the message came from; None where it is unknown.
    """

    def __init__(self, message: str, *, sender: int | None = None) -> None:
        super().__init__(message)
        self.sender = sender


class RunError(FedgsError):
    """A run could not continue; other runs are not affected."""


class WorkerError(RunError):
    """A worker process crashed repeatedly, and its runs could not be carried out."""


class UpdateError(RunError):
    """A client's update, or the average of the updates, is not finite."""


class ClientError(RunError):
    """A client failed.

    `client` is its index in the federation, and `__cause__` is the original exception.
    """

    def __init__(self, client: int, message: str) -> None:
        super().__init__(message)
        self.client = client

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.client, *self.args), vars(self)


def require_extra(module: str, extra: str) -> MissingExtraError:
    """The error to raise when an optional `module` cannot be imported.

    >>> str(require_extra("torch", "sim"))
    "this needs 'torch', which is not installed: pip install 'fedgs[sim]'"
    """
    return MissingExtraError(
        f"this needs '{module}', which is not installed: pip install 'fedgs[{extra}]'"
    )


def missing_extra(error: ModuleNotFoundError) -> MissingExtraError | None:
    """The error to show for a failed import, if an extra would install the module, else None.

    >>> str(missing_extra(ModuleNotFoundError("No module named 'torch'", name="torch")))
    "this needs 'torch', which is not installed: pip install 'fedgs[sim]'"
    """
    module = (error.name or "").split(".")[0]
    return require_extra(module, _EXTRAS[module]) if module in _EXTRAS else None


def shown(value: object, limit: int = 100) -> str:
    """A value in one line, as messages show it, cut to `limit` characters.

    >>> shown("uniform"), shown([[0] * 9] * 9, limit=16)
    ("'uniform'", '[[0, 0, 0, 0,...')
    >>> shown([10**5000])
    'list that cannot be printed'
    """
    try:
        text = " ".join(repr(value).split())
    except ValueError:  # such as a whole number of more than 4300 digits
        text = f"{type(value).__name__} that cannot be printed"
    return text if len(text) <= limit else f"{text[: limit - 3]}..."


@contextlib.contextmanager
def user_code(what: str) -> Iterator[None]:
    """Turn errors of code that users write into a `ConfigError` with the user's traceback.

    Errors of this package pass unchanged, and so do a lack of memory and a missing extra.

    Args:
        what: the code, as the beginning of a sentence.

    >>> with user_code("model 'mine'"):
    ...     len(5)
    Traceback (most recent call last):
    fedgs.errors.ConfigError: model 'mine' raised TypeError: object of type 'int' has no len()
    """
    try:
        yield
    except (FedgsError, MemoryError):
        raise
    except (Exception, SystemExit) as error:
        if isinstance(error, ModuleNotFoundError) and missing_extra(error) is not None:
            raise
        raise ConfigError(
            f"{what} raised {type(error).__name__}: {error}{_user_lines(error)}"
        ) from error


def _user_lines(error: BaseException) -> str:
    """The user's part of a traceback as further lines of a message, if there is any."""
    frames = _user_frames(error)
    return f"\n{own_traceback(error)}" if frames or isinstance(error, SyntaxError) else ""


def _user_frames(exception: BaseException) -> list[traceback.FrameSummary]:
    """The frames of a traceback outside this package, installed libraries and the import system."""
    others = (_PACKAGE, "<frozen ", "<doctest ")
    installed = f"{os.sep}site-packages{os.sep}"
    return [
        frame
        for frame in traceback.extract_tb(exception.__traceback__)
        if not frame.filename.startswith(others) and installed not in frame.filename
    ]


def own_traceback(exception: BaseException) -> str:
    """The user's part of a traceback: without frames of this package and of installed libraries.

    Where no frame is left, all are shown. An error of this package, or of a file that is not
    Python, without any frame of the user's is shown without frames.
    """
    user_frames = _user_frames(exception)
    if not user_frames and isinstance(exception, FedgsError | SyntaxError):
        return "".join(traceback.format_exception_only(exception))
    frames = user_frames or traceback.extract_tb(exception.__traceback__)
    return "".join(
        [
            "Traceback (most recent call last):\n",
            *traceback.StackSummary.from_list(frames).format(),
            *traceback.format_exception_only(exception),
        ]
    )

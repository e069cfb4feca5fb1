"""The arguments of the functions for figures: runs in any form that a user has, and arrays.

Everything else is refused with an error that says what the function takes.
"""

import logging
from collections.abc import Iterable, Sequence

import numpy as np

from fedgs.arrays import AnyArray, FloatMatrix, IntArray
from fedgs.clients import Clients
from fedgs.errors import ConfigError, FedgsError, OutputError
from fedgs.plurals import counted
from fedgs.report.doubles import latest
from fedgs.report.labels import labelled
from fedgs.report.run_view import Run

__all__ = [
    "as_label_counts",
    "as_matrix",
    "as_run",
    "as_run_list",
    "as_runs",
    "description",
    "group_titles",
    "rates_of",
]

_log = logging.getLogger("fedgs")

_RUNS = "runs, such as the list that read_runs gives"
_ONE_RUN = "one run, such as the first of those that read_runs gives"


def as_runs(given: object, function: str, *, what: str = _RUNS) -> list[Run]:
    """The runs as `as_run_list` gives them, one of each group, label and replicate.

    A warning names those that are left out.

    >>> [run.label for run in as_runs(Run({"method": {"name": "md"}}, ()), "loss_curves")]
    ['md']
    """
    shown, left_out = latest(as_run_list(given, function, what=what))
    for sentence in left_out:
        _log.warning("%s: %s", function, sentence)
    return shown


def as_run_list(given: object, function: str, *, what: str = _RUNS) -> list[Run]:
    """The runs of a list, of the results of `fedgs.compare`, or a single run, with their labels.

    Args:
        given: the user's argument.
        function: the name of the user's function, with which errors begin.
        what: what the function takes, in words.

    Raises:
        ConfigError: not runs, or none.
    """
    inner = getattr(given, "runs", given)  # what `compare` returns has `runs`
    runs: list[Run] = []
    for item in [inner] if isinstance(inner, Run) or not isinstance(inner, Iterable) else inner:
        if not isinstance(item, Run):
            raise ConfigError(f"{function} takes {what}; got {description(given)}")
        runs.append(item)
    if not runs:
        raise ConfigError(f"{function} takes at least one run; got none")
    return runs if all(run.label for run in runs) else labelled(runs)


def as_run(given: object, function: str, *, what: str = _ONE_RUN) -> Run:
    """One run, alone or as the only one of a list.

    Raises:
        ConfigError: not a run, or several.
    """
    runs = as_runs(given, function, what=what)
    if len(runs) > 1:
        raise ConfigError(
            f"{function} takes one run, such as runs[0]; got {counted(len(runs), 'run')}"
        )
    return runs[0]


def as_label_counts(given: object, function: str) -> IntArray:
    """(N, C) training examples by client and label.

    They are those of a run, of runs that share their clients, of clients, or of a matrix.

    Raises:
        ConfigError: none of these, or runs with different clients.
        OutputError: a run whose clients or labels are not known.
    """
    clients = getattr(given, "clients", given)  # a federation has them
    if isinstance(clients, Clients) and not isinstance(given, Run):
        if clients.label_counts is None:
            raise ConfigError(f"{function} needs clients with label counts; these have none")
        return clients.label_counts
    if _is_array_like(given):
        return as_matrix(given, function, "(N, C) training examples by client and label", low=0)
    runs = as_runs(given, function, what="a run, clients with label counts, or (N, C) label counts")
    first, *others = (_known_counts(run) for run in runs)
    if any(not np.array_equal(first, other) for other in others):
        raise ConfigError(
            f"{function} takes one federation; these {len(runs)} runs have different clients: "
            "give one run, such as runs[0]"
        )
    return first


def _known_counts(run: Run) -> IntArray:
    if run.clients is None:
        raise OutputError(f"{run.name} has no readable clients.npz, so its clients cannot be drawn")
    if run.clients.label_counts is None:
        raise OutputError(f"the labels of the clients of {run.name} are not known")
    return run.clients.label_counts


def as_matrix(
    given: object, function: str, what: str, *, low: float | None = None, high: float | None = None
) -> AnyArray:
    """A matrix of numbers or truth values, checked.

    Args:
        given: the user's argument.
        function: the name of the user's function, with which errors begin.
        what: shape and meaning in words.
        low: smallest value allowed; None: any.
        high: largest value allowed; None: any.

    Raises:
        ConfigError: another shape, no numbers, or a value out of range.

    >>> as_matrix([[0, 1]], "rates_map", "(N, T) rates", high=1).shape
    (1, 2)
    """
    try:
        matrix = np.asarray(given)
    except ValueError:  # rows of different lengths
        raise ConfigError(f"{function} takes {what}; got rows of different lengths") from None
    if matrix.ndim != 2 or matrix.size == 0 or matrix.dtype.kind not in "biuf":
        raise ConfigError(f"{function} takes {what}; got {description(given)}")
    inside = np.isfinite(matrix) & (low is None or matrix >= low) & (high is None or matrix <= high)
    if not inside.all():
        bounds = ""
        if low is not None:
            bounds = f" of at least {low:g}" if high is None else f" in [{low:g}, {high:g}]"
        raise ConfigError(
            f"{function} takes {what}, finite values{bounds}; got {matrix[~inside][0]}"
        )
    return matrix


def _is_array_like(given: object) -> bool:
    """Whether it is an array, or lists of lists without a run."""
    if isinstance(given, np.ndarray):
        return True
    rows = list(given) if isinstance(given, Sequence) and not isinstance(given, str) else []
    return bool(rows) and all(
        isinstance(row, Sequence | np.ndarray) and not any(isinstance(item, Run) for item in row)
        for row in rows
    )


def rates_of(run: Run, function: str) -> FloatMatrix:
    """(N, T) availability rates of a run in all its rounds, from its settings and clients.

    Raises:
        OutputError: the clients are not known, or the mode is not registered here, as in a
            deployment.
    """
    from fedgs.availability.base import Availability, checked_rates
    from fedgs.registry import build

    if run.clients is None:
        raise OutputError(f"{run.name} has no readable clients.npz, so its rates are not known")
    try:
        mode = build("availability", dict(run.table("availability")))
        if not isinstance(mode, Availability):
            raise TypeError(mode)
        rates = [checked_rates(mode, run.clients, t) for t in range(max(1, run.rounds))]
    except (FedgsError, TypeError) as error:
        raise OutputError(
            f"{function}: the rates of {run.name} cannot be computed: {error}"
        ) from None
    return np.stack(rates, axis=1)


def group_titles(groups: Sequence[tuple[str, str]]) -> list[str]:
    """A title for each group: the availability; and the data, unless all groups share it.

    >>> group_titles([("Synthetic", "IDL"), ("Synthetic", "LDF 0.7")])
    ['IDL', 'LDF 0.7']
    >>> group_titles([("a", "IDL"), ("b", "IDL")])
    ['a, IDL', 'b, IDL']
    """
    is_shared = len({data for data, _ in groups}) == 1 and len(groups) > 1
    return [
        availability if is_shared else ", ".join(part for part in (data, availability) if part)
        for data, availability in groups
    ]


def description(given: object) -> str:
    """An object in a few words, for errors.

    >>> description(np.zeros(3)), description([1, 2]), description(None), description(([], []))
    ('an array of shape (3,)', 'a list with int inside', 'None', 'a tuple with list inside')
    """
    if given is None or isinstance(given, bool | int | float | str):
        return repr(given)
    if isinstance(given, np.ndarray):
        dtype = f" of type {given.dtype}" if given.dtype.kind not in "biuf" else ""
        return f"an array of shape {given.shape}{dtype}"
    if isinstance(given, list | tuple | set) and given:
        inside = next((item for item in given if not isinstance(item, Run)), next(iter(given)))
        return f"a {type(given).__name__} with {type(inside).__name__} inside"
    return f"a {type(given).__name__}"

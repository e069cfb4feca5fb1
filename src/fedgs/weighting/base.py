"""The interface of weightings: a frozen variant with `weights`, and a memory if it needs one."""

from typing import Annotated, ClassVar

import numpy as np
from pydantic import BeforeValidator, PlainSerializer

from fedgs.arrays import FloatArray
from fedgs.clients import Clients, Memory, Outcome, Selection, View
from fedgs.errors import ConfigError, SelectionError, UpdateError
from fedgs.registry import Variant, build, table

__all__ = [
    "Weighting",
    "WeightingSetting",
    "as_weighting",
    "checked_weights",
    "weighting_of_selection",
]


class Weighting(Variant):
    """Base of all weightings: fields are settings, the object has no state.

    In a round the server moves by sum_k w_k (theta_k - theta^t) over the cohort.

    >>> class SquareRoot(Weighting):
    ...     def weights(self, view, selection, memory):
    ...         return np.sqrt(view.clients.data_sizes[selection.clients])
    >>> clients, counts = Clients((0, 1, 2), np.array([1, 9, 4])), np.zeros(3, dtype=np.int64)
    >>> view = View(0, clients, np.array([0, 1]), counts, cohort_limit=2)
    >>> checked_weights(SquareRoot(), view, Selection(np.array([0, 1])), {}).tolist()
    [0.25, 0.75]
    """

    family: ClassVar[str] = "weighting"
    reads_rates: ClassVar[bool] = False
    """Whether `weights` needs `view.rates`, which a deployment does not know."""

    @property
    def is_normalised(self) -> bool:
        """Whether the weights are divided by their sum; if not, they may have any sum."""
        return True

    def check(self, clients: Clients, cohort_limit: int, method: Variant) -> None:
        """Raise `ConfigError` if the weights would not be what the rule promises.

        Args:
            clients: all N clients.
            cohort_limit: M, the largest cohort.
            method: the sampler.
        """

    def start(self, clients: Clients, cohort_limit: int) -> Memory:
        """The memory before round 0: named arrays, saved with the state of the run."""
        return {}

    def weights(self, view: View, selection: Selection, memory: Memory) -> FloatArray:
        """The weights of the cohort in round t.

        Args:
            view: what the sampler saw; `view.shares` are the p_k of the objective.
            selection: the clients whose updates enter, in ascending order; at least one.
            memory: of the rounds before t.

        Returns:
            (m,) finite and >= 0.
        """
        raise TypeError(f"{type(self).__name__} must define weights(view, selection, memory)")

    def observe(self, memory: Memory, view: View, outcome: Outcome | None) -> Memory:
        """The memory after a round; called in every round.

        Args:
            memory: of the rounds before t.
            view: of round t; `view.available` may be empty.
            outcome: the clients whose updates entered, with the weights as applied; None: the round
                was empty or aborted.
        """
        return memory


def as_weighting(value: object, *, setting: str = "weighting") -> Weighting:
    """The weighting that a name, a table or an object stands for.

    Args:
        value: what was given.
        setting: where it was given, for messages.

    Raises:
        ConfigError: no such weighting.

    >>> as_weighting("equal")
    Equal()
    """
    try:
        weighting = build("weighting", value)
    except ConfigError as error:
        text = str(error).removeprefix("weighting")
        raise ConfigError(f"{setting}{text.removeprefix('.name')}") from None
    assert isinstance(weighting, Weighting)
    return weighting


def weighting_of_selection(value: object) -> Weighting:
    """The weighting that a `Selection` names for its round alone.

    Raises:
        SelectionError: it has a memory, which would miss the other rounds, or reads rates.

    >>> weighting_of_selection("draws")
    Draws()
    """
    weighting = as_weighting(value)
    if type(weighting).observe is not Weighting.observe or weighting.reads_rates:
        raise SelectionError(
            "weighting of a Selection must be one that reads neither rates nor earlier rounds; got "
            f"{weighting.name or type(weighting).__name__!r}, "
            "which can be the setting method.weighting"
        )
    return weighting


def checked_weights(
    weighting: Weighting, view: View, selection: Selection, memory: Memory
) -> FloatArray:
    """The weights w_k as they are applied.

    Args:
        weighting: the rule.
        view: what the sampler saw.
        selection: the clients whose updates enter.
        memory: the weighting's.

    Returns:
        (m,) weights >= 0; their sum is 1 if the weighting is normalised.

    Raises:
        UpdateError: a weight is negative, NaN or inf, their number is not m, or a normalised
            weighting gives only 0.

    >>> clients, counts = Clients((0, 1, 2), np.array([1, 9, 3])), np.array([4, 0, 1])
    >>> view = View(5, clients, np.array([0, 2]), counts, cohort_limit=2)
    >>> both = Selection(np.array([0, 2]))
    >>> checked_weights(as_weighting("data_size"), view, both, {}).tolist()
    [0.25, 0.75]
    >>> unnormalised = {"name": "inverse_participation", "normalise": False}
    >>> (13 * checked_weights(as_weighting(unnormalised), view, both, {})).round(6).tolist()
    [1.2, 9.0]
    """
    raw = np.asarray(weighting.weights(view, selection, memory), dtype=np.float64)
    name = weighting.name or type(weighting).__name__
    if raw.shape != selection.clients.shape:
        raise UpdateError(
            f"aggregation weights ({name}) must have shape {selection.clients.shape}, "
            f"got {raw.shape}"
        )
    total = float(raw.sum())
    if not (raw.min(initial=np.inf) >= 0 and total < np.inf):  # NaN fails both
        raise UpdateError(
            f"aggregation weights ({name}) must be finite and >= 0, got {raw.tolist()}"
        )
    if not weighting.is_normalised:
        return raw
    if total <= 0:
        raise UpdateError(f"aggregation weights ({name}) must not all be 0, got {raw.tolist()}")
    weights: FloatArray = raw / total
    return weights


def _checked_setting(value: object) -> object:
    """A name stays a name; a table becomes the weighting."""
    try:
        weighting = as_weighting(value, setting="method.weighting")
    except ConfigError as error:
        raise ValueError(str(error)) from None
    return value if isinstance(value, str) else weighting


def _as_table(value: object) -> object:
    return table(value) if isinstance(value, Weighting) else value


WeightingSetting = Annotated[
    str | Weighting, BeforeValidator(_checked_setting), PlainSerializer(_as_table)
]
"""The type of a sampler's setting `weighting`: a name, a table or an object."""

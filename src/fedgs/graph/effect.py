"""Which of the graph's settings change anything beside the others: one table, used to refuse those that do not."""

from collections.abc import Mapping
from typing import Any

__all__ = ["without_effect"]

_PRODUCTS = ("oracle", "private")
_MODELS = ("update", "functional")

# Setting -> for which values of other settings it has an effect; the first that does not hold is
# named.
_NEEDS: dict[str, tuple[tuple[str, tuple[str, ...]], ...]] = {
    "normalize_by_norm": (("similarity", _PRODUCTS), ("construction", ("threshold",))),
    "normalize_over": (("similarity", _PRODUCTS), ("construction", ("threshold",))),
    "rescale": (("similarity", _MODELS), ("construction", ("threshold",))),
    "epsilon": (("construction", ("threshold",)),),
    "sigma_squared": (("construction", ("threshold",)),),
    "power": (("construction", ("threshold",)),),
    "noise_samples": (("similarity", ("functional",)),),
    "noise_examples": (("similarity", ("functional",)),),
    "covariance": (("similarity", ("functional",)),),
    "layer": (("similarity", ("functional",)),),
    "sketch": (("similarity", ("update",)),),
    "protocol": (("similarity", ("private",)),),
    "dealer": (("similarity", ("private",)),),
    "value_range": (("similarity", ("private",)), ("protocol", ("ring",))),
    "refresh": (("similarity", _MODELS), ("start", ("seen",))),
}
# Where a file gives the graph, only these matter; that it cannot start with "seen" is found by the
# sampler's check.
_BESIDE_PATH = ("path", "start")


def without_effect(
    settings: Mapping[str, Any], standard: Mapping[str, Any], *, where: str
) -> dict[str, str]:
    """The given settings that change nothing beside the others -> the sentence that says so.

    A value that applies anyway (the default, or the preset's) is no statement: tables that state
    every value stay valid.

    Args:
        settings: what is given, as a user writes it.
        standard: the values that apply where nothing is given.
        where: the dotted name of the table, for messages.

    >>> without_effect({"epsilon": 0.2, "construction": "complete"}, {"epsilon": 0.1}, where="method.graph")
    {'epsilon': "method.graph.epsilon has no effect with construction 'complete'; it belongs to 'threshold'"}
    """
    chosen = {**standard, **settings}
    given = [key for key, value in settings.items() if key in standard and value != standard[key]]
    if chosen.get("path") is not None:
        return {
            key: f"{where}.{key} has no effect where {where}.path gives the graph; leave one of them out"
            for key in given
            if key not in _BESIDE_PATH
        }
    found: dict[str, str] = {}
    for key in given:
        for decides, values in _NEEDS.get(key, ()):
            if chosen.get(decides) not in values:
                belongs = " or ".join(repr(value) for value in values)
                found[key] = (
                    f"{where}.{key} has no effect with {decides} {chosen.get(decides)!r}; it belongs to {belongs}"
                )
                break
    return found

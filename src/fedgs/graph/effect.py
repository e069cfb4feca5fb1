"""Which of the graph's settings have an effect together with the others, as one table."""

from collections.abc import Mapping

__all__ = ["without_effect"]

_PRODUCTS = ("oracle", "private")
_MODELS = ("update", "functional")

_WITH_LANDMARKS = (
    ("construction", ("threshold",)),
    ("similarity", ("oracle", *_MODELS)),
)

# Setting -> the values of other settings with which it has an effect. The first condition that does
# not hold is reported.
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
    "structure": _WITH_LANDMARKS,
    "landmarks": (("structure", ("auto", "landmarks")), *_WITH_LANDMARKS),
}
# If a file gives the graph, only these have an effect. The sampler's check refuses start "seen".
_WITH_PATH = ("path", "start")


def without_effect(
    settings: Mapping[str, object], standard: Mapping[str, object], *, where: str
) -> dict[str, str]:
    """The given settings that have no effect together with the others, each with its message.

    A setting that is given its standard value is accepted, so that tables that state every value
    stay valid.

    Args:
        settings: what the user gives.
        standard: the default or preset values of settings that are not given.
        where: the dotted name of the table, for messages.

    >>> without_effect(
    ...     {"epsilon": 0.2, "construction": "complete"}, {"epsilon": 0.1}, where="method.graph"
    ... )["epsilon"]
    "method.graph.epsilon has no effect with construction 'complete'; it belongs to 'threshold'"
    """
    chosen = {**standard, **settings}
    given = [key for key, value in settings.items() if key in standard and value != standard[key]]
    if chosen.get("path") is not None:
        return {
            key: f"{where}.{key} has no effect where {where}.path gives the graph; leave one of "
            "them out"
            for key in given
            if key not in _WITH_PATH
        }
    messages: dict[str, str] = {}
    for key in given:
        for decides, values in _NEEDS.get(key, ()):
            if chosen.get(decides) not in values:
                belongs = " or ".join(repr(value) for value in values)
                messages[key] = (
                    f"{where}.{key} has no effect with {decides} {chosen.get(decides)!r}; it "
                    f"belongs to {belongs}"
                )
                break
    return messages

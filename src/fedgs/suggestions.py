"""What an unknown name was meant to be: the nearest known name, or the full path of a setting."""

import difflib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import takewhile
from typing import Any, get_args

from pydantic import BaseModel

from fedgs.families import FAMILIES

__all__ = ["meant_setting", "nearest", "setting_paths"]

VariantsOf = Callable[[str], Iterable[type[BaseModel]]]


def nearest(name: str, known: Iterable[str]) -> str:
    """'; did you mean ...?' with the closest known name, or an empty string.

    >>> nearest("LFD", ["IDL", "LDF"])
    "; did you mean 'LDF'?"
    """
    close = _closest(name, known, cutoff=0.5)
    return "" if close is None else f"; did you mean {close!r}?"


def meant_setting(
    key: str, models: Iterable[type[BaseModel]], *, prefix: str, variants: VariantsOf
) -> str:
    """'; did you mean ...?' for a setting that the models do not have, or an empty string.

    A setting of this name in a table inside the models comes first, with its full path. Otherwise
    it is the closest name, of the models themselves where two are equally close.

    Args:
        key: what was given, without the prefix.
        models: that could have had the setting.
        prefix: dotted path of the models, with the dot at its end.
        variants: family -> the classes of its variants.

    >>> from fedgs.config import Config
    >>> from fedgs.registry import variant_classes
    >>> meant_setting("rounds", [Config], prefix="", variants=variant_classes)
    "; did you mean 'training.rounds'?"
    >>> meant_setting("beta", [Config], prefix="", variants=variant_classes)
    "; did you mean 'availability.beta', 'method.beta' or 'aggregation.beta'?"
    """
    paths: dict[str, list[str]] = {}
    for path in setting_paths(models, variants):
        paths.setdefault(path.rpartition(".")[2], []).append(path)
    close = key if key in paths else _closest(key, paths, cutoff=0.6)
    if close is None:
        return nearest(key, [name for name, found in paths.items() if "." not in found[0]])
    depth = paths[close][0].count(".")
    *others, last = [
        repr(path if depth == 0 else prefix + path)
        for path in takewhile(lambda path: path.count(".") == depth, paths[close])
    ]
    listed = f"{', '.join(others)} or {last}" if others else last
    return f"; did you mean {listed}?"


def setting_paths(models: Iterable[type[BaseModel]], variants: VariantsOf) -> Iterator[str]:
    """Dotted paths of the settings of some models and of all tables inside, shortest first.

    >>> from fedgs.config import Config
    >>> from fedgs.registry import variant_classes
    >>> paths = list(setting_paths([Config], variant_classes))
    >>> paths[0], "method.graph.similarity" in paths, "data.partition.labels" in paths
    ('data', True, True)
    """
    seen: set[str] = set()
    waiting: deque[tuple[str, type[BaseModel]]] = deque(("", model) for model in models)
    while waiting:
        prefix, model = waiting.popleft()
        for name, field in model.model_fields.items():
            path = prefix + name
            if path not in seen:
                seen.add(path)
                yield path
            waiting += [(f"{path}.", inner) for inner in _tables(name, field.annotation, variants)]


def _tables(name: str, annotation: Any, variants: VariantsOf) -> Iterator[type[BaseModel]]:
    """The models that the value of a setting may be; a family's setting has the family's name."""
    if name in FAMILIES:
        yield from variants(name)
    elif isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    else:
        for part in get_args(annotation):
            yield from _tables("", part, variants)


def _closest(name: str, known: Iterable[str], *, cutoff: float) -> str | None:
    """The known name with the most letters in common, or None; capitals count as small letters."""
    by_folded: dict[str, str] = {}
    for entry in known:
        by_folded.setdefault(entry.casefold(), entry)
    close = difflib.get_close_matches(str(name).casefold(), by_folded, n=1, cutoff=cutoff)
    return by_folded[close[0]] if close else None

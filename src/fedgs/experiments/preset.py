"""A preset: a published method as the settings that it stands for, and what it needs and costs."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel

from fedgs.registry import Variant

__all__ = ["Cost", "Preset"]

Tables = dict[str, Any]
# Two settings of which one is given.
_COHORT = ("proportion", "cohort_limit")


@dataclass(frozen=True)
class Cost:
    """Numbers per round besides the model itself, as formulas in N, m, a, d and P.

    N clients, cohort size m, a = |A_t| available clients, d entries of a client's feature (for
    label proportions the number of labels), P parameters.

    Attributes:
        client_traffic: sent and received by a selected client in a round.
        server_traffic: sent and received by the server in a round.
        client_memory: kept by every client between rounds.
        server_memory: kept by the server between rounds.
    """

    client_traffic: str = "2P"
    server_traffic: str = "2mP"
    client_memory: str = "0"
    server_memory: str = "N"


@dataclass(frozen=True)
class Preset:
    """A published method: a name for settings of several parts.

    Attributes:
        name: that a configuration gives as the method.
        source: authors, year and venue.
        method: the table of the method, with the sampler's name.
        training: settings of the training.
        aggregation: the table of the aggregation; empty: the default.
        needs: what the server learns besides data sizes and updates: "losses" (computed for it, or
            reported with updates), "updates" (single ones), "norms of updates", "labels" (or
            features), "rates" (which no deployment knows).
        cost: traffic and memory.
        flower: "yes", or why it does not work in `fedgs.flower.SampledStrategy`.
        secure_aggregation: "yes", where the server needs no more than the weighted sum of updates.
        differences: from the publication, one sentence each.
        labels: whether runs get the name as their label. False: tables recognise the settings.

    >>> preset = Preset("eager", "A. Author, 2020, ICML", {"name": "uniform"}, {"mu": 0.5})
    >>> preset.laid_under({"method": "eager", "training": {"rounds": 3}})["training"]
    {'mu': 0.5, 'rounds': 3}
    """

    name: str
    source: str
    method: Mapping[str, object]
    training: Mapping[str, object] = field(default_factory=dict)
    aggregation: Mapping[str, object] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    cost: Cost = Cost()
    flower: str = "yes"
    secure_aggregation: str = "yes"
    differences: tuple[str, ...] = ()
    labels: bool = True

    @property
    def sampler(self) -> str:
        """The name of the sampler that it stands for."""
        return str(self.method["name"])

    @property
    def is_sampler(self) -> bool:
        """Whether the name is the sampler's own, with its default settings."""
        return self.sampler == self.name

    def laid_under(self, tables: Mapping[str, Any]) -> Tables:
        """The tables of a configuration with the preset's settings where nothing was given.

        Args:
            tables: with `method` as a name or a table that names the preset. `training` may be a
                table or an object.

        Returns:
            New tables. If `labels` and no label was given, `label` is the preset's name.
        """
        if self.is_sampler:
            return dict(tables)
        method, training = _given(tables)
        laid = {**tables, "method": _laid(self.method, method)}
        if self.training:
            laid["training"] = {**self._training(training), **training}
        if self.aggregation:
            laid["aggregation"] = self._aggregation(tables)
        if self._has_label(tables, laid["method"]):
            laid["label"] = self.name
        return laid

    def settings(self, tables: Mapping[str, Any]) -> list[str]:
        """The dotted settings that a configuration has from this preset alone.

        The name of the sampler is not among them.

        >>> preset = Preset("eager", "", {"name": "uniform", "weighting": "equal"}, {"mu": 0.5})
        >>> preset.settings({"method": "eager", "training": {"mu": 0.1}})
        ['method.weighting', 'label']
        """
        method, training = _given(tables)
        own = {key: value for key, value in self.method.items() if key != "name"}
        given = {*_paths("method", method), *_paths("training", training)}
        given |= {path.removesuffix(".name") for path in given}
        paths = [*_paths("method", own), *_paths("training", self._training(training))]
        aggregation = tables.get("aggregation")
        if isinstance(aggregation, str):
            aggregation = {"name": aggregation}
        is_replaced = _name(aggregation or self.aggregation) not in (None, _name(self.aggregation))
        if not isinstance(aggregation, Variant) and not is_replaced:
            given |= set(_paths("aggregation", aggregation or {}))
            paths += _paths("aggregation", self.aggregation) if self.aggregation else []
        label = ["label"] if self._has_label(tables, _laid(self.method, method)) else []
        return [path for path in paths if path not in given] + label

    def _aggregation(self, tables: Mapping[str, Any]) -> object:
        """The preset's aggregation, refined or replaced by the given one."""
        given = tables.get("aggregation")
        if isinstance(given, str):  # as a table that gives no more than the name
            given = {"name": given}
        if isinstance(given, Mapping):
            own = {"aggregation": self.aggregation}
            return _laid(own, {"aggregation": given})["aggregation"]
        return dict(self.aggregation) if given is None else given

    def _training(self, given: Mapping[str, object]) -> Tables:
        """The preset's training; a given size of the cohort replaces the preset's."""
        is_sized = any(given.get(key) is not None for key in _COHORT)
        return {
            key: value for key, value in self.training.items() if not (is_sized and key in _COHORT)
        }

    def _has_label(self, tables: Mapping[str, object], laid: Mapping[str, object]) -> bool:
        """Whether the label is the preset's name: its parts have not been replaced by others."""
        is_whole = all(_name(laid[key]) == _name(value) for key, value in self.method.items())
        own = _name(self.aggregation) or "mean"
        is_whole &= (_name(self._aggregation(tables)) or "mean") == own
        return self.labels and not self.is_sampler and is_whole and tables.get("label") is None


def _given(tables: Mapping[str, Any]) -> tuple[Tables, Tables]:
    """The given tables of method and training; the method's is without its name."""
    method, training = tables.get("method", {}), tables.get("training", {})
    if isinstance(training, BaseModel):
        training = {key: getattr(training, key) for key in training.model_fields_set}
    named = method if isinstance(method, Mapping) else {}
    return {key: value for key, value in named.items() if key != "name"}, dict(training)


def _name(value: object) -> object:
    """The name of a part that is given as a table or an object, else the value itself."""
    if isinstance(value, Mapping):
        return value.get("name")
    return value.name if isinstance(value, Variant) else value


def _laid(lower: Mapping[str, object], upper: Mapping[str, object]) -> Tables:
    """The lower table with the upper one laid over it.

    A table with another name replaces the whole lower one; without a name it refines it.
    """
    laid = dict(lower)
    for key, value in upper.items():
        below = laid.get(key)
        if isinstance(value, Mapping) and isinstance(below, str | Mapping):
            table = {"name": below} if isinstance(below, str) else below
            is_same = value.get("name", table.get("name")) == table.get("name")
            laid[key] = _laid(table, value) if is_same else value
        else:
            laid[key] = value
    return laid


def _paths(key: str, value: object) -> Iterator[str]:
    """The dotted settings of a table."""
    if not isinstance(value, Mapping):
        yield key
        return
    for inner, item in value.items():
        yield from _paths(f"{key}.{inner}", item)

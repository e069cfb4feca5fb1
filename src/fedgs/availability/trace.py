"""Availability from a trace of real devices."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal
from weakref import WeakKeyDictionary

import numpy as np
from pydantic import BeforeValidator, Field, model_validator

from fedgs.arrays import BoolArray, FloatArray, IntArray
from fedgs.availability.base import Availability
from fedgs.clients import Clients
from fedgs.errors import ConfigError
from fedgs.plurals import counted
from fedgs.registry import register
from fedgs.traces.assignment import (
    Slots,
    coupled_order,
    peak_hours,
    rank_correlation,
    slots,
    zone_shifts,
)
from fedgs.traces.intervals import DAY, NEVER, Traces, read_traces
from fedgs.traces.timeline import Timeline, Unobserved, Wrap

__all__ = ["Assign", "Couple", "Trace", "Zones"]

Assign = Literal["random", "order", "name"]
Couple = Literal["none", "data_size", "label"]
Zones = Literal["file", "local"]


@dataclass(frozen=True, eq=False)
class _Assigned:
    """The slots of all clients, and the same ascending by device, which look-ups need."""

    slots: Slots
    order: IntArray
    devices: IntArray
    shifts: IntArray


# Clients -> (mode, settings and content) -> their slots. A mode cannot hold them: its copies with
# another seed, and those that go to other processes, would take them along.
_assigned: WeakKeyDictionary[Clients, dict[tuple[object, ...], _Assigned]] = WeakKeyDictionary()


@register("availability", "trace")
class Trace(Availability):
    r"""Clients are available when the devices of a trace were: A_t is read at one second.

    Round t is at second `t * round_seconds + 3600 * start_hour`. Seconds count from the last
    multiple of 86,400 s before the first observation of the file, which is second 0 of most files.
    All methods have the same available clients in round t.
    A round costs O(N log E) with E intervals, in any order of rounds.

    Attributes:
        path: of the `.npz` file that `fedgs trace convert` writes; a relative path starts at the
            working folder.
        round_seconds: seconds of a round, in (0, 1e8].
        start_hour: hours from second 0 to round 0, in [0, 1e6].
        wrap: "days": a device repeats after the observed time of the file, rounded up to whole
            days, so that the time of day is kept. "device": after its own observed time. "refuse":
            more rounds than the file has are an error.
        unobserved: what a device does in seconds before its first and after its last observation:
            "replay" the same time of an observed day, or "away".
        min_days: devices that were observed for fewer days are left out; >= 0, and >= 1 for
            "replay".
        assign: "random": clients have devices in a random order of the seed. "order": client k has
            device k. Where there are more clients than devices, a device is used again, shifted by
            whole days and then by hours. "name": each client has the device of its name.
        zones: "file": all devices are read at the same second of the file. "local": at the same
            local time, by the file's `zone_seconds`.
        spread_hours: standard deviation of the clients' time zones in hours, in [0, 24]; 24:
            uniform over the day.
        couple: "data_size": the devices' shares of available time are coupled with n_k. "label":
            their peak hours, in [0, 24), with the clients' most frequent labels.
        coupling: rho in [-1, 1] of a Gaussian copula on the ranks of both.

    Raises:
        DataError: from `check`, `rates` and `available`: no such file, or not one of traces.
        ConfigError: from the same: no device is left, more clients than copies of devices, more
            rounds than the file has, or no labels to couple with.

    >>> import tempfile
    >>> from fedgs.traces import write_traces
    >>> on, off = [0, 3600, 0], [1800, 7200, 43_200]
    >>> traces = Traces(on, off, [0, 2, 3], [0, 0], [86_400, 86_400], ["a", "b"])
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = write_traces(traces, Path(folder.name, "two.npz"))
    >>> mode = Trace(path=path, assign="order", round_seconds=1800)
    >>> clients = Clients(("x", "y"), np.array([5, 5]))
    >>> np.array([mode.available(t, clients) for t in range(5)]).T.astype(int)
    array([[1, 0, 1, 1, 0],
           [1, 1, 1, 1, 1]])
    >>> mode.rates(0, clients)
    array([0.0625, 0.5   ])
    >>> folder.cleanup()
    """

    steady = True
    path: Annotated[
        str, BeforeValidator(lambda path: str(path) if isinstance(path, Path) else path)
    ]
    round_seconds: float = Field(default=600, gt=0, le=1e8)
    start_hour: float = Field(default=0, ge=0, le=1e6)
    wrap: Wrap = "days"
    unobserved: Unobserved = "replay"
    min_days: float = Field(default=1, ge=0, allow_inf_nan=False)
    assign: Assign = "random"
    zones: Zones = "file"
    spread_hours: float = Field(default=0, ge=0, le=24)
    couple: Couple = "none"
    coupling: float = Field(default=0, ge=-1, le=1)
    later_settings = (("zones",),)

    @classmethod
    def without_effect(cls, settings: Mapping[str, object]) -> dict[str, str]:
        """`coupling` without `couple`, and what other settings decide already."""
        refused = {}
        if settings.get("couple", "none") == "none" and settings.get("coupling", 0) != 0:
            refused["coupling"] = (
                "availability.coupling has no effect without availability.couple, which must be "
                "'data_size' or 'label'"
            )
        if settings.get("couple", "none") != "none" and settings.get("assign") == "name":
            refused["couple"] = (
                "availability.couple has no effect beside availability.assign = 'name', under "
                "which each client has the device of its name; leave one out"
            )
        if settings.get("wrap") == "device" and settings.get("unobserved", "replay") != "replay":
            refused["unobserved"] = (
                "availability.unobserved has no effect beside availability.wrap = 'device', under "
                "which a device repeats its observed time; leave one out"
            )
        return refused

    @model_validator(mode="after")
    def _needs_a_day_to_replay(self) -> "Trace":
        if self.wrap != "device" and self.unobserved == "replay" and self.min_days < 1:
            raise ValueError(
                "availability.min_days must be at least 1 for availability.unobserved = 'replay', "
                f"which repeats whole observed days, got {self.min_days:g}"
            )
        return self

    def check(self, clients: Clients, rounds: int) -> None:
        """As for every mode; also enough copies of devices, labels, and rounds in the file."""
        seconds = self.timeline.days * DAY - self.start_hour * 3600
        most = max(0.0, float(np.ceil(seconds / self.round_seconds)))  # inf for tiny rounds
        if self.wrap == "refuse" and rounds > most:
            raise ConfigError(
                f"training.rounds must be at most {most:.0f}, the rounds of availability.path "
                f"{self.path!r} with availability.wrap = 'refuse', got {rounds}"
            )
        self._slots(clients)
        super().check(clients, rounds)

    def rates(self, round: int, clients: Clients) -> FloatArray:
        """(N,) the share of a period in which each client is available."""
        rates: FloatArray = self.timeline.shares[self._slots(clients).slots.devices]
        return rates

    def available(self, round: int, clients: Clients) -> BoolArray:
        """(N,) who is available at the second of the round."""
        assigned = self._slots(clients)
        second = int(self.second_of(round))
        available = np.empty(len(clients), dtype=np.bool_)
        available[assigned.order] = self.timeline.is_on(assigned.devices, second + assigned.shifts)
        return available

    def second_of(self, round: int) -> float:
        """The second of round `round`."""
        return round * self.round_seconds + self.start_hour * 3600

    def is_available(self, seconds: FloatArray, clients: Clients, chosen: IntArray) -> BoolArray:
        """(m,) whether each chosen client is available at a second of its own."""
        taken = self._slots(clients).slots.taken(chosen)
        whole = np.floor(seconds).astype(np.int64)
        return self.timeline.is_on(taken.devices, whole + taken.shifts)

    def next_change(self, seconds: FloatArray, clients: Clients, chosen: IntArray) -> FloatArray:
        """(m,) the second at which each chosen client next arrives or leaves, inf for never."""
        taken = self._slots(clients).slots.taken(chosen)
        whole = np.floor(seconds).astype(np.int64)
        changes = self.timeline.next_change(taken.devices, whole + taken.shifts)
        ahead: FloatArray = np.where(changes == NEVER, np.inf, changes - taken.shifts)
        return ahead

    def correlation(self, clients: Clients) -> float | None:
        """The rank correlation that the coupling gave; None for `couple = "none"`.

        It is Spearman's, of data sizes and shares or of labels and peak hours. NaN where the values
        of all clients are equal.
        """
        if self.couple == "none":
            return None
        values = self._values(clients)
        return rank_correlation(values, self._scores(self._slots(clients).slots))

    def lines(self, clients: Clients) -> list[str]:
        """The devices that are used and the coupling that resulted, as `fedgs data describe`."""
        traces, left_out = self.traces, len(self.traces) - len(self._devices)
        used = len(np.unique(self._slots(clients).slots.devices))
        lines = [f"trace           {used} of {counted(len(traces), 'device')} used"]
        if left_out:
            lines[0] += f", {left_out} left out, observed for less than {self.min_days:g} days"
        correlation = self.correlation(clients)
        if correlation is not None:
            pair = "data size and availability" if self.couple == "data_size" else "label and hour"
            lines.append(
                f"coupling        rank correlation of {pair} {correlation:.3f} "
                f"(availability.coupling {self.coupling:g})"
            )
        return lines

    @cached_property
    def traces(self) -> Traces:
        """The content of the file."""
        if not self.path.endswith(".npz"):
            raise ConfigError(
                f"availability.path must end in .npz for 'trace', got {self.path!r}; "
                "fedgs trace convert makes such a file"
            )
        return read_traces(self.path, setting="availability.path")

    @cached_property
    def timeline(self) -> Timeline:
        """Who is available in any second."""
        return Timeline(self.traces, self.wrap, self.unobserved)

    @property
    def content_digest(self) -> str:
        """A hash of the arrays, which stands for the path in a run's identity."""
        return self.traces.digest

    @property
    def _devices(self) -> IntArray:
        """(D,) the devices that were observed for long enough."""
        return np.flatnonzero(self.traces.spans >= max(1, self.min_days * DAY))

    def _slots(self, clients: Clients) -> _Assigned:
        known = _assigned.setdefault(clients, {})
        key = (
            self.content_digest,
            *(self.seed or 0, self.wrap, self.unobserved, self.min_days),
            *(self.assign, self.zones, self.spread_hours, self.couple, self.coupling),
        )
        if key not in known:
            known[key] = self._assign(clients)
        return known[key]

    def _assign(self, clients: Clients) -> _Assigned:
        devices, count, seed = self._devices, len(clients), self.seed or 0
        if len(devices) == 0:
            raise ConfigError(
                f"availability.min_days must leave a device of {self.path!r}, whose devices were "
                f"observed for at most {self.traces.spans.max() / DAY:.2f} days, got "
                f"{self.min_days:g}"
            )
        chosen = (
            Slots(self._named(clients), np.zeros(count, dtype=np.int64))
            if self.assign == "name"
            else slots(self.timeline, devices, count, assign=self.assign, seed=seed)
        )
        shifts = chosen.shifts + zone_shifts(count, spread_hours=self.spread_hours, seed=seed)
        if self.zones == "local":
            assert self.traces.zone_seconds is not None
            shifts = shifts - self.traces.zone_seconds[chosen.devices]
        chosen = Slots(chosen.devices, shifts)
        if self.couple != "none":
            values, scores = self._values(clients), self._scores(chosen)
            chosen = chosen.taken(coupled_order(values, scores, coupling=self.coupling, seed=seed))
        order = np.argsort(chosen.devices, kind="stable")
        return _Assigned(chosen, order, chosen.devices[order], chosen.shifts[order])

    def _named(self, clients: Clients) -> IntArray:
        """(N,) the devices of the clients' names."""
        places = {name: d for d, name in enumerate(self.traces.names)}
        usable = set(self._devices.tolist())
        for name in map(str, clients.names):
            if places.get(name) not in usable:
                reason = (
                    "there is none"
                    if name not in places
                    else f"it was observed for less than {self.min_days:g} days"
                )
                raise ConfigError(
                    f"availability.assign = 'name' needs a device of each client's name in "
                    f"availability.path {self.path!r}, got client {name!r}: {reason}"
                )
        return np.array([places[str(name)] for name in clients.names], dtype=np.int64)

    def _values(self, clients: Clients) -> FloatArray:
        """(N,) what the devices are coupled with."""
        if self.couple == "data_size":
            return clients.data_sizes.astype(np.float64)
        if clients.label_counts is None:
            raise ConfigError(
                "availability.couple = 'label' needs clients with labels, got clients without; "
                "data.groups gives groups instead"
            )
        labels: FloatArray = clients.label_counts.argmax(axis=1).astype(np.float64)
        return labels

    def _scores(self, chosen: Slots) -> FloatArray:
        """(N,) shares of available time, or peak hours in the clock of the run."""
        if self.couple == "data_size":
            return self.timeline.shares[chosen.devices]
        hours = peak_hours(self.traces)[chosen.devices] - chosen.shifts / 3600
        wrapped: FloatArray = hours % 24
        return wrapped

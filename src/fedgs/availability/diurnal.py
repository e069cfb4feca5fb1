"""Availability by the time of day, with memory."""

import cmath
import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Literal
from weakref import WeakKeyDictionary

import numpy as np
from pydantic import Field, field_validator, model_validator

from fedgs.arrays import BoolArray, FloatArray, frozen
from fedgs.availability.base import Availability
from fedgs.availability.bases import SteadyBase, base_rates
from fedgs.availability.renewals import Renewals
from fedgs.clients import Clients
from fedgs.registry import register
from fedgs.rng import stream
from fedgs.traces.assignment import coupled_order, rank_correlation, zone_shifts

__all__ = ["Diurnal"]

_DAY = 86_400
_SHAPE = (2.4, 7.4)
_RAREST = 1e-9  # chance of a renewal, below which rounding decides about the rates of renewals

# Clients -> (seed, shape, coupling) -> their coupled means, which no mode can hold: its copies with
# another seed would take them along.
_Means = dict[tuple[int, tuple[float, float], float], FloatArray]
_coupled: WeakKeyDictionary[Clients, _Means] = WeakKeyDictionary()


@register("availability", "diurnal")
class Diurnal(Availability):
    r"""Day and night for each client, and states that last for hours, as of real devices.

    P(k in A_t) = p_k(t) = b_k (1 + a_k cos(2π (h - peak_hour)/24)), at the hour h = t·
    round_seconds/3600 + start_hour + zone_k. The daily mean b_k is drawn once from a Beta
    distribution, and a = (R - 1)/(R + 1) for the ratio R of the highest to the lowest rate of a
    day. a_k is a, or less for clients whose rates would exceed 1.

    Each client is a chain with the correlation lambda of consecutive rounds. It keeps its state
    with probability lambda, and else is on with the rate of the round of this renewal,
    (p_k(t) - lambda p_k(t - 1))/(1 - lambda), which makes P(k in A_t) exactly p_k(t). Clients are
    independent of each other. A round is found by looking back, about ln(N)/(1 - lambda) rounds,
    and from the round before in one step, O(N).

    The defaults were measured on 300 phones whose owners allowed training while they charge, over
    six days in steps of 600 s: available for .25 of the time, Beta(2.4, 7.4) over phones, most
    around 3 h, ratio 1.7, correlation .9. A ratio of 4 is reported for devices of one country.

    References:
        C. Yang et al. (2021): Characterizing Impacts of Heterogeneity in Federated Learning upon
        Large-Scale Smartphone Data. WWW (FLASH), the phones.
        K. Bonawitz et al. (2019): Towards Federated Learning at Scale: System Design. MLSys, the
        ratio 4.

    Attributes:
        shape: two numbers > 0, the parameters of the Beta distribution of b_k.
        base: a mode that gives b_k, by name, table or object, instead of `shape`; its rates must be
            the same in every round. Without a seed of its own it has that of this mode.
        ratio: R >= 1; 1: no time of day.
        peak_hour: the hour with the highest rates, in [0, 24).
        correlation: lambda of two states 600 s apart, in [0, 1). That of consecutive rounds is
            correlation^(round_seconds/600).
        round_seconds: seconds of a round, in (0, 1e8].
        start_hour: the hour of round 0, in [0, 1e6].
        spread_hours: standard deviation of the clients' time zones in hours, in [0, 24]; 24:
            uniform over the day.
        couple: "data_size": the drawn b_k are coupled with n_k.
        coupling: rho in [-1, 1] of a Gaussian copula on the ranks of both.

    Raises:
        ConfigError: from the class: a ratio that states of this correlation cannot follow.

    >>> clients = Clients(("a", "b"), np.array([1, 1]))
    >>> hourly = Diurnal(base={"name": "bernoulli", "rate": 0.4}, round_seconds=3600)
    >>> [round(float(hourly.rates(t, clients)[0]), 3) for t in (3, 9, 15, 21)]
    [0.504, 0.4, 0.296, 0.4]
    >>> np.array([hourly.available(t, clients) for t in range(20)]).T.astype(int)
    array([[0, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0],
           [0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]])
    """

    shape: tuple[float, float] = _SHAPE
    base: SteadyBase | None = None
    ratio: float = Field(default=1.7, ge=1, allow_inf_nan=False)
    peak_hour: float = Field(default=3, ge=0, lt=24)
    correlation: float = Field(default=0.9, ge=0, lt=1)
    round_seconds: float = Field(default=600, gt=0, le=1e8)
    start_hour: float = Field(default=0, ge=0, le=1e6)
    spread_hours: float = Field(default=0, ge=0, le=24)
    couple: Literal["none", "data_size"] = "none"
    coupling: float = Field(default=0, ge=-1, le=1)
    later_settings = (("couple", "coupling"),)

    @field_validator("shape", mode="before")
    @classmethod
    def _two_positive_numbers(cls, value: object) -> object:
        entries = tuple(value) if isinstance(value, list | tuple) else ()
        if len(entries) == 2 and all(_is_positive(entry) for entry in entries):
            return tuple(map(float, entries))
        raise ValueError(f"availability.shape must be two numbers > 0, got {value!r}")

    @model_validator(mode="after")
    def _needs_rates_of_renewals(self) -> "Diurnal":
        if 1 - self._kept < _RAREST:
            raise ValueError(
                f"availability.correlation must be lower for availability.round_seconds "
                f"{self.round_seconds:g}, so that a state is drawn again at least once in "
                f"{1 / _RAREST:.0e} rounds, got {self.correlation!r}"
            )
        if self._amplitude * self._gain > 1:
            most = (self._gain + 1) / (self._gain - 1)
            raise ValueError(
                f"availability.ratio must be at most {most:.4g} for availability.correlation "
                f"{self.correlation:g}, whose states cannot change faster, got {self.ratio:g}"
            )
        return self

    @classmethod
    def without_effect(cls, settings: Mapping[str, object]) -> dict[str, str]:
        """`shape` and `couple` beside `base`, and `coupling` without `couple`."""
        given, refused = settings.get("shape", _SHAPE), {}
        is_default = isinstance(given, list | tuple) and tuple(given) == _SHAPE
        is_coupled = settings.get("couple", "none") != "none"
        beside = "has no effect beside availability.base; leave one out"
        if settings.get("base") is not None and not is_default:
            refused["shape"] = f"availability.shape {beside}"
        if settings.get("base") is not None and is_coupled:
            refused["couple"] = f"availability.couple {beside}"
        if settings.get("coupling", 0) != 0 and not is_coupled:
            refused["coupling"] = (
                "availability.coupling has no effect without availability.couple, which must be "
                "'data_size' for 'diurnal'"
            )
        return refused

    def check(self, clients: Clients, rounds: int) -> None:
        """As for every mode; also that the base can serve the clients."""
        if self.base is not None:
            self.base.check(clients, rounds)
        super().check(clients, rounds)

    def rates(self, round: int, clients: Clients) -> FloatArray:
        """(N,) p_k(t), which repeats every 24 hours."""
        means = self._means(clients)
        room = np.divide(1 - means, means, out=np.full(len(means), np.inf), where=means > 0)
        amplitudes = np.minimum(self._amplitude, room / self._gain)
        zones = _zones(self.seed or 0, self.spread_hours, len(clients))
        seconds = round * self.round_seconds + (self.start_hour - self.peak_hour) * 3600 + zones
        rates = means * (1 + amplitudes * np.cos(2 * np.pi / _DAY * (seconds % _DAY)))
        inside: FloatArray = np.clip(rates, 0.0, 1.0)  # rounding alone exceeds them
        return inside

    def available(self, round: int, clients: Clients) -> BoolArray:
        """(N,) the draws of the last renewals up to round t."""
        return self._renewals(clients).state(round)

    def next_available(self, round: int, clients: Clients, before: BoolArray) -> BoolArray:
        """(N,) one step of the chain."""
        return self._renewals(clients).step(round, before)

    def lines(self, clients: Clients) -> list[str]:
        """The coupling that resulted, as `fedgs data describe` shows it."""
        if self.couple == "none":
            return []
        sizes = clients.data_sizes.astype(np.float64)
        return [
            "coupling        rank correlation of data size and availability "
            f"{rank_correlation(sizes, self._means(clients)):.3f} "
            f"(availability.coupling {self.coupling:g})"
        ]

    def _renewals(self, clients: Clients) -> Renewals:
        kept = self._kept

        def rates(t: int) -> FloatArray:
            now = self.rates(t, clients)
            if t == 0:
                return now
            renewed: FloatArray = (now - kept * self.rates(t - 1, clients)) / (1 - kept)
            return renewed

        return Renewals("diurnal", self.seed or 0, np.full(len(clients), kept), rates)

    def _means(self, clients: Clients) -> FloatArray:
        """(N,) b_k."""
        if self.base is not None:
            return base_rates(self.base, self.seed, 0, clients)
        drawn = _beta(self.seed or 0, self.shape, len(clients))
        if self.couple == "none":
            return drawn
        known = _coupled.setdefault(clients, {})
        key = (self.seed or 0, self.shape, self.coupling)
        if key not in known:
            order = coupled_order(
                clients.data_sizes.astype(np.float64),
                drawn,
                coupling=self.coupling,
                seed=self.seed or 0,
                purpose="diurnal coupling",
            )
            known[key] = frozen(drawn[order])
        return known[key]

    @property
    def _amplitude(self) -> float:
        """a, in [0, 1]."""
        return (self.ratio - 1) / (self.ratio + 1)

    @property
    def _kept(self) -> float:
        """Lambda of consecutive rounds."""
        return float(self.correlation ** (self.round_seconds / 600))

    @property
    def _gain(self) -> float:
        """The amplitude of the rates of renewals for that of p_k(t), >= 1.

        The rates of renewals are a sine as well: with z = e^(-2 pi i round_seconds/86400) its
        amplitude is larger by |1 - lambda z|/(1 - lambda).
        """
        turn = cmath.exp(-2j * math.pi * self.round_seconds / _DAY)
        return max(1.0, abs(1 - self._kept * turn) / (1 - self._kept))


def _is_positive(value: object) -> bool:
    is_number = isinstance(value, float | int) and not isinstance(value, bool)
    return is_number and 0 < value < math.inf  # type: ignore[operator]


@lru_cache(maxsize=8)
def _beta(seed: int, shape: tuple[float, float], count: int) -> FloatArray:
    return frozen(stream(seed, "diurnal means").beta(*shape, size=count))


@lru_cache(maxsize=8)
def _zones(seed: int, spread_hours: float, count: int) -> FloatArray:
    """(N,) seconds."""
    shifts = zone_shifts(count, spread_hours=spread_hours, seed=seed)
    return frozen(shifts.astype(np.float64))

"""Oort: clients with high losses, of which those that are slow count less."""

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from fedgs.arrays import BoolArray, FloatArray, IntArray
from fedgs.clients import Clients, Memory, Outcome, Selection, View
from fedgs.errors import SelectionError
from fedgs.registry import register
from fedgs.requests import ReportName
from fedgs.sampling.base import Sampler

__all__ = ["Oort"]

_UNCERTAINTY = 0.1  # factor of ln(t) in the term for clients that were not selected for long


@register("method", "oort")
class Oort(Sampler):
    """Explores clients at random, and exploits those with a high statistical and system utility.

    The utility of client k in round t is

        u_k = (min(n_k L_k, clip) + sqrt(0.1 ln(t + 1) / (l_k + 1))) · min(1, T / t_k)^alpha

    with L_k the root mean square of its training losses when it last answered, l_k the round of
    that answer, t_k the seconds that it took, and T the preferred duration. Without a clock the
    last factor is 1. A client that was selected and never answered has the mean of the other
    utilities n_k L_k, and is as slow as the slowest known one.

    Of the m clients, floor((1 - epsilon_t) m) are exploited: they are drawn in proportion to u_k
    from the available clients whose utility is at least `cut_off` times that of the last of so many
    best ones. The others are drawn in proportion to n_k from available clients that were never
    selected; epsilon_t = max(exploration_least, exploration · exploration_decay^t). Where clients
    of one kind are missing, the other kind fills the cohort.

    T is a percentile of the known durations. The pacer raises it when the utility of the cohorts
    no longer grows, so that slower clients with data of more use are selected.

    Attributes:
        penalty: alpha >= 0; at 0 durations do not count.
        clip: percentile of the utilities n_k L_k above which they are cut, in (0, 1].
        cut_off: share of the utility of the last exploited client that suffices, in [0, 1].
        exploration: epsilon of round 0, in [0, 1].
        exploration_decay: factor of epsilon in a round, in (0, 1].
        exploration_least: the lowest epsilon, in [0, 1].
        preferred: T in the first rounds, as a share of the known durations, in (0, 1]; at 1 no
            client is too slow.
        pacer: when T rises. "paper": the utility of the last `pacer_rounds` cohorts is below that
            of as many before. "code": it differs by at most 10 %; where it is at least six times as
            large, T falls.
        pacer_rounds: W >= 1, rounds between two decisions.
        pacer_step: by which the share `preferred` changes, in [0, 1].

    References:
        F. Lai, X. Zhu, H. V. Madhyastha, M. Chowdhury (2021): Oort: Efficient Federated Learning
        via Guided Participant Selection. OSDI.

    >>> clients, counts = Clients(tuple("abc"), np.array([4, 4, 4])), np.array([1, 1, 1])
    >>> sampler = Oort(exploration=0, exploration_least=0, preferred=0.5)
    >>> memory = {**sampler.start(clients), "losses": np.array([0.5, 2.0, 0.4])}
    >>> seconds = np.array([10.0, 40.0, 10.0])   # b has the highest loss and is slow
    >>> view = View(1, clients, np.arange(3), counts, 2, memory=memory, seconds=seconds)
    >>> sampler.utilities(view).round(2).tolist()
    [2.26, 0.48, 1.86]
    """

    of_durations: ClassVar[tuple[str, ...]] = (
        "penalty", "preferred", "pacer", "pacer_rounds", "pacer_step",
    )  # fmt: skip

    penalty: float = Field(default=2.0, ge=0, allow_inf_nan=False)
    clip: float = Field(default=0.95, gt=0, le=1)
    cut_off: float = Field(default=0.95, ge=0, le=1)
    exploration: float = Field(default=0.9, ge=0, le=1)
    exploration_decay: float = Field(default=0.98, gt=0, le=1)
    exploration_least: float = Field(default=0.2, ge=0, le=1)
    preferred: float = Field(default=0.3, gt=0, le=1)
    pacer: Literal["paper", "code"] = "paper"
    pacer_rounds: int = Field(default=20, ge=1)
    pacer_step: float = Field(default=0.05, ge=0, le=1)

    @property
    def wanted_reports(self) -> tuple[ReportName, ...]:
        """The root mean square of the losses of local training."""
        return ("rms_loss",)

    def start(self, clients: Clients) -> Memory:
        """No losses, and the first share of the durations."""
        return {
            "losses": np.full(len(clients), np.nan),
            "last": np.full(len(clients), -1, dtype=np.int64),
            "preferred": np.array([self.preferred]),
            "gains": np.full(2 * self.pacer_rounds, np.nan),
            "observed": np.zeros(1, dtype=np.int64),
        }

    def observe(self, memory: Memory, view: View, outcome: Outcome) -> Memory:
        """The memory with the losses of the cohort, after the pacer's decision.

        Raises:
            SelectionError: the outcome has no losses.
        """
        reported = outcome.reports.get("rms_loss")
        if reported is None:
            raise SelectionError(
                f"{self.name!r} needs the losses of local training in outcome.reports, got none"
            )
        losses, last = memory["losses"].copy(), memory["last"].copy()
        losses[outcome.clients], last[outcome.clients] = reported, view.round
        gain = np.nansum(view.data_sizes[outcome.clients] * reported)
        gains = np.append(memory["gains"][1:], gain)
        observed = memory["observed"] + 1
        preferred = memory["preferred"]
        if observed[0] >= len(gains) and observed[0] % self.pacer_rounds == 0:
            preferred = np.array([self._paced(float(preferred[0]), gains)])
        return {
            "losses": losses,
            "last": last,
            "preferred": preferred,
            "gains": gains,
            "observed": observed,
        }

    def _paced(self, preferred: float, gains: FloatArray) -> float:
        """The share of the durations after the pacer's decision."""
        before, now = gains[: self.pacer_rounds].sum(), gains[self.pacer_rounds :].sum()
        if self.pacer == "paper":
            rises, falls = now < before, False
        else:
            rises, falls = abs(now - before) <= 0.1 * before, abs(now - before) >= 5 * before
        if rises:
            return min(1.0, preferred + self.pacer_step)
        return max(self.pacer_step, preferred - self.pacer_step) if falls else preferred

    def utilities(self, view: View) -> FloatArray:
        """(N,) u_k; those of clients that were never selected have no meaning.

        Raises:
            SelectionError: the view has no memory.
        """
        if "losses" not in view.memory:
            raise SelectionError(
                f"{self.name!r} needs its memory in view.memory, as start(clients) gives it, got "
                "none"
            )
        with np.errstate(over="ignore"):
            gains = view.data_sizes * view.memory["losses"]
        known = gains[np.isfinite(gains)]
        most = float(np.quantile(known, self.clip)) if len(known) else 0.0
        mean = float(known.mean()) if len(known) else 0.0
        statistical = np.minimum(np.where(np.isnan(gains), mean, gains), most)
        last = np.maximum(view.memory["last"], 0)
        statistical += np.sqrt(_UNCERTAINTY * np.log(view.round + 1) / (last + 1))
        utilities: FloatArray = statistical * self._speed(view)
        return utilities

    def _speed(self, view: View) -> FloatArray:
        """(N,) factors for the durations, 1 for clients that are not slower than T."""
        share = float(view.memory["preferred"][0])
        known = np.empty(0) if view.seconds is None else view.seconds[~np.isnan(view.seconds)]
        if len(known) == 0 or view.seconds is None or share >= 1 or self.penalty == 0:
            return np.ones(len(view.clients))
        ordered = np.sort(known)
        target = ordered[min(int(share * len(known)), len(known) - 1)]
        durations = np.where(np.isnan(view.seconds), ordered[-1], view.seconds)
        factors: FloatArray = np.minimum(1.0, target / durations) ** self.penalty
        return factors

    def select(self, view: View, rng: np.random.Generator) -> Selection:
        """The exploited clients, then those that were never selected.

        Raises:
            SelectionError: the view has no memory.
        """
        utilities = self.utilities(view)
        met = view.counts[view.available] > 0
        old, new = view.available[met], view.available[~met]
        size = view.cohort_size
        share = max(self.exploration_least, self.exploration * self.exploration_decay**view.round)
        exploited = min(int((1 - share) * size + 1e-9), len(old))
        explored = min(size - exploited, len(new))
        exploited = size - explored  # clients that were met fill the cohort
        chosen = [_drawn(new, view.data_sizes[new].astype(np.float64), explored, rng)]
        if exploited:
            good = self._good(utilities[old], exploited)
            chosen.append(_drawn(old[good], utilities[old[good]], exploited, rng))
        return Selection(np.sort(np.concatenate(chosen)))

    def _good(self, utilities: FloatArray, count: int) -> BoolArray:
        """Which of the clients have a utility close to that of the `count` best ones."""
        worst = np.sort(utilities)[::-1][count - 1]
        return np.asarray(utilities >= self.cut_off * worst, dtype=np.bool_)


def _drawn(
    clients: IntArray, weights: FloatArray, count: int, rng: np.random.Generator
) -> IntArray:
    """`count` of the clients, drawn in proportion to the weights without replacement.

    Clients with weight 0 come last, at random.
    """
    # Exponential times with these rates: their order is that of such draws.
    with np.errstate(divide="ignore"):
        arrival = rng.exponential(size=len(clients)) / weights
    return clients[np.lexsort((rng.random(len(clients)), arrival))[:count]]

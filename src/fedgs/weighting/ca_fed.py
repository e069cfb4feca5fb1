"""CA-Fed: unbiased weights, without the clients that correlation makes too costly."""

from typing import Annotated

import numpy as np
from pydantic import Field

from fedgs.arrays import BoolArray, FloatArray, IntArray
from fedgs.clients import Clients, Memory, Outcome, Selection, View
from fedgs.errors import ConfigError
from fedgs.per_client import PerClient, check_length, in_turn, within
from fedgs.registry import Variant, register
from fedgs.weighting.base import Weighting

__all__ = ["CAFedWeighting", "kept_clients"]

_WHERE = "method.weighting"


@register("weighting", "ca_fed")
class CAFedWeighting(Weighting):
    """w_k = q_k = p_k / pi_k for the clients that are kept, and 0 for those that are dropped.

    In every round, with estimates of each client's rate pi_k, of the correlation lambda_k between
    its states in consecutive rounds, and of its loss F_k, clients are dropped to reduce

    J(q) = sum_k w_k (F_k - F*_k) + bias max_k (F_k - F*_k) TV(p, w)^2,  w_k ~ pi_k q_k, sum 1,

    where TV is the total variation distance. From q_k = p_k / pi_k a first pass takes the clients
    by descending |lambda_k|, a second one by ascending pi_k, ties by index; q_k becomes 0 if J
    falls by at least `tolerance`. The last client is never dropped. The set is rebuilt in every
    round, also from the losses of clients that were dropped before.

    pi_k and P(on | on), P(off | off) are posterior means of Beta distributions, from the available
    clients of all rounds up to the present one; lambda_k = P(on | on) + P(off | off) - 1. F_k is
    the last loss of client k, and the mean loss of the available clients until it has one.

    The sampler `ca_fed` selects the available clients that are kept. Where the cohort limit is
    M is below their number, it draws M of them, and the weights are multiplied by their number
    over M.

    Settings with a value for each client may be lists, see `fedgs.per_client.in_turn`.

    References:
        A. Rodio, F. Faticanti, O. Marfoq, G. Neglia, E. Leonardi (2023): Federated Learning under
        Heterogeneous and Correlated Client Availability. INFOCOM; 2024, IEEE/ACM Transactions on
        Networking.

    Attributes:
        bias: weight of the second term, >= 0. Towards infinity no client is dropped.
        tolerance: by how much J must fall, >= 0. At 0 a client whose removal leaves J as it is is
            dropped.
        smoothing: weight of the earlier estimate of F_k, in [0, 1).
        prior_rate: mean of the prior of pi_k, in (0, 1); the true rates make it an oracle.
        prior_correlation: lambda_k of the prior, in [0, 1).
        prior_observations: number of observations that the prior counts for, > 0. The defaults are
            Beta(1, 1); the published code has the true rates and 100.
        optimal_losses: F*_k >= 0, the lowest loss of client k alone, as an oracle gives it.

    >>> clients, weighting = Clients(("a", "b"), np.array([1, 3])), CAFedWeighting()
    >>> losses = np.array([0.5, 0.7])
    >>> view = View(0, clients, np.arange(2), np.zeros(2, dtype=np.int64), 2, losses=losses)
    >>> weighting.weights(view, Selection(np.arange(2)), weighting.start(clients, 2)).tolist()
    [0.375, 1.125]
    """

    bias: float = Field(default=1.0, ge=0, allow_inf_nan=False)
    tolerance: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    smoothing: float = Field(default=0.0, ge=0, lt=1)
    prior_rate: Annotated[
        PerClient, within(f"{_WHERE}.prior_rate", 0, 1, open_low=True, open_high=True)
    ] = 0.5
    prior_correlation: Annotated[
        PerClient, within(f"{_WHERE}.prior_correlation", 0, 1, open_high=True)
    ] = 0.0
    prior_observations: float = Field(default=2.0, gt=0, allow_inf_nan=False)
    optimal_losses: Annotated[PerClient, within(f"{_WHERE}.optimal_losses", 0, np.inf)] = 0.0

    @property
    def is_normalised(self) -> bool:
        """False."""
        return False

    def check(self, clients: Clients, cohort_limit: int, method: Variant) -> None:
        """Accept the sampler `ca_fed` alone, and lists with at most one value a client.

        Raises:
            ConfigError: another sampler, or a longer list.
        """
        if method.name != "ca_fed":
            raise ConfigError(
                "method.weighting = 'ca_fed' needs the losses and the selection of method "
                f"'ca_fed', got {method.name or type(method).__name__!r}; "
                "'fedau' works with every method"
            )
        for name in ("prior_rate", "prior_correlation", "optimal_losses"):
            check_length(getattr(self, name), len(clients), setting=f"{_WHERE}.{name}")

    def start(self, clients: Clients, cohort_limit: int) -> Memory:
        """Counts of rounds and transitions, the last state (-1: none), and the losses (NaN)."""
        zeros = np.zeros(len(clients), dtype=np.int64)
        return {
            "rounds": zeros,
            "on": zeros,
            "stayed_on": zeros,
            "stayed_off": zeros,
            "last": np.full(len(clients), -1),
            "losses": np.full(len(clients), np.nan),
        }

    def observe(self, memory: Memory, view: View, outcome: Outcome | None) -> Memory:
        """Count who is available, and note the losses of the available clients."""
        on = np.zeros(len(view.clients), dtype=np.int64)
        on[view.available] = 1
        last = memory["last"]
        return {
            "rounds": memory["rounds"] + 1,
            "on": memory["on"] + on,
            "stayed_on": memory["stayed_on"] + ((last == 1) & (on == 1)),
            "stayed_off": memory["stayed_off"] + ((last == 0) & (on == 0)),
            "last": on,
            "losses": self._losses(memory["losses"], view),
        }

    def _losses(self, earlier: FloatArray, view: View) -> FloatArray:
        """(N,) F_k after this round's losses."""
        if view.losses is None:
            return earlier
        new, unknown = ~np.isnan(view.losses), np.isnan(earlier)
        if not new.any():
            return earlier
        losses: FloatArray = np.where(new, view.losses, earlier)
        if self.smoothing > 0:
            both = new & ~unknown
            losses[both] = self.smoothing * earlier[both] + (1 - self.smoothing) * view.losses[both]
        losses[unknown & ~new] = view.losses[new].mean()
        return losses

    def estimates(self, memory: Memory) -> tuple[FloatArray, FloatArray]:
        """(N,) pi_k and (N,) lambda_k, from a memory and the prior."""
        count = len(memory["on"])
        rate = in_turn(self.prior_rate, count)
        correlation = in_turn(self.prior_correlation, count)
        observations = self.prior_observations
        left_on = memory["on"] - (memory["last"] == 1)  # rounds in on that another one followed
        left_off = np.maximum(memory["rounds"] - 1, 0) - left_on

        def mean(prior: FloatArray, successes: IntArray, trials: IntArray) -> FloatArray:
            posterior: FloatArray = (observations * prior + successes) / (observations + trials)
            return posterior

        on_on = mean(correlation + (1 - correlation) * rate, memory["stayed_on"], left_on)
        off_off = mean(1 - (1 - correlation) * rate, memory["stayed_off"], left_off)
        return mean(rate, memory["on"], memory["rounds"]), on_on + off_off - 1

    def allocation(self, view: View, memory: Memory) -> FloatArray:
        """(N,) q_k of round t.

        Args:
            view: of round t, with the losses of the available clients.
            memory: of the rounds before t.
        """
        now = self.observe(memory, view, None)
        rates, correlations = self.estimates(now)
        gaps = now["losses"] - in_turn(self.optimal_losses, len(rates))
        orders = (
            np.argsort(-np.abs(correlations), kind="stable"),
            np.argsort(rates, kind="stable"),
        )
        kept = kept_clients(
            view.shares, gaps, orders=orders, bias=self.bias, tolerance=self.tolerance
        )
        return np.where(kept, view.shares / rates, 0.0)

    def weights(self, view: View, selection: Selection, memory: Memory) -> FloatArray:
        """(m,) q_k, times the number of available kept clients over M where it exceeds M."""
        cohort = selection.clients
        kept = int(np.count_nonzero(self.allocation(view, memory)[view.available]))
        rates, _ = self.estimates(self.observe(memory, view, None))
        # Positive for every selected client, also where a deployment learns new data sizes between
        # selection and aggregation, by which another set would be dropped.
        scale = max(1.0, kept / view.cohort_limit)
        weights: FloatArray = view.shares[cohort] / rates[cohort] * scale
        return weights


def kept_clients(
    shares: FloatArray,
    gaps: FloatArray,
    *,
    orders: tuple[IntArray, ...],
    bias: float,
    tolerance: float,
) -> BoolArray:
    """The clients that are left after the passes of CA-Fed, O(N) a pass.

    With w the shares of the kept clients over their sum, TV(p, w) is the share D of those that are
    dropped, so J = sum of p_k g_k over the kept clients / (1 - D) + bias max(g) D^2.

    Args:
        shares: (N,) p_k > 0, sum 1.
        gaps: (N,) g_k = F_k - F*_k; with a NaN no client is dropped.
        orders: permutations of the clients, one a pass.
        bias: weight of the second term.
        tolerance: by how much J must fall.

    Returns:
        (N,) at least one True.

    >>> order = np.arange(3)
    >>> kept_clients(np.array([0.1, 0.5, 0.4]), np.array([4.0, 1.0, 1.0]), orders=(order,), bias=1,
    ...              tolerance=0)
    array([False,  True,  True])
    """
    kept = np.ones(len(shares), dtype=np.bool_)
    share, gain = shares.tolist(), (shares * gaps).tolist()
    penalty = bias * float(gaps.max())
    mass, total, left = float(shares.sum()), float((shares * gaps).sum()), len(kept)
    error = total / mass
    for order in orders:
        for k in order.tolist():
            if left == 1:
                return kept
            rest = mass - share[k]
            if not kept[k] or rest <= 0:  # so small a rest has no share in float64
                continue
            candidate = (total - gain[k]) / rest + penalty * (1 - rest) ** 2
            if error - candidate >= tolerance:
                kept[k] = False
                mass, total, left, error = rest, total - gain[k], left - 1, candidate
    return kept

"""Settings that were tried on the tuning federations before the method was frozen.

`SETTINGS` maps a label to a method. What the package does not have is defined here, as plug-ins.
"""

from typing import Any

import numpy as np

from fedgs import Clients, FedGS, Memory, Outcome, Sampler, Selection, View
from fedgs.solver import SelectionProblem, solve
from fedgs.weighting import Deficit


class SmallestCounts(Sampler):
    """The clients that were selected least often, ties at random."""

    def select(self, view: View, rng: np.random.Generator) -> Selection:
        return first(view, view.counts, rng)


class LargestDeficits(Sampler):
    """The clients with the largest d_k / p_k^power."""

    power: float = 0.0

    def select(self, view: View, rng: np.random.Generator) -> Selection:
        due = deficits(view, view.weighting_memory)
        return first(view, -due / view.shares**self.power, rng)


class Apart(Sampler):
    """FedGS with distances h_ij (1 - c_ij), c_ij the recency of the pair's last common cohort.

    c_ij is 1 after a common cohort, and is multiplied by 1 - M/(N turns) in every other round.
    """

    balance: str = "selected"
    turns: float = 1.0

    def start(self, clients: Clients) -> Memory:
        return {**distances(clients), "recency": np.zeros((len(clients), len(clients)))}

    def observe(self, memory: Memory, view: View, outcome: Outcome) -> Memory:
        recency = memory["recency"] * (1 - view.cohort_limit / (len(view.clients) * self.turns))
        recency[np.ix_(outcome.clients, outcome.clients)] = 1.0
        return {"distance": memory["distance"], "recency": recency}

    def select(self, view: View, rng: np.random.Generator) -> Selection:
        distance = view.memory["distance"] * (1 - view.memory["recency"])
        np.fill_diagonal(distance, 0.0)
        count, m = len(view.clients), view.cohort_size
        if self.balance == "selected":
            return best(view, view.counts, distance, 2 / count, rng)
        return best(view, turns_ahead(view), distance, 2 / max(m - 1, 1), rng)


class Herding(Sampler):
    """Balanced shares, with the mean label distribution in place of distances.

    With the weights c_k = p_k N/M of a turn and the label distributions q_k, q of a client and of
    all, the weighted sum of q_k - q over all rounds is r = sum_k (W_k - R p_k) q_k, and the cohort
    S makes it r + sum over S of c_k (q_k - q). The squared norm replaces the diversity, in the unit
    in which the products of pairs have the range 1, as the distances of FedGS.
    """

    alpha: float = 1.0
    cumulative: bool = True

    def select(self, view: View, rng: np.random.Generator) -> Selection:
        counts = view.clients.label_counts
        assert counts is not None
        labels = counts / counts.sum(axis=1, keepdims=True)
        weights = view.shares * len(labels) / view.cohort_limit
        steps = weights[:, None] * (labels - view.shares @ labels)
        products = steps @ steps.T
        off = products[~np.eye(len(labels), dtype=bool)]
        unit, pair = off.max() - off.min(), 2 * self.alpha / max(view.cohort_size - 1, 1)
        linear = np.diag(products).copy()
        if self.cumulative:
            linear += 2 * steps @ -(view.weighting_memory["deficit"] @ labels)
        distance = (off.max() - products) / unit
        np.fill_diagonal(distance, 0.0)
        # J has -pair / unit · (products of pairs) = -pair / (2 unit) · (squared norm - linear).
        turns = turns_ahead(view) + pair / (2 * unit) * linear / 2
        return best(view, turns, distance, pair, rng)


class Proportional(Deficit):
    """Weights in proportion to max(d_k, floor p_k / P_S)."""

    floor: float = 0.1

    def weights(self, view: View, selection: Selection, memory: Memory) -> np.ndarray:
        due, shares = deficits(view, memory)[selection.clients], view.shares[selection.clients]
        return np.maximum(due, self.floor * shares / shares.sum())


class OwnStrength(Deficit):
    """The nearest weights with a strength for each client.

    A deficit is measured in turns from the median of all, v_k = u_k - median(u). Rotation explains
    |v_k| <= 1/2. "soft": what is beyond it, sign(v) max(|v| - 1/2, 0). "garrote": v max(0, 1 -
    1 / (4 v^2)).
    """

    rule: str = "soft"

    def weights(self, view: View, selection: Selection, memory: Memory) -> np.ndarray:
        cohort, part = selection.clients, view.cohort_limit / len(view.clients)
        turns = deficits(view, memory) * part / view.shares
        order = np.argsort(turns)
        middle = np.searchsorted(np.cumsum(view.shares[order]), 0.5)
        ahead = (turns - turns[order[min(middle, len(order) - 1)]])[cohort]
        if self.rule == "soft":
            kept = np.sign(ahead) * np.maximum(np.abs(ahead) - 0.5, 0)
        else:
            kept = ahead * np.maximum(0, 1 - 0.25 / np.maximum(ahead**2, 1e-300))
        shares = view.shares[cohort]
        wanted = memory["deficit"].copy()
        wanted[cohort] = kept * shares / part + shares / shares.sum() - shares
        return Deficit(correction="full").weights(view, selection, {"deficit": wanted})


def deficits(view: View, memory: Memory) -> np.ndarray:
    """(N,) d_k, from R p_k - W_k."""
    return memory["deficit"] + view.shares


def turns_ahead(view: View) -> np.ndarray:
    """(N,) the share received beyond what is due, in turns."""
    part = view.cohort_limit / len(view.clients)
    return -view.weighting_memory["deficit"] * part / view.shares


def first(view: View, values: np.ndarray, rng: np.random.Generator) -> Selection:
    """The available clients of the smallest values, ties at random."""
    order = np.lexsort((rng.random(len(view.available)), values[view.available]))
    return Selection(np.sort(view.available[order[: view.cohort_size]]))


def distances(clients: Clients) -> Memory:
    """The distances of FedGS with its default graph."""
    return {"distance": FedGS().start(clients)["distance"]}


def best(
    view: View, counts: np.ndarray, distance: np.ndarray, pair: float, rng: np.random.Generator
) -> Selection:
    """The best cohort for these counts and distances, as in FedGS."""
    if len(view.available) <= view.cohort_limit:
        return Selection(view.available)
    # The constant part of the penalty is the same for all cohorts.
    problem = SelectionProblem(distance, 2.0 * counts, view.cohort_size, pair, view.available)
    return Selection(solve(problem, seed=rng).cohort)


def shares(**weighting: Any) -> dict[str, Any]:
    """FedGS on balanced shares, with settings of the weighting."""
    return {"name": "fedgs", "balance": "share", "weighting": {"name": "deficit", **weighting}}


INVERSE, DEFICIT = "inverse_participation", Deficit()
SETTINGS: dict[str, Any] = {
    "fedgs": {"name": "fedgs"},
    "fedgs, inverse participation": {"name": "fedgs", "weighting": INVERSE},
    "fedgs, shrunk, floor .1": {"name": "fedgs", "weighting": {"name": "deficit", "floor": 0.1}},
    "md, inverse participation": {"name": "md", "weighting": INVERSE},
    "smallest counts, proportional": SmallestCounts(weighting=Proportional()),
    "largest d, proportional": LargestDeficits(weighting=Proportional()),
    "largest d / sqrt(p), proportional": LargestDeficits(power=0.5, weighting=Proportional()),
    "largest d / p, proportional": LargestDeficits(power=1.0, weighting=Proportional()),
    "largest d / sqrt(p), full, floor .1": LargestDeficits(
        power=0.5, weighting=Deficit(correction="full", floor=0.1)
    ),
    "shares, none": shares(correction="none"),
    "shares, full, floor .1": shares(correction="full", floor=0.1),
    "shares, shrunk, floor .1": shares(floor=0.1),
    "shares, full": shares(correction="full"),
    "shares, shrunk": shares(),
    "shares, shrunk, horizon 100": shares(horizon=100),
    "shares, soft": FedGS(balance="share", weighting=OwnStrength()),
    "shares, garrote": FedGS(balance="share", weighting=OwnStrength(rule="garrote")),
    "shares, full, unnormalised": shares(correction="full", normalise=False),
    "counts apart, data sizes": Apart(),
    "counts apart 5, data sizes": Apart(turns=5.0),
    "counts apart, shrunk": Apart(weighting=DEFICIT),
    "shares apart, shrunk": Apart(balance="share", weighting=DEFICIT),
    "herding, shrunk": Herding(weighting=DEFICIT),
    "herding, data sizes": Herding(weighting=Deficit(correction="none")),
    "herding of a round, shrunk": Herding(cumulative=False, weighting=DEFICIT),
    "herding 1/4, shrunk": Herding(alpha=0.25, weighting=DEFICIT),
}

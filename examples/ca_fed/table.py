"""The Synthetic table of CA-Fed (Rodio et al., 2023): unbiased weights, F3AST and CA-Fed.

Usage: python table.py FOLDER [SEEDS] [TUNING_SEEDS]

The runs are stored in FOLDER and continue there. First the learning rates of each method are tuned:
over a grid, the pair with the highest mean test accuracy of all rounds, on TUNING_SEEDS federations
(default 3) that are not used again. Then each method runs on SEEDS other federations (default 10)
with these rates and with those of the published scripts. The table shows, as means over SEEDS, the
highest test accuracy of the 150 rounds, their mean, and the standard deviation over the second
half; and the paired difference of the mean from that of the unbiased weights in the same group of
rates, with its 95 % interval over seeds.
"""

import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from scipy import optimize, stats

import fedgs
from fedgs import Federation
from fedgs.data import SyntheticClustered
from fedgs.report import Run

# Half of the clients are often available; a quarter is rarely available and keeps its state.
RATE, CORRELATION = [0.9, 0.1], [0.0, 0.0, 0.0, 0.9]
# Pairs of learning rates, of the clients and of the server: the grid of the published scripts, and
# what they take of it.
GRID = tuple(product((0.1, 0.03, 0.01, 0.003, 0.001), (1.0, 0.3, 0.1, 0.03, 0.01)))
FIRST, SECOND = (0.03, 0.03), (0.01, 0.3)
# The published code has this momentum at the server and at the clients. Clients have none here; a
# rate of eta / (1 - MOMENTUM) moves them as far in the long run.
MOMENTUM = 0.9
UNBIASED, F3AST = "Unbiased", "F3AST"
ORACLES, ESTIMATES = "CA-Fed, oracles", "CA-Fed, estimates"
PUBLISHED = {UNBIASED: FIRST, F3AST: FIRST, ORACLES: SECOND, ESTIMATES: SECOND}
Pair = tuple[float, float]
COLUMNS = ("rates", "method", "client, server", "highest", "mean", "deviation", "difference [95 %]")


def methods(federation: Federation, rounds: int) -> dict[str, Any]:
    """Name -> the method for this federation."""
    oracles = {
        "prior_rate": RATE,
        "prior_correlation": CORRELATION,
        "prior_observations": 100.0,
        "optimal_losses": optimal_losses(federation),
    }
    return {
        UNBIASED: "known_rates",
        F3AST: {"name": "f3ast", "beta": 1 / rounds},
        ORACLES: {"name": "ca_fed", "weighting": {"name": "ca_fed", **oracles}},
        ESTIMATES: "ca_fed",
    }


def optimal_losses(federation: Federation) -> list[float]:
    """The training loss of each client's own logistic regression, as the published code fits it.

    The fit minimises the sum of the losses plus half the squared norm of the coefficients.
    """
    return [
        _own_loss(federation.train.x[rows], np.where(federation.train.y[rows] == 1, 1.0, -1.0))
        for rows in map(federation.train.rows, range(len(federation)))
    ]


def _own_loss(x: Any, sign: Any) -> float:
    def losses(parameters: Any) -> Any:
        return np.logaddexp(0.0, -sign * (x @ parameters[:-1] + parameters[-1]))

    def penalised(parameters: Any) -> float:
        return float(losses(parameters).sum() + 0.5 * parameters[:-1] @ parameters[:-1])

    fitted = optimize.minimize(penalised, np.zeros(x.shape[1] + 1), method="BFGS").x
    return float(losses(fitted).mean())


def carried_out(
    pairs: Mapping[str, Iterable[Pair]], seeds: Iterable[int], *, out: Path | None, rounds: int
) -> list[Run]:
    """One run a method, pair of rates and seed; a seed makes its own federation."""
    runs: list[Run] = []
    for seed in seeds:
        data = SyntheticClustered(seed=seed)
        given = methods(data.load(), rounds)
        for pair in dict.fromkeys(pair for wanted in pairs.values() for pair in wanted):
            chosen = {name: given[name] for name in pairs if pair in pairs[name]}
            for proportion in (0.5, 1.0):  # F3AST selects 12 clients, the others all
                labelled = {
                    label_of(name, pair): method
                    for name, method in chosen.items()
                    if (name == F3AST) == (proportion == 0.5)
                }
                if labelled:
                    settings = setting(pair, proportion, rounds)
                    runs += fedgs.compare(
                        data, methods=labelled, seeds=[seed], out=out, **settings
                    ).runs
    return runs


def setting(pair: Pair, proportion: float, rounds: int) -> dict[str, Any]:
    """Availability, training and server step with these rates of clients and server."""
    local, server = pair
    return {
        "availability": {"name": "markov", "rate": RATE, "correlation": CORRELATION},
        "aggregation": {
            "name": "mean",
            "server": {"name": "momentum", "rate": server, "beta": MOMENTUM},
        },
        "training": {
            "rounds": rounds,
            "proportion": proportion,
            "local_steps": 4,  # two passes over 50 examples in batches of 32
            "batch_size": 32,
            # Two outputs with softmax move twice as far as the one output of a sigmoid.
            "learning_rate": local / (1 - MOMENTUM) / 2,
            "decay": 1.0,
        },
        "evaluation": {"every": 1},
    }


def label_of(method: str, pair: Pair) -> str:
    """The label of a method with these rates of clients and server."""
    return f"{method} | {pair[0]:g}, {pair[1]:g}"


def tuned(runs: Sequence[Run]) -> dict[str, Pair]:
    """Method -> the pair of the grid with the highest mean accuracy."""
    found = figures_of(runs)

    def mean(method: str, pair: Pair) -> float:
        return float(np.mean([values[1] for values in found[label_of(method, pair)].values()]))

    return {method: max(GRID, key=lambda pair: mean(method, pair)) for method in PUBLISHED}


def figures(run: Run) -> tuple[float, float, float]:
    """Highest and mean test accuracy, and its standard deviation in the second half, in percent."""
    accuracy = 100 * np.array([record.test_accuracy for record in run.records], dtype=float)
    return (
        float(accuracy.max()),
        float(accuracy.mean()),
        float(accuracy[len(accuracy) // 2 :].std()),
    )


def figures_of(runs: Sequence[Run]) -> dict[str, dict[object, tuple[float, float, float]]]:
    """Label -> seed -> figures."""
    found: dict[str, dict[object, tuple[float, float, float]]] = defaultdict(dict)
    for run in runs:
        found[str(run.config["label"])][run.seed] = figures(run)
    return found


def table(runs: Sequence[Run], groups: Mapping[str, Mapping[str, Pair]]) -> str:
    """The table in Markdown, from the pair of rates that each method has in each group."""
    found = figures_of(runs)
    lines = [f"| {' | '.join(COLUMNS)} |", f"|---|---|---|{'---:|' * (len(COLUMNS) - 3)}"]
    for group, pairs in groups.items():
        unbiased = found[label_of(UNBIASED, pairs[UNBIASED])]
        for method, pair in pairs.items():
            by_seed = found[label_of(method, pair)]
            cells = [f"{value:.2f}" for value in np.mean(list(by_seed.values()), axis=0)]
            cells.append("-" if method == UNBIASED else difference(by_seed, unbiased))
            lines.append(f"| {group} | {label_of(method, pair)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def difference(
    own: Mapping[object, tuple[float, float, float]],
    other: Mapping[object, tuple[float, float, float]],
) -> str:
    """The mean over seeds of the paired difference of mean accuracies, and its 95 % interval."""
    pairs = np.array([own[seed][1] - other[seed][1] for seed in own])
    half = stats.t.ppf(0.975, len(pairs) - 1) * stats.sem(pairs) if len(pairs) > 1 else np.nan
    return f"{pairs.mean():+.2f} [{pairs.mean() - half:+.2f}, {pairs.mean() + half:+.2f}]"


def main(folder: str, seeds: str = "10", tuning_seeds: str = "3", *, rounds: int = 150) -> None:
    """Carry out the runs, and print the table."""
    out, others = Path(folder), range(int(seeds), int(seeds) + int(tuning_seeds))
    whole_grid = dict.fromkeys(PUBLISHED, GRID)
    groups = {
        "published": PUBLISHED,
        "first pair": dict.fromkeys(PUBLISHED, FIRST),
        "second pair": dict.fromkeys(PUBLISHED, SECOND),
        "tuned": tuned(carried_out(whole_grid, others, out=out, rounds=rounds)),
    }
    pairs = {method: [group[method] for group in groups.values()] for method in PUBLISHED}
    print(table(carried_out(pairs, range(int(seeds)), out=out, rounds=rounds), groups))


if __name__ == "__main__":
    main(*sys.argv[1:])

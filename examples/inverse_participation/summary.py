"""What inverse participation changes, from the records of `study.toml`'s runs.

Usage: python summary.py FOLDER

For each federation, mode and method: the lowest test loss with the method's own weights, the paired
difference that inverse participation makes (mean over seeds, 95 % interval), how uneven the counts
are, how uneven the weights of a round are with either rule, and how far each client's share of all
rounds' weights is from its share of the data.
"""

import sys
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from scipy import stats

from fedgs.report import Run, read_runs
from fedgs.report.summary import count_variance, summarize

COLUMNS = ("own", "difference [95 %]", "count variance", "weight variance", "bias")


def weight_variance(run: Run) -> float:
    """Variance of a round's weights relative to equal ones, m·sum w² - 1, averaged over rounds.

    It is 0 where all weights are equal.
    The average of m equally noisy local models is as noisy as that of m / (1 + this) equally
    weighted ones.
    """
    rounds = [np.asarray(record.weights) for record in run.records if record.weights]
    return float(np.mean([len(w) * np.sum(w**2) - 1 for w in rounds]))


def bias(run: Run) -> float:
    """Half the sum over clients of |share of all rounds' weights - share of the data|.

    0 is unbiased, 1 is the worst.
    """
    clients = run.clients
    assert clients is not None
    total: dict[str | int, float] = defaultdict(float)
    for record in run.records:
        for client, weight in zip(record.cohort or (), record.weights or (), strict=True):
            total[client] += weight
    share = np.array([total[name] for name in clients.names])
    return 0.5 * float(
        np.abs(share / share.sum() - clients.data_sizes / clients.data_sizes.sum()).sum()
    )


def line(own: Mapping[object, Run], inverse: Mapping[object, Run]) -> tuple[str, ...]:
    """The cells of one method under one mode, from seed -> run with either weighting."""
    seeds = sorted(own.keys() & inverse.keys(), key=str)
    losses = np.array(
        [[summarize(runs[seed]).test_loss for seed in seeds] for runs in (own, inverse)],
        dtype=float,
    )
    difference = losses[1] - losses[0]
    half = stats.t.ppf(0.975, len(seeds) - 1) * stats.sem(difference) if len(seeds) > 1 else np.nan
    middle = float(difference.mean())

    def both(measure: Callable[[Run], float], digits: int) -> str:
        values = [np.mean([measure(runs[seed]) for seed in seeds]) for runs in (own, inverse)]
        return " → ".join(f"{value:.{digits}f}" for value in values)

    interval = f"{middle:+.3f} [{middle - half:+.3f}, {middle + half:+.3f}]"
    counts = np.mean([count_variance(own[seed]) or 0.0 for seed in seeds])
    return (
        f"{losses[0].mean():.3f}",
        interval,
        f"{counts:.1f}",
        both(weight_variance, 2),
        both(bias, 3),
    )


def table(runs: Sequence[Run]) -> str:
    """One Markdown table a federation."""
    cells: dict[tuple[str, ...], dict[object, Run]] = defaultdict(dict)
    for run in runs:
        method = run.table("method")
        weighting = "inverse" if method.get("weighting") == "inverse_participation" else "own"
        data = f"{run.about.get('data_title')} ({str(run.about.get('data_fingerprint'))[:8]})"
        cells[data, str(run.table("availability")["name"]), str(method["name"]), weighting][
            run.seed
        ] = run
    lines: list[str] = []
    for data in dict.fromkeys(key[0] for key in cells):
        lines += [
            "",
            f"**{data}**",
            "",
            f"| mode | method | {' | '.join(COLUMNS)} |",
            f"|---|---|{'---:|' * len(COLUMNS)}",
        ]
        for mode, method in dict.fromkeys((key[1], key[2]) for key in cells if key[0] == data):
            own, inverse = cells[data, mode, method, "own"], cells[data, mode, method, "inverse"]
            if own.keys() & inverse.keys():
                lines.append(f"| {mode} | {method} | {' | '.join(line(own, inverse))} |")
    return "\n".join(lines[1:])


if __name__ == "__main__":
    runs, problems = read_runs(Path(sys.argv[1]))
    print(table([run for run in runs if run.finished]))
    print(*problems, sep="\n", file=sys.stderr)

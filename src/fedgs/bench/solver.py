"""Quality and speed of the solver on selection problems of federations, as one table."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import comb
from statistics import median
from time import perf_counter
from typing import Literal

import numpy as np

from fedgs.arrays import FloatMatrix, IntArray
from fedgs.bench.referee import milp_cohort
from fedgs.compiling import load_kernels
from fedgs.errors import SelectionError
from fedgs.graph import Graph, MatrixDistances, feature_products
from fedgs.graph.tree import SpanningForest, forest_distances
from fedgs.rng import stream
from fedgs.solver import plain
from fedgs.solver.problem import SelectionProblem, Solution, block_of, objective
from fedgs.solver.scales import Scale, balance_penalty, pair_weight
from fedgs.solver.solve import solve

__all__ = ["Instance", "Row", "features", "instances", "markdown", "run", "tree_instances"]

FEDERATIONS = ("synthetic", "dirichlet_0.1", "dirichlet_0.5", "two_labels", "two_labels_equal")
AVAILABILITIES = ("full", "log-normal", "coin")
_SIZES = {30: 6, 100: 10, 200: 20, 1000: 100, 10_000: 1000}
Preset = Literal["paper", "authors"]


@dataclass(frozen=True, eq=False)
class Instance:
    """A selection problem and where it is from."""

    federation: str
    graph: Preset
    scale: Scale
    availability: str
    round: int
    problem: SelectionProblem


@dataclass(frozen=True)
class Row:
    """One line of the table: the problems, their quality, and times in seconds.

    Attributes:
        equal: share of problems whose objective is that of the reference (to 1e-9 of the largest
            pair).
        worst_gap: largest relative gap to the reference.
        reference: "100x longer", "brute force" (and for how many problems HiGHS agreed) or "tree
            optimum".
        proven: share of status "optimal".
        seconds: median time of a selection; `thorough_seconds` with proof, `thorough_proven` how
            often it succeeded.
    """

    clients: int
    cohort: int
    graph: str
    scale: str
    problems: int
    equal: float
    worst_gap: float
    reference: str
    proven: float
    seconds: float
    thorough_seconds: float | None = None
    thorough_proven: float | None = None


def features(name: str, clients: int, seed: int) -> FloatMatrix:
    """(N, d) client features of a federation like the paper's.

    >>> features("two_labels", 5, 0).shape
    (5, 10)
    """
    rng = stream(seed, f"benchmark features {name}", clients)
    if name == "synthetic":
        center = rng.normal(0.0, 0.5, (clients, 1))
        return np.asarray(rng.normal(center, 1.0, (clients, 610)))
    if name.startswith("dirichlet_"):
        return np.asarray(
            rng.dirichlet(np.full(10, float(name.removeprefix("dirichlet_"))), clients)
        )
    shares = np.zeros((clients, 10))
    for row in shares:
        part = 0.5 if name.endswith("equal") else rng.uniform(0.2, 0.8)
        row[rng.choice(10, 2, replace=False)] = part, 1.0 - part
    return shares


def instances(
    clients: int,
    cohort_limit: int,
    *,
    graph: Preset,
    scale: Scale,
    rounds: int = 8,
    every: int = 1,
    seed: int = 0,
    alpha: float = 1.0,
) -> Iterator[Instance]:
    """The problems of `rounds` rounds of FedGS for each federation and availability.

    Every `every`-th problem is yielded.
    """
    settings = Graph(preset=graph)
    for name in FEDERATIONS:
        distances = MatrixDistances(
            settings.of_products(feature_products(features(name, clients, seed))).distance
        )
        for mode in AVAILABILITIES:
            counts = np.zeros(clients, dtype=np.int64)
            for number, available in enumerate(_availability(mode, clients, rounds, seed)):
                size = min(cohort_limit, len(available))
                penalty = balance_penalty(counts, cohort_limit, available, scale)
                weight = pair_weight(alpha, scale, clients, size)
                problem = SelectionProblem(distances, penalty, size, weight, available)
                counts[solve(problem, effort="fast", seed=number).cohort] += 1
                if number % every == every - 1:
                    yield Instance(name, graph, scale, mode, number, problem)


def tree_instances(
    clients: int, cohort: int, *, seed: int = 0, count: int = 3
) -> Iterator[Instance]:
    """Problems whose distances are those of a tree, so that the optimum is known."""
    rng = stream(seed, "benchmark tree", clients)
    parent = np.array([-1, *(int(rng.integers(max(0, i - 8), i)) for i in range(1, clients))])
    matrix = forest_distances(
        SpanningForest(
            parent, np.append(0.0, rng.exponential(size=clients - 1)), np.arange(clients)
        )
    )
    matrix /= matrix.max()
    distances = MatrixDistances(matrix)
    for number in range(count):
        counts = rng.integers(0, 4, clients)
        penalty = balance_penalty(counts, cohort, np.arange(clients), "cohort")
        problem = SelectionProblem(
            distances, penalty, cohort, pair_weight(1.0, "cohort", clients, cohort)
        )
        yield Instance("tree metric", "paper", "cohort", "full", number, problem)


def run(
    clients: tuple[int, ...] = (30, 100, 200, 1000),
    *,
    rounds: int = 8,
    seed: int = 0,
    referee: float = 5.0,
) -> list[Row]:
    """Solve every instance and compare the solutions with a reference.

    The reference is brute force at N = 30, and otherwise a search that is 100 times as long.

    Args:
        clients: numbers of clients, each among 30, 100, 200, 1000 and 10000 (which takes about 2
            GB).
        rounds: rounds of each of the 15 runs (5 federations, 3 availabilities) for each graph and
            scale; a quarter at N = 1000.
        seed: >= 0, of the federations.
        referee: seconds > 0 that HiGHS gets for each of the 30-client problems it judges.

    Raises:
        SelectionError: another number of clients.
    """
    unknown = [count for count in clients if count not in _SIZES]
    if unknown:
        raise SelectionError(
            f"clients must be among {', '.join(map(str, _SIZES))}, got {unknown[0]}"
        )
    rows = []
    for count in clients:
        cohort = _SIZES[count]
        if count >= 10_000:
            batch = list(tree_instances(count, cohort, seed=seed))
            rows.append(_measure(count, cohort, "tree", "cohort", batch=batch, referee=referee))
            continue
        used = max(1, rounds // 4) if count >= 1000 else rounds
        for graph in ("paper", "authors"):
            for scale in ("paper", "cohort"):
                batch = list(
                    instances(count, cohort, graph=graph, scale=scale, rounds=used, seed=seed)
                )
                rows.append(_measure(count, cohort, graph, scale, batch=batch, referee=referee))
    return rows


def markdown(rows: list[Row]) -> str:
    """The table of `docs/benchmarks.md`."""
    lines = [
        "| N, m | graph, scale | problems | equal | worst gap | reference | proven | time "
        "| thorough: proven, time |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        thorough = (
            "-"
            if row.thorough_seconds is None
            else f"{row.thorough_proven:.0%}, {_time(row.thorough_seconds)}"
        )
        lines.append(
            f"| {row.clients}, {row.cohort} | {row.graph}, {row.scale} | {row.problems} "
            f"| {row.equal:.1%} | {row.worst_gap:.3%} | {row.reference} | {row.proven:.0%} "
            f"| {_time(row.seconds)} | {thorough} |"
        )
    return "\n".join(lines)


def _measure(
    clients: int, cohort: int, graph: str, scale: str, *, batch: list[Instance], referee: float
) -> Row:
    for instance in batch[:2]:  # compile kernels and fill caches
        solve(instance.problem, seed=1)
    answers, seconds = [], []
    for instance in batch:
        rng = stream(instance.round, "benchmark select")  # as a sampler has it
        began = perf_counter()
        answers.append(solve(instance.problem, seed=rng))
        seconds.append(perf_counter() - began)
    kind, best = _references(clients, batch, answers, referee)
    gaps = [
        _gap(instance.problem, answer, other)
        for instance, answer, other in zip(batch, answers, best, strict=True)
    ]
    row = Row(
        clients=clients,
        cohort=cohort,
        graph=graph,
        scale=scale,
        problems=len(batch),
        equal=sum(gap == 0 for gap in gaps) / len(gaps),
        worst_gap=max(gaps),
        reference=kind,
        proven=sum(answer.status == "optimal" for answer in answers) / len(answers),
        seconds=median(seconds),
    )
    if clients > 30:
        return row
    proofs = [solve(instance.problem, effort="thorough", seed=1) for instance in batch]
    proven = sum(proof.status == "optimal" for proof in proofs) / len(proofs)
    return replace(
        row, thorough_seconds=median(proof.seconds for proof in proofs), thorough_proven=proven
    )


def _references(
    clients: int, batch: list[Instance], answers: list[Solution], referee: float
) -> tuple[str, list[float]]:
    if batch[0].federation == "tree metric":
        return "tree optimum", [answer.upper_bound for answer in answers]
    if clients <= 30:
        best = [objective(instance.problem, brute_force(instance.problem)) for instance in batch]
        some = list(zip(batch, best, strict=True))[:: max(1, len(batch) // 5)]
        judged = [
            (milp_cohort(instance.problem, time_limit=referee), value) for instance, value in some
        ]
        proofs = [
            abs(reached - value) <= 1e-6 * max(1.0, abs(value))
            for (_, reached, proven), value in judged
            if proven
        ]
        return f"brute force; HiGHS agrees on {sum(proofs)} of the {len(proofs)} it proves", best
    long = [_longer(instance.problem, 100) for instance in batch]
    return "100x longer", [
        max(answer.objective, other) for answer, other in zip(answers, long, strict=True)
    ]


def _gap(problem: SelectionProblem, answer: Solution, best: float) -> float:
    """The relative gap to the best value.

    Differences within 1e-9·pair_weight·h_max·m count as none.
    """
    unit = problem.pair_weight * problem.distances.maximum
    missing = best - answer.objective
    if missing <= 1e-9 * unit * max(1, problem.cohort_size):
        return 0.0
    return missing / max(abs(best), unit)


def _longer(problem: SelectionProblem, times: int) -> float:
    return max(
        solve(problem, effort="default", seed=1000 + again).objective for again in range(times)
    )


def brute_force(problem: SelectionProblem) -> IntArray:
    """The best of all cohorts, by enumeration.

    >>> line = np.abs(np.subtract.outer(np.arange(4.0), np.arange(4.0)))
    >>> brute_force(SelectionProblem(line, np.zeros(4), cohort_size=2, pair_weight=1.0))
    array([0, 3])
    """
    pool, size = problem.pool, problem.cohort_size
    weights = problem.pair_weight * block_of(problem.distances, pool, pool)
    gains = -problem.balance_penalty[pool]
    kernels = load_kernels("fedgs.solver.kernels.small") if comb(len(pool), size) > 1000 else None
    if kernels is None:
        return np.asarray(pool[plain.enumerate_all(weights, gains - gains.max(), size)])
    chosen = np.arange(size)
    working = np.empty((1, size), dtype=np.int64), np.empty((1, size))
    kernels.try_all(weights, np.arange(len(pool)), gains - gains.max(), chosen, 0.0, *working)
    return np.asarray(pool[chosen])


def _availability(mode: str, clients: int, rounds: int, seed: int) -> Iterator[IntArray]:
    rng = stream(seed, f"benchmark availability {mode}", clients)
    rates = np.exp(rng.normal(0.0, np.log(2.0), clients))
    rates = {
        "full": np.ones(clients),
        "coin": np.full(clients, 0.5),
        "log-normal": rates / rates.max(),
    }[mode]
    for _ in range(rounds):
        drawn = np.flatnonzero(rng.random(clients) < rates)
        yield drawn if len(drawn) else np.arange(clients)


def _time(seconds: float) -> str:
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} µs"
    return f"{seconds * 1e3:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"

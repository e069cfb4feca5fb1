"""Table 4: FedGS on the oracle's graph and on graphs made from models, each at its best alpha."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fedgs.experiments.paper.frame.conditions import Source
from fedgs.experiments.paper.frame.experiment import (
    Experiment,
    ExperimentRecords,
    LoadedRun,
    PlannedRun,
    Rendering,
    losses,
)
from fedgs.experiments.paper.frame.planning import check_overrides, planned_runs
from fedgs.experiments.paper.frame.published import TABLE4
from fedgs.experiments.paper.frame.request import ExperimentRequest
from fedgs.experiments.paper.frame.rows import ALPHAS, MethodRow, fedgs_method
from fedgs.experiments.paper.frame.sentences import Figures, best_row, mean
from fedgs.experiments.paper.frame.tables import runs_table, standard_deviation
from fedgs.report.table import Block, Cell, Column, Table
from fedgs.report.tables import Difference, number, paired_difference, signed

__all__ = ["EXPERIMENTS"]

# Similarity -> its name in the paper.
GRAPHS = {"oracle": "oracle", "functional": "functional", "update": "cosine"}


def _rows(request: ExperimentRequest, graph: str) -> list[MethodRow]:
    """One row an alpha. At alpha 0 the graph has no effect; all graphs share the oracle's run."""
    rows = []
    for alpha in ALPHAS:
        method = fedgs_method(alpha, request.scale)
        if graph != "oracle" and alpha != 0:
            method["graph"] = {"similarity": graph}
        rows.append(MethodRow(f"{graph}-{alpha:g}", f"{GRAPHS[graph]} {alpha:g}", method))
    check_overrides(request, rows)
    return rows


def plan(request: ExperimentRequest) -> list[PlannedRun]:
    """One run for every graph, alpha, mode and seed."""
    rows = [row for graph in GRAPHS for row in _rows(request, graph)]
    return [
        run
        for source in request.data
        for run in planned_runs(request, source, modes=request.modes_of(source), rows=rows)
    ]


@dataclass(frozen=True, eq=False)
class _Best:
    """The best alpha of a graph in one mode, by the mean over seeds."""

    alpha: str
    values: Mapping[object, float]

    @property
    def mean(self) -> float:
        return mean(self.values) or 0.0


def render(request: ExperimentRequest, records: ExperimentRecords) -> Rendering:
    """Each graph at its best alpha, the paper's figures, and paired differences to the oracle."""
    verdict, blocks, everything = [], [], []
    for source in request.data:
        runs = [loaded for loaded in records.runs if loaded.data == source.key]
        if not runs:
            continue
        block = source.paper_block(runs[0].run.num_clients)
        title = str(runs[0].run.about.get("data_title", source.title))
        best = {
            mode.title: {
                graph: _best(runs, source.key, mode=mode.title, graph=graph) for graph in GRAPHS
            }
            for mode in request.modes_of(source)
        }
        paper = {
            mode.title: TABLE4.get(block or "", {}).get(mode.name, {}) if mode.published else {}
            for mode in request.modes_of(source)
        }
        blocks.append(
            Block((("data", title),), tuple(_row(mode, best[mode], paper[mode]) for mode in best))
        )
        everything.append(_alpha_block(title, request, source, runs))
        verdict += _verdict(title, best, paper)
    if not blocks:
        return Rendering()
    notes = (
        "For each graph the alpha of {0, .5, 1, 2, 5} with the lowest mean over seeds, in brackets "
        "the paper's figure; the differences are of these runs, paired over seeds, with 95 % "
        "intervals. At alpha 0 the graph plays no part: the three share one run.",
    )
    csv_only = {
        "alphas": Table("Table 4: every alpha", _ALPHA_COLUMNS, tuple(everything)),
        "runs": runs_table("The runs of Table 4", records.runs),
    }
    table = Table("Table 4: FedGS by the graph it runs on", _COLUMNS, tuple(blocks), notes)
    return Rendering({"": table}, csv_only, verdict)


def _best(runs: Sequence[LoadedRun], data: str, *, mode: str, graph: str) -> _Best | None:
    figures: Figures = {
        f"{alpha:g}": losses(runs, data=data, mode=mode, row=f"{graph}-{alpha:g}")
        for alpha in ALPHAS
    }
    best = best_row(figures)
    return None if best is None else _Best(best, figures[best])


_COLUMNS = (
    Column("mode", ("mode",), numeric=False),
    *(
        Column(word, (f"{word}_mean", f"{word}_seeds", f"{word}_alpha", f"{word}_paper"))
        for word in GRAPHS.values()
    ),
    *(
        Column(
            f"{word} - oracle [95 %]",
            tuple(f"{word}_difference{part}" for part in ("", "_low", "_high", "_pairs")),
        )
        for word in ("functional", "cosine")
    ),
)
_ALPHA_COLUMNS = (
    Column("mode", ("mode",), numeric=False),
    Column("graph", ("graph",), numeric=False),
    *(
        Column(f"alpha {alpha:g}", (f"alpha {alpha:g} mean", f"alpha {alpha:g} sd"))
        for alpha in ALPHAS
    ),
)


def _row(
    mode: str, best: Mapping[str, _Best | None], paper: Mapping[str, float]
) -> tuple[Cell, ...]:
    cells = [Cell(mode, (mode,))]
    lowest = min((choice.mean for choice in best.values() if choice is not None), default=None)
    for graph in GRAPHS:
        choice, beside = best[graph], f" ({number(paper[graph], 3)})" if graph in paper else ""
        if choice is None:
            cells.append(Cell(f"not run{beside}", (None, 0, None, paper.get(graph))))
        else:
            text = f"{number(choice.mean, 3)} at {choice.alpha}{beside}"
            mark = "best" if choice.mean == lowest else ""
            cells.append(
                Cell(text, (choice.mean, len(choice.values), choice.alpha, paper.get(graph)), mark)
            )
    for graph in ("functional", "update"):
        gap = _difference(best[graph], best["oracle"])
        if gap is None:
            cells.append(Cell("–", (None, None, None, 0)))
        else:
            text = signed(gap.mean)
            if gap.low is not None and gap.high is not None:
                text += f" [{signed(gap.low)}, {signed(gap.high)}]"
            cells.append(Cell(text, (gap.mean, gap.low, gap.high, gap.pairs)))
    return tuple(cells)


def _difference(choice: _Best | None, oracle: _Best | None) -> Difference | None:
    if choice is None or oracle is None:
        return None
    return paired_difference(dict(choice.values), dict(oracle.values))


def _alpha_block(
    title: str, request: ExperimentRequest, source: Source, runs: Sequence[LoadedRun]
) -> Block:
    rows = []
    for mode in request.modes_of(source):
        for graph, word in GRAPHS.items():
            cells = [Cell(mode.title, (mode.title,)), Cell(word, (word,))]
            for alpha in ALPHAS:
                row = f"{graph}-{alpha:g}"
                values = losses(runs, data=source.key, mode=mode.title, row=row)
                average, deviation = mean(values), standard_deviation(values.values())
                text = "–" if average is None else number(average, 3)
                cells.append(Cell(text, (average, deviation)))
            rows.append(tuple(cells))
    return Block((("data", title),), tuple(rows))


_TOLERANCE = 0.005


def _verdict(
    title: str,
    best: Mapping[str, Mapping[str, _Best | None]],
    paper: Mapping[str, Mapping[str, float]],
) -> list[str]:
    sentences = []
    for mode, graphs in best.items():
        by_graph = {graph: choice for graph, choice in graphs.items() if choice is not None}
        if len(by_graph) < 2:
            continue
        lowest, highest = (
            min(by_graph, key=lambda g: by_graph[g].mean),
            max(by_graph, key=lambda g: by_graph[g].mean),
        )
        spread = by_graph[highest].mean - by_graph[lowest].mean
        text = f"- {mode}: the graphs' means lie within {number(spread, 3)} of each other"
        text += "" if spread == 0 else f", {GRAPHS[lowest]} lowest, {GRAPHS[highest]} highest"
        if len(paper[mode]) == len(GRAPHS):
            published = paper[mode]
            low, high = min(published.values()), max(published.values())
            names = [GRAPHS[graph] for graph in GRAPHS if published[graph] == low]
            text += f" (paper: within {number(high - low, 3)}, lowest {' and '.join(names)})"
        sentences.append(text + ".")
    wide = [
        mode
        for mode, graphs in best.items()
        if (means := [choice.mean for choice in graphs.values() if choice is not None])
        and max(means) - min(means) > _TOLERANCE
    ]
    if sentences:
        where = "in every mode" if not wide else f"in all modes but {', '.join(wide)}"
        sentences.append(
            f"- The three graphs give means within {number(_TOLERANCE, 3)} of each other {where}."
        )
    return [f"{title}:", *sentences] if sentences else []


EXPERIMENTS = {
    "table4": Experiment(
        name="table4",
        title="Table 4: FedGS on the oracle's and on constructed graphs",
        claim=(
            "FedGS on a graph made from the models' functional similarity, or from the cosine of "
            "their updates, is about as good as on the oracle's graph; each at the best alpha of "
            "{0, .5, 1, 2, 5}."
        ),
        takes=frozenset({"data", "modes", "rounds", "seeds", "scale", "workers", "set"}),
        data=(Source("synthetic"),),
        plan=plan,
        render=render,
    )
}

"""Table 2: the lowest test loss of every method under every mode, and its increase over IDL."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fedgs.errors import ConfigError
from fedgs.experiments.paper.frame.experiment import (
    Experiment,
    ExperimentRecords,
    LoadedRun,
    PlannedRun,
    Rendering,
    Row,
    check_overrides,
    is_about_fedgs,
    losses,
    planned_runs,
    runs_table,
)
from fedgs.experiments.paper.frame.published import ROUNDS, TABLE2
from fedgs.experiments.paper.frame.request import ExperimentRequest, Source
from fedgs.experiments.paper.frame.sentences import (
    gap_sentence,
    listed,
    mean,
    order_sentence,
    standing_sentence,
)
from fedgs.report.table import Block, Cell, Column, Table
from fedgs.report.tables import ALL_FIGURES, comparison, number

__all__ = ["ALPHAS", "EXPERIMENTS", "baseline_rows", "chosen_rows", "fedgs_row", "table2_rows"]

ALPHAS = (0.0, 0.5, 1.0, 2.0, 5.0)
_INVERSE = "inverse_participation"


def baseline_rows() -> list[Row]:
    """The paper's baselines. Power of choice uses validation losses, as its figures imply."""
    return [
        Row("uniform", "uniform", {"name": "uniform"}),
        Row("md", "md", {"name": "md"}),
        Row(
            "power_of_choice",
            "power_of_choice",
            {"name": "power_of_choice", "loss_on": "validation"},
        ),
        Row("fedprox", "fedprox .01", {"name": "fedprox"}, {"mu": 0.01}),
    ]


def fedgs_row(alpha: float, scale: str) -> Row:
    """FedGS at a diversity weight."""
    return Row(f"fedgs-{alpha:g}", f"fedgs {alpha:g}", _fedgs(alpha, scale))


def _fedgs(alpha: float, scale: str) -> dict[str, object]:
    return {"name": "fedgs", "alpha": alpha, "scale": scale}


def table2_rows(request: ExperimentRequest) -> list[Row]:
    """The rows of the table.

    These are the paper's nine rows, FedGS at alpha 1 in the other scale, and with `--ours` two rows
    with inverse participation.
    """
    other = "paper" if request.scale == "cohort" else "cohort"
    rows = [*baseline_rows(), *(fedgs_row(alpha, request.scale) for alpha in ALPHAS)]
    rows.append(Row(f"fedgs-{other}", f"fedgs 1, {other} scale", _fedgs(1.0, other)))
    if request.ours:
        rows.append(
            Row(
                "uniform-inverse", "uniform, inverse p.", {"name": "uniform", "weighting": _INVERSE}
            )
        )
        rows.append(
            Row(
                "fedgs-inverse",
                "fedgs 1, inverse p.",
                {**_fedgs(1.0, "paper"), "weighting": _INVERSE},
            )
        )
    return rows


def chosen_rows(request: ExperimentRequest, rows: Sequence[Row]) -> list[Row]:
    """The rows that `--methods` names, by key or by family; without it, all rows.

    Raises:
        ConfigError: a name that is neither.
    """
    for name in request.methods:
        if all(name not in (row.key, row.family) for row in rows):
            known = dict.fromkeys(word for row in rows for word in (row.family, row.key))
            raise ConfigError(
                f"--methods must be of {', '.join(known)} for {request.name}; got {name!r}"
            )
    chosen = [
        row for row in rows if not request.methods or {row.key, row.family} & set(request.methods)
    ]
    check_overrides(request, chosen)
    return chosen


def plan(request: ExperimentRequest) -> list[PlannedRun]:
    """One run for every row, mode and seed."""
    rows = chosen_rows(request, table2_rows(request))
    return [
        run
        for source in request.data
        for run in planned_runs(request, source, modes=request.modes_of(source), rows=rows)
    ]


@dataclass(frozen=True, eq=False)
class Results:
    """The losses of one federation and the paper's.

    Attributes:
        source: the federation.
        title: its name in the records.
        rows: the table's rows.
        modes: titles in order.
        ours: mode -> row -> replicate -> loss.
        paper: mode -> row -> loss; {} for a mode without published figures.
        rounds: the numbers of rounds that the runs have, each once.
    """

    source: Source
    title: str
    rows: Sequence[Row]
    modes: Sequence[str]
    ours: Mapping[str, Mapping[str, Mapping[object, float]]]
    paper: Mapping[str, Mapping[str, float]]
    rounds: Sequence[int]

    @property
    def labels(self) -> dict[str, str]:
        """Row -> label."""
        return {row.key: row.label for row in self.rows}


def collect(
    request: ExperimentRequest,
    source: Source,
    *,
    rows: Sequence[Row],
    runs: Sequence[LoadedRun],
    published: Mapping[str, Mapping[str, Mapping[str, float]]],
) -> Results:
    """The losses of one federation's runs, and the published figures that are comparable."""
    loaded = [run for run in runs if run.data == source.key]
    modes = request.modes_of(source)
    block = source.paper_block(next((run.run.num_clients for run in loaded), None))
    ours = {
        mode.title: {
            row.key: losses(loaded, data=source.key, mode=mode.title, row=row.key) for row in rows
        }
        for mode in modes
    }
    paper = {
        mode.title: published.get(block or "", {}).get(mode.name, {}) if mode.published else {}
        for mode in modes
    }
    title = next((str(run.run.about.get("data_title")) for run in loaded), source.title)
    rounds = sorted({run.run.rounds_done for run in loaded})
    return Results(source, title, rows, [mode.title for mode in modes], ours, paper, rounds)


def render(request: ExperimentRequest, records: ExperimentRecords) -> Rendering:
    """Losses, degradations, paired comparisons, every run, and the agreement with the paper."""
    rows = chosen_rows(request, table2_rows(request))
    results = [
        collect(request, source, rows=rows, runs=records.runs, published=TABLE2)
        for source in request.data
    ]
    tables = {"": table_of_losses("Table 2: lowest test loss", results)}
    csv_only = {}
    if any("IDL" in result.modes and len(result.modes) > 1 for result in results):
        tables["degradation"] = _degradation_table(results)
    labelled = [replace(loaded.run, label=_label(rows, loaded.row)) for loaded in records.runs]
    if labelled:
        csv_only["comparison"] = comparison(labelled, figures=ALL_FIGURES)
        csv_only["runs"] = runs_table("The runs of Table 2", records.runs)
    verdict = [sentence for result in results for sentence in _verdict(request, result)]
    return Rendering(tables, csv_only, verdict)


def _label(rows: Sequence[Row], key: str) -> str:
    return next(row.label for row in rows if row.key == key)


def table_of_losses(title: str, results: Sequence[Results]) -> Table:
    """One row a method, one column a mode: mean ± sd over seeds, and the paper's figure."""
    modes = list(dict.fromkeys(mode for result in results for mode in result.modes))
    columns = [Column("method", ("method",), numeric=False)]
    columns += [
        Column(mode, tuple(f"{mode} {part}" for part in ("mean", "sd", "seeds", "paper")))
        for mode in modes
    ]
    blocks = []
    for result in results:
        rows = [
            (
                Cell(row.label, (row.label,)),
                *(
                    _loss_cell(result, mode, row.key) if mode in result.modes else _NOTHING
                    for mode in modes
                ),
            )
            for row in result.rows
        ]
        blocks.append(Block((("data", result.title),), tuple(rows)))
    notes = [
        "Mean ± standard deviation over seeds; in brackets the paper's figure, where there is one."
    ]
    return Table(
        f"{title}, {blocks[0].title}" if len(blocks) == 1 else title,
        tuple(columns),
        tuple(blocks),
        tuple(notes),
    )


_NOTHING = Cell("–", (None, None, 0, None))


def _loss_cell(results: Results, mode: str, row: str) -> Cell:
    values = list(results.ours[mode][row].values())
    paper = results.paper[mode].get(row)
    beside = "" if paper is None else f" ({number(paper, 3)})"
    if not values:
        return Cell(f"not run{beside}", (None, None, 0, paper))
    average = float(np.mean(values))
    deviation = float(np.std(values, ddof=1)) if len(values) > 1 else None
    spread = "" if deviation is None else f" ± {number(deviation, 3)}"
    means = sorted({m for other in results.ours[mode].values() if (m := mean(other)) is not None})
    mark = (
        ""
        if len(means) < 2
        else "best"
        if average == means[0]
        else "second"
        if average == means[1] and len(means) > 2
        else ""
    )
    return Cell(
        f"{number(average, 3)}{spread}{beside}", (average, deviation, len(values), paper), mark
    )


def degradations(means: Mapping[str, float]) -> dict[str, float]:
    """Mode -> relative increase of the loss over IDL; {} without IDL.

    >>> degradations({"IDL": 0.302, "MDF 0.7": 0.362})
    {'MDF 0.7': 0.198...}
    """
    ideal = means.get("IDL")
    return (
        {}
        if ideal is None
        else {mode: average / ideal - 1 for mode, average in means.items() if mode != "IDL"}
    )


def _degradation_table(results: Sequence[Results]) -> Table:
    modes = list(
        dict.fromkeys(mode for result in results for mode in result.modes if mode != "IDL")
    )
    columns = [Column("method", ("method",), numeric=False)]
    columns += [Column(mode, (mode, f"{mode} paper")) for mode in modes]
    columns.append(Column("worst", ("worst", "worst paper")))
    blocks = []
    for result in results:
        rows = []
        for row in result.rows:
            ours, paper = _degraded(result, row.key)
            cells = [_percent_cell(ours.get(mode), paper.get(mode)) for mode in modes]
            worst = _percent_cell(
                max(ours.values(), default=None), max(paper.values(), default=None)
            )
            rows.append((Cell(row.label, (row.label,)), *cells, worst))
        blocks.append(Block((("data", result.title),), tuple(rows)))
    title = "Loss above that of IDL"
    notes = (
        "Ratio of the means over seeds; in brackets the same of the paper's figures. Negative: "
        "lower than under IDL.",
    )
    return Table(
        f"{title}, {blocks[0].title}" if len(blocks) == 1 else title,
        tuple(columns),
        tuple(blocks),
        notes,
    )


def _degraded(results: Results, row: str) -> tuple[dict[str, float], dict[str, float]]:
    means = {
        mode: average
        for mode in results.modes
        if (average := mean(results.ours[mode][row])) is not None
    }
    paper = {mode: results.paper[mode][row] for mode in results.modes if row in results.paper[mode]}
    return degradations(means), degradations(paper)


def percent(share: float) -> str:
    """A share in per cent with its sign.

    >>> percent(0.0864), percent(-0.0305), percent(0.0)
    ('+8.6 %', '-3.0 %', '0.0 %')
    """
    text = f"{100 * share:+.1f} %"
    return "0.0 %" if text[1:] == "0.0 %" else text


def _percent_cell(ours: float | None, paper: float | None) -> Cell:
    beside = "" if paper is None else f" ({percent(paper)})"
    return Cell(f"{'–' if ours is None else percent(ours)}{beside}", (ours, paper))


def _verdict(request: ExperimentRequest, results: Results) -> list[str]:
    """Order and gaps compared with the paper, by mode and by row."""
    labels = results.labels
    fedgs = next((row.key for row in results.rows if row.key == "fedgs-1"), None)
    others = [
        row.key for row in results.rows if not is_about_fedgs(row.key) and "inverse" not in row.key
    ]
    sentences = []
    if fedgs is not None:
        sentences += [
            standing_sentence(
                mode,
                fedgs,
                others,
                ours=results.ours[mode],
                paper=results.paper[mode],
                labels=labels,
            )
            for mode in results.modes
        ]
    sentences += [
        order_sentence(mode, results.ours[mode], paper=results.paper[mode], labels=labels)
        for mode in results.modes
    ]
    for row in results.rows:
        by_mode = {mode: results.ours[mode][row.key] for mode in results.modes}
        paper = {
            mode: results.paper[mode][row.key]
            for mode in results.modes
            if row.key in results.paper[mode]
        }
        sentences.append(gap_sentence(row.label, by_mode, paper))
    sentences += [
        _losing_sentence(results),
        _degradation_sentence(results),
        *(_origin(results)),
        *_paper_scale(request),
    ]
    head = f"{results.title}:"
    return (
        [head, *(f"- {sentence}" for sentence in sentences if sentence)] if any(sentences) else []
    )


def _losing_sentence(results: Results) -> str:
    """The modes in which a baseline's mean is below that of every row of FedGS."""
    losing, compared = [], 0
    for mode in results.modes:
        means = {
            row.key: average
            for row in results.rows
            if (average := mean(results.ours[mode][row.key])) is not None
        }
        fedgs = {row: average for row, average in means.items() if is_about_fedgs(row)}
        others = {
            row: average
            for row, average in means.items()
            if not is_about_fedgs(row) and "inverse" not in row
        }
        if fedgs and others:
            compared += 1
            best = min(fedgs, key=lambda row: fedgs[row])
            other = min(others, key=lambda row: others[row])
            if others[other] < fedgs[best]:
                figures = (
                    f"{results.labels[row]} {number(means[row], 3)}" for row in (other, best)
                )
                losing.append(f"{mode} ({', '.join(figures)})")
    if not compared:
        return ""
    if losing:
        return f"A baseline is below every row of FedGS in: {', '.join(losing)}."
    where = "the one mode" if compared == 1 else f"any of the {compared} modes"
    return f"No baseline is below every row of FedGS in {where}."


def _degradation_sentence(results: Results) -> str:
    """Every row's worst degradation against IDL; FedGS's rows together."""
    parts = []
    groups: dict[str, list[str]] = {}
    for row in results.rows:
        if "inverse" not in row.key:
            groups.setdefault("FedGS at most" if is_about_fedgs(row.key) else row.label, []).append(
                row.key
            )
    for label, keys in groups.items():
        pairs = [_degraded(results, key) for key in keys]
        ours = max(
            ((average, mode) for degraded, _ in pairs for mode, average in degraded.items()),
            default=None,
        )
        paper = max(
            ((average, mode) for _, degraded in pairs for mode, average in degraded.items()),
            default=None,
        )
        if ours is not None:
            beside = "" if paper is None else f"; paper {percent(paper[0])}, {paper[1]}"
            parts.append(f"{label} {percent(ours[0])} ({ours[1]}{beside})")
    return f"Loss above that of IDL in the worst mode: {listed(parts)}." if parts else ""


def _origin(results: Results) -> list[str]:
    """Limits of the comparison with the paper's figures."""
    if not any(results.paper.values()):
        return ["The paper has no figures for this federation."]
    theirs = ROUNDS["synthetic" if results.source.path is not None else results.source.key]
    if list(results.rounds) == [theirs]:
        return _federation(results)
    ours = " or ".join(map(str, results.rounds))
    return [
        f"The runs have {ours} rounds, the paper's {theirs}: levels cannot be compared.",
        *_federation(results),
    ]


def _federation(results: Results) -> list[str]:
    """Whether the federation is the paper's."""
    if results.source.path is not None:
        return [
            "The paper's Synthetic figures stand beside a file of 30 clients: levels can be "
            "compared if it is the paper's own federation."
        ]
    if results.source.key == "synthetic":
        return [
            "This is another federation than the paper's: only the order of methods can be "
            "compared, not the level."
        ]
    return [
        "This is another partition than the paper's: order and gaps can be compared, not the "
        "third digit."
    ]


def _paper_scale(request: ExperimentRequest) -> list[str]:
    if request.scale == "cohort":
        return []
    return [
        "In paper scale all alpha > 0 below N/(m-1) have the same optimum: these rows coincide but "
        "for ties."
    ]


EXPERIMENTS = {
    "table2": Experiment(
        name="table2",
        title="Table 2: lowest test loss of every method under every availability mode",
        claim=(
            "The lowest test loss depends on the availability mode for every method. FedGS is best "
            "in all modes but IDL and, on Synthetic, MDF, where power of choice is best but "
            "unstable elsewhere. Against IDL, uniform sampling loses up to 19.8 %, MDSample up to "
            "8.6 % and FedGS at most 5 % on Synthetic."
        ),
        takes=frozenset(
            {"data", "modes", "methods", "rounds", "seeds", "scale", "ours", "workers", "set"}
        ),
        data=(Source("synthetic"),),
        plan=plan,
        render=render,
    )
}

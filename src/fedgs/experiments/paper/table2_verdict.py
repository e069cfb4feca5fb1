"""The verdict of table 2: order, gaps and increase over IDL, compared with the paper."""

from collections.abc import Iterable, Mapping

from fedgs.experiments.paper.frame.conditions import Source
from fedgs.experiments.paper.frame.published import ROUNDS
from fedgs.experiments.paper.frame.request import ExperimentRequest
from fedgs.experiments.paper.frame.rows import is_about_fedgs, is_baseline
from fedgs.experiments.paper.frame.sentences import (
    gap_sentence,
    listed,
    order_sentence,
    standing_sentence,
)
from fedgs.experiments.paper.table2_losses import TableLosses, percent
from fedgs.report.tables import number

__all__ = ["verdict_of"]


def verdict_of(request: ExperimentRequest, losses: TableLosses) -> list[str]:
    """The federation's name, and sentences on the order and the gaps; empty without any."""
    sentences = [
        *_standings(losses),
        *_orders(losses),
        *(
            gap_sentence(row.label, _by_mode(losses, row.key), losses.of_paper(row.key))
            for row in losses.rows
        ),
        _losing_sentence(losses),
        _degradation_sentence(losses),
        *_limits(losses),
        *_paper_scale(request),
    ]
    listed_sentences = [f"- {sentence}" for sentence in sentences if sentence]
    return [f"{losses.title}:", *listed_sentences] if listed_sentences else []


def _by_mode(losses: TableLosses, row: str) -> dict[str, Mapping[object, float]]:
    return {mode: losses.ours[mode][row] for mode in losses.modes}


def _standings(losses: TableLosses) -> list[str]:
    """By mode, the baselines that FedGS at alpha 1 is below and above."""
    keys = [row.key for row in losses.rows]
    if "fedgs-1" not in keys:
        return []
    baselines = [row for row in keys if is_baseline(row)]
    return [
        standing_sentence(
            mode,
            "fedgs-1",
            baselines,
            ours=losses.ours[mode],
            paper=losses.paper[mode],
            labels=losses.labels,
        )
        for mode in losses.modes
    ]


def _orders(losses: TableLosses) -> list[str]:
    """By mode, how many pairs of rows are in the paper's order."""
    return [
        order_sentence(mode, losses.ours[mode], paper=losses.paper[mode], labels=losses.labels)
        for mode in losses.modes
    ]


def _losing_sentence(losses: TableLosses) -> str:
    """The modes in which a baseline's mean is below that of every row of FedGS."""
    losing, compared = [], 0
    for mode in losses.modes:
        means = losses.means(mode)
        fedgs = [row for row in means if is_about_fedgs(row)]
        baselines = [row for row in means if is_baseline(row)]
        if fedgs and baselines:
            compared += 1
            best, baseline = (min(rows, key=means.__getitem__) for rows in (fedgs, baselines))
            if means[baseline] < means[best]:
                figures = (
                    f"{losses.labels[row]} {number(means[row], 3)}" for row in (baseline, best)
                )
                losing.append(f"{mode} ({', '.join(figures)})")
    if not compared:
        return ""
    if losing:
        return f"A baseline is below every row of FedGS in: {', '.join(losing)}."
    where = "the one mode" if compared == 1 else f"any of the {compared} modes"
    return f"No baseline is below every row of FedGS in {where}."


def _degradation_sentence(losses: TableLosses) -> str:
    """Every row's worst degradation against IDL; FedGS's rows together."""
    groups: dict[str, list[str]] = {}
    for row in losses.rows:
        if not row.key.endswith("-inverse"):
            label = "FedGS at most" if is_about_fedgs(row.key) else row.label
            groups.setdefault(label, []).append(row.key)
    clauses = []
    for label, keys in groups.items():
        pairs = [losses.degradations(key) for key in keys]
        ours, paper = _worst(ours for ours, _ in pairs), _worst(paper for _, paper in pairs)
        if ours is not None:
            beside = "" if paper is None else f"; paper {percent(paper[0])}, {paper[1]}"
            clauses.append(f"{label} {percent(ours[0])} ({ours[1]}{beside})")
    return f"Loss above that of IDL in the worst mode: {listed(clauses)}." if clauses else ""


def _worst(degradations: Iterable[Mapping[str, float]]) -> tuple[float, str] | None:
    """The largest degradation and its mode."""
    return max(
        ((share, mode) for by_mode in degradations for mode, share in by_mode.items()), default=None
    )


def _limits(losses: TableLosses) -> list[str]:
    """What cannot be compared with the paper's figures."""
    if not any(losses.paper.values()):
        return ["The paper has no figures for this federation."]
    paper_rounds = ROUNDS["synthetic" if losses.source.path is not None else losses.source.key]
    if list(losses.rounds) == [paper_rounds]:
        return [_federation_sentence(losses.source)]
    rounds = " or ".join(map(str, losses.rounds))
    return [
        f"The runs have {rounds} rounds, the paper's {paper_rounds}: levels cannot be compared.",
        _federation_sentence(losses.source),
    ]


def _federation_sentence(source: Source) -> str:
    """Whether the federation is the paper's."""
    if source.path is not None:
        return (
            "The paper's Synthetic figures are next to a file of 30 clients: levels can be "
            "compared if it is the paper's own federation."
        )
    if source.key == "synthetic":
        return (
            "This is another federation than the paper's: only the order of methods can be "
            "compared, not the level."
        )
    return (
        "This is another partition than the paper's: order and gaps can be compared, not the "
        "third digit."
    )


def _paper_scale(request: ExperimentRequest) -> list[str]:
    if request.scale == "cohort":
        return []
    return [
        "In paper scale all alpha > 0 below N/(m-1) have the same optimum: these rows coincide but "
        "for ties."
    ]

"""The losses of table 2 on one federation beside the paper's, and their increase over IDL."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fedgs.experiments.paper.frame.conditions import Source
from fedgs.experiments.paper.frame.experiment import LoadedRun, losses
from fedgs.experiments.paper.frame.published import TABLE2
from fedgs.experiments.paper.frame.request import ExperimentRequest
from fedgs.experiments.paper.frame.rows import MethodRow
from fedgs.experiments.paper.frame.sentences import mean

__all__ = ["TableLosses", "collect", "degradations", "percent"]


@dataclass(frozen=True, eq=False)
class TableLosses:
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
    rows: Sequence[MethodRow]
    modes: Sequence[str]
    ours: Mapping[str, Mapping[str, Mapping[object, float]]]
    paper: Mapping[str, Mapping[str, float]]
    rounds: Sequence[int]

    @property
    def labels(self) -> dict[str, str]:
        """Row -> label."""
        return {row.key: row.label for row in self.rows}

    def means(self, mode: str) -> dict[str, float]:
        """Row -> mean over replicates, for the rows that were run in a mode."""
        return {
            row.key: average
            for row in self.rows
            if (average := mean(self.ours[mode][row.key])) is not None
        }

    def of_paper(self, row: str) -> dict[str, float]:
        """Mode -> the paper's loss of a row."""
        return {mode: self.paper[mode][row] for mode in self.modes if row in self.paper[mode]}

    def degradations(self, row: str) -> tuple[dict[str, float], dict[str, float]]:
        """Mode -> relative increase of a row's loss over IDL, here and in the paper."""
        ours = {
            mode: average
            for mode in self.modes
            if (average := mean(self.ours[mode][row])) is not None
        }
        return degradations(ours), degradations(self.of_paper(row))


def collect(
    request: ExperimentRequest,
    source: Source,
    *,
    rows: Sequence[MethodRow],
    runs: Sequence[LoadedRun],
) -> TableLosses:
    """The losses of one federation's runs, and the published figures that are comparable."""
    loaded = [run for run in runs if run.data == source.key]
    modes = request.modes_of(source)
    published = TABLE2.get(
        source.paper_block(next((run.run.num_clients for run in loaded), None)) or "", {}
    )
    return TableLosses(
        source,
        next((str(run.run.about.get("data_title")) for run in loaded), source.title),
        rows,
        [mode.title for mode in modes],
        {
            mode.title: {
                row.key: losses(loaded, data=source.key, mode=mode.title, row=row.key)
                for row in rows
            }
            for mode in modes
        },
        {mode.title: published.get(mode.name, {}) if mode.published else {} for mode in modes},
        sorted({run.run.rounds_done for run in loaded}),
    )


def degradations(means: Mapping[str, float]) -> dict[str, float]:
    """Mode -> relative increase of the loss over IDL; {} without IDL.

    >>> degradations({"IDL": 0.302, "MDF 0.7": 0.362})
    {'MDF 0.7': 0.198...}
    """
    if "IDL" not in means:
        return {}
    return {mode: average / means["IDL"] - 1 for mode, average in means.items() if mode != "IDL"}


def percent(share: float) -> str:
    """A share in per cent with its sign.

    >>> percent(0.0864), percent(-0.0305), percent(0.0)
    ('+8.6 %', '-3.0 %', '0.0 %')
    """
    text = f"{100 * share:+.1f} %"
    return "0.0 %" if text[1:] == "0.0 %" else text

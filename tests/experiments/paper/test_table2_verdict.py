"""The verdict of table 2 on losses that are given."""

from collections.abc import Mapping
from dataclasses import replace

from tests.experiments.paper.helpers import request_of, run_with

from fedgs.experiments.paper.frame.conditions import Mode, Source
from fedgs.experiments.paper.table2 import table2_rows
from fedgs.experiments.paper.table2_losses import TableLosses, collect
from fedgs.experiments.paper.table2_verdict import verdict_of


def losses_of(means: Mapping[str, Mapping[str, float]], data: str = "synthetic") -> TableLosses:
    """The losses by mode and row, one seed."""
    modes = tuple(Mode(name) for name in means)
    request = request_of("table2", None, modes=modes, seeds=(0,))
    runs = [
        run_with(row, mode.title, loss=loss, data=data)
        for mode in modes
        for row, loss in means[mode.name].items()
    ]
    return collect(request, Source(data), rows=table2_rows(request), runs=runs)


def sentences_on(losses: TableLosses, scale: str = "cohort") -> list[str]:
    return verdict_of(request_of("table2", None, scale=scale), losses)


def test_baselines_below_every_row_of_fedgs_are_named() -> None:
    losses = losses_of(
        {
            "IDL": {"uniform": 0.3, "fedgs-1": 0.4, "fedgs-2": 0.5},
            "LN": {"uniform": 0.4, "fedgs-1": 0.5, "fedgs-2": 0.3},
        }
    )
    sentences = sentences_on(losses)
    assert sentences[0] == "Synthetic:"
    assert (
        "- A baseline is below every row of FedGS in: IDL (uniform .300, fedgs 1 .400)."
        in sentences
    )
    assert (
        "- Loss above that of IDL in the worst mode: uniform +33.3 % (LN 0.5; paper +6.0 %, LN "
        "0.5) and FedGS at most +25.0 % (LN 0.5; paper +0.3 %, LN 0.5)."
    ) in sentences


def test_one_mode_without_a_better_baseline_is_said_in_the_singular() -> None:
    losses = losses_of({"LN": {"md": 0.5, "fedgs-1": 0.4}})
    sentences = sentences_on(losses)
    assert "- No baseline is below every row of FedGS in the one mode." in sentences
    assert not any("above that of IDL" in sentence for sentence in sentences)


def test_other_rounds_another_federation_and_the_scale_limit_the_comparison() -> None:
    assert sentences_on(losses_of({"IDL": {"md": 0.5}}), scale="paper")[-3:] == [
        "- The runs have 1 rounds, the paper's 1000: levels cannot be compared.",
        "- This is another federation than the paper's: only the order of methods can be compared, "
        "not the level.",
        "- In paper scale all alpha > 0 below N/(m-1) have the same optimum: these rows coincide "
        "but for ties.",
    ]
    assert sentences_on(losses_of({"IDL": {"md": 0.5}}, data="cifar10"))[-1] == (
        "- This is another partition than the paper's: order and gaps can be compared, not the "
        "third digit."
    )


def test_runs_with_the_papers_rounds_have_no_sentence_on_rounds() -> None:
    losses = replace(losses_of({"IDL": {"md": 0.5}}), rounds=[1000])
    assert not any("rounds" in sentence for sentence in sentences_on(losses))


def test_a_mode_that_the_paper_has_not_is_without_figures() -> None:
    losses = losses_of({"YMF": {"md": 0.5, "fedgs-1": 0.4}})
    assert losses.paper == {"YMF 0.9": {}}
    assert sentences_on(losses)[-1] == "- The paper has no figures for this federation."

"""Which runs an experiment consists of."""

from fedgs.experiments.paper.frame.conditions import Mode, Source
from fedgs.experiments.paper.frame.planning import planned_runs
from fedgs.experiments.paper.frame.request import ExperimentRequest
from fedgs.experiments.paper.frame.rows import MethodRow


def test_every_mode_row_and_seed_is_planned_with_the_settings_of_its_method() -> None:
    rows = [
        MethodRow("md", "md", {"name": "md"}, {"mu": 0.5}),
        MethodRow("fedgs-1", "fedgs 1", {"name": "fedgs", "alpha": 1.0}),
    ]
    request = ExperimentRequest(
        "table2",
        rounds=7,
        seeds=(0, 3),
        overrides=(("training.local_steps", 2), ("method.alpha", 4.0)),
    )
    planned = planned_runs(
        request, Source("synthetic"), modes=[Mode("IDL"), Mode("LN", 0.3)], rows=rows
    )
    assert [(run.mode, run.row, run.config.seed) for run in planned] == [
        (mode, row, seed)
        for mode in ("IDL", "LN 0.3")
        for row in ("md", "fedgs-1")
        for seed in (0, 3)
    ]
    assert {
        (run.data, run.config.training.rounds, run.config.training.local_steps) for run in planned
    } == {("synthetic", 7, 2)}
    assert {run.row: run.config.training.mu for run in planned} == {"md": 0.5, "fedgs-1": 0}
    # md has no alpha: the override concerns FedGS alone.
    assert {getattr(run.config.method, "alpha", None) for run in planned} == {None, 4.0}

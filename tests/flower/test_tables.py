"""Tables and pages read a deployment's records: limits, validation losses, empty rounds, events."""

from types import SimpleNamespace

import pytest

pytest.importorskip("flwr")

from flwr.serverapp.strategy import FedAvg

from fedgs import Selection, sampler
from fedgs.cli.report import report
from fedgs.flower import SampledStrategy
from fedgs.report.page_data import page_data
from fedgs.report.reading import read_runs
from fedgs.report.tables import comparison


def deploy(world, records, *, limit=2, sampler="uniform", seed=0, rounds=3):
    strategy = SampledStrategy(FedAvg(), sampler, cohort_limit=limit, seed=seed, records=records)
    strategy.start(world(["a-0", "b-1", "c-2"]), world.model(), num_rounds=rounds)


def test_deployments_in_one_folder_are_rows_of_their_own(world, tmp_path):
    for name, limit in (("first", 2), ("second", 3), ("third", 3)):
        deploy(world, tmp_path / name, limit=limit)
    runs, problems = read_runs(tmp_path)
    assert problems == []
    table = comparison(runs)
    labels = sorted(row[0].text for row in table.rows)
    assert len(labels) == 3
    assert labels[0] == "uniform cohort_limit=2"
    assert all(label.startswith("uniform cohort_limit=3 [") for label in labels[1:])
    assert [block.title for block in table.blocks] == ["Flower clients, nodes on line"]


def test_a_deployment_without_a_test_set_has_its_validation_loss_in_the_table(world, tmp_path):
    deploy(world, tmp_path / "run")
    (run,), _ = read_runs(tmp_path)
    losses = [record.valid_loss for record in run.records if record.valid_loss is not None]
    assert losses
    table = comparison([run])
    titles = [column.title for column in table.columns]
    shown = table.rows[0][titles.index("lowest valid. loss")]
    assert shown.values == (min(losses), None, 1)
    assert not next(column for column in table.columns if column.title == "lowest test loss").shown


def test_rounds_without_a_cohort_and_their_events_reach_the_page(world, tmp_path):
    @sampler("nobody-in-round-one")
    def nobody(view, rng):
        return Selection(view.available[:0] if view.round == 1 else view.available[:1])

    deploy(world, tmp_path / "run", sampler=nobody)
    (run,), _ = read_runs(tmp_path)
    shown = page_data([run], [])["runs"][0]
    assert shown["statuses"] == {"empty": 1}
    assert shown["events"]["counts"] == {"empty": 1}
    assert shown["done"] == 3


def test_the_page_of_a_running_deployment_is_written_again_as_it_goes(
    world, tmp_path, monkeypatch, capsys
):
    """`fedgs report --every`: each writing shows the rounds and events so far."""
    pytest.importorskip("plotly")
    grid = world(["a-0", "b-1", "c-2"])
    strategy = SampledStrategy(
        FedAvg(), "uniform", cohort_limit=2, min_connected=3, connect_timeout=0.02, records=tmp_path
    )
    offline = [2]  # waits before everyone is connected
    seen = []

    def pause(seconds):
        """In place of `time.sleep` of the command: a round goes by."""
        assert seconds == 30
        page = (tmp_path / "report.html").read_text(encoding="utf-8")
        seen.append((page.count("clients must be connected") > 0, len(read_runs(tmp_path)[0])))
        assert '<meta http-equiv="refresh" content="30">' in page[:200]
        if len(seen) == 3:
            raise KeyboardInterrupt
        grid.script = lambda: grid.keys if offline.pop() == 0 else [100]
        offline[:] = [0] * 1000 + [2] * 20
        strategy.start(grid, world.model(), num_rounds=1)

    strategy.start(grid, world.model(), num_rounds=1)
    monkeypatch.setattr("fedgs.cli.report.time", SimpleNamespace(sleep=pause))
    with pytest.raises(KeyboardInterrupt):
        report(tmp_path, every=30)
    assert seen == [(False, 1), (True, 1), (True, 1)]
    (run,), _ = read_runs(tmp_path)
    assert run.rounds_done == 3
    assert capsys.readouterr().out.count("report.html: 1 run") == 3

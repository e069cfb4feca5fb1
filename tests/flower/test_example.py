"""The example app on a Grid in memory, and with real processes where they are requested."""

import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr")
pytest.importorskip("torch")

from fedgs.records import RunFolder

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "flower"


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """The example's settings, with its package importable."""
    import torch

    monkeypatch.syspath_prepend(str(EXAMPLE))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["tool"]["flwr"]["app"]["config"]
    torch.set_num_threads(threads)
    for name in [name for name in sys.modules if name.startswith("fedgs_flower")]:
        del sys.modules[name]


class Loaded:
    """The example's client app with the run's configuration in every context."""

    def __init__(self, app: Any, config: dict[str, Any]) -> None:
        self.app, self.config = app, config

    def __call__(self, message: Any, context: Any) -> Any:
        context.run_config = self.config
        return self.app(message, context)


@pytest.mark.parametrize("sampler", ["fedgs", "uniform", "md", "power_of_choice"])
def test_the_example_learns_with_every_sampler(
    world: Any, example: dict[str, Any], tmp_path: Path, sampler: str
) -> None:
    from fedgs_flower import client_app, server_app
    from flwr.app import Context, RecordDict

    config = {
        **example,
        "num-server-rounds": 4,
        "sampler": sampler,
        "records": str(tmp_path),
        "state": str(tmp_path / "s.npz"),
    }
    grid = world(
        list(range(10)),
        app=Loaded(client_app.app, config),
        node_config=lambda key: {"partition-id": key, "num-partitions": 10},
    )
    for _ in range(2):  # the second start finds that nothing is left to do
        server_app.app(grid=grid, context=Context(1, 0, {}, RecordDict(), config))
    records = RunFolder(tmp_path).records()
    assert [record.round for record in records] == [0, 1, 2, 3, 4]
    assert min(record.test_loss for record in records[1:]) < records[0].test_loss  # type: ignore[type-var, operator]
    assert all(record.valid_loss is not None for record in records[1:])
    assert (tmp_path / "events.jsonl").read_text() == ""


def test_a_client_id_alone_is_enough(world: Any, example: dict[str, Any], tmp_path: Path) -> None:
    from fedgs_flower import client_app, server_app, task
    from flwr.app import Context, RecordDict

    sites = ["site-0", "site-1", "site-2", "site-3"]
    given = {
        "num-clients": 4,
        "min-connected": 4,
        "num-server-rounds": 12,
        "records": str(tmp_path),
    }
    config = {**example, **given}
    server_app.app(
        grid=world(sites, app=Loaded(client_app.app, config)),
        context=Context(1, 0, {}, RecordDict(), config),
    )
    folder = RunFolder(tmp_path)
    assert (tmp_path / "events.jsonl").read_text() == ""
    assert folder.clients().names == tuple(sites)
    sizes = [len(task.training_part(part, 4)[1]) for part in range(4)]
    assert folder.clients().data_sizes.tolist() == sizes  # site-k holds part k
    # The test set is of the four clients: it is learned, though six of the ten default parts are
    # nobody's.
    assert folder.records()[-1].test_accuracy > 0.5  # type: ignore[operator]
    assert all(len(record.cohort or []) == 2 for record in folder.records()[:-1])


@pytest.mark.parametrize(
    ("node_config", "part"),
    [
        ({"client-id": "site-7"}, 7),
        ({"client-id": "site-23"}, 3),
        ({"client-id": 5}, 5),
        ({"partition-id": 2, "num-partitions": 4, "client-id": "site-9"}, 2),
        ({"client-id": "north"}, None),
    ],
)
def test_every_client_holds_a_part(
    example: dict[str, Any], node_config: dict[str, Any], part: int | None
) -> None:
    from fedgs_flower import client_app
    from flwr.app import Context, RecordDict

    found, parts = client_app.who(Context(1, 7, node_config, RecordDict(), example))
    assert parts == 10
    assert 0 <= found < 10
    assert part in (found, None)


def test_a_client_without_a_name_is_told_so(example: dict[str, Any]) -> None:
    from fedgs_flower import client_app
    from flwr.app import Context, RecordDict

    with pytest.raises(ValueError, match="must hold client-id or partition-id, got neither"):
        client_app.who(Context(1, 7, {}, RecordDict(), example))


@pytest.mark.skipif(
    not os.environ.get("FEDGS_FLOWER_PROCESSES"),
    reason="real processes: set FEDGS_FLOWER_PROCESSES=1",
)
def test_five_rounds_with_one_superlink_and_four_supernodes(tmp_path: Path) -> None:
    script = ROOT / "scripts" / "flower-faults"
    done = subprocess.run(
        [sys.executable, str(script), "--cases", "smoke", "--logs", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(RunFolder(tmp_path / "smoke" / "records").records()) == 6

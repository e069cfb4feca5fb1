import pytest
import torch

from fedgs.bench import optimizers
from fedgs.bench.by_client import measure_by_client
from fedgs.bench.engines import Setting, bare_loop, random_work
from fedgs.bench.floors import FLOOR_SETTINGS, AboveFloor, measure_floor
from fedgs.cli.bench_clients import clients
from fedgs.cli.bench_engine import engine
from fedgs.cli.bench_optimizers import optimizers as print_optimizers
from fedgs.errors import ConfigError
from fedgs.models import LSTM, LogisticRegression

LETTERS = Setting(
    LSTM(embedding=2, hidden=3, layers=1),
    (6, 5),
    (4,),
    2,
    2,
    0.1,
    5,
    1,
    local_steps=2,
    labels=7,
    task="sequence",
)


def test_floor_and_engine_make_the_same_steps_on_sequences(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    work = random_work(LETTERS, "float32")
    assert work.federation.task == "sequence" and work.federation.num_labels == 7
    bare_loop(LETTERS, work, torch.device("cpu"))()
    monkeypatch.setitem(FLOOR_SETTINGS, "letters", LETTERS)
    found = measure_floor("letters", repeats=1)
    assert min(found.round_seconds, found.floor_seconds, found.ratio) > 0
    assert AboveFloor("x", 2.0, 1.0, 1.2).misses and not AboveFloor("x", 1.0, 1.0, 1.1).misses
    engine(["letters"], name="auto", device="cpu", precision="float32", repeats=1, processor=True)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["setting", "round", "ms", "floor", "ms", "ratio"]
    assert lines[1].startswith("letters") and "Processor time of one thread" in lines[2]


def test_clients_are_timed_for_each_model(capsys: pytest.CaptureFixture[str]) -> None:
    (row,) = measure_by_client({LogisticRegression(): (4,)}, clients=12, repeats=1)
    # 1 + k % 9 examples of clients 0..11: 45 of the first nine, then 1, 2 and 3
    assert (row.model, row.clients, row.examples) == ("logistic", 12, 51)
    assert min(row.once_seconds, row.by_client_seconds, row.ratio) > 0
    clients(number=2, repeats=1)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1:4]] == ["logistic", "mlp", "fashion_cnn"]


def test_optimisers_are_timed_beside_plain_sgd(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tiny = {"tiny": (LogisticRegression(), 1)}
    rows = list(optimizers.measure_optimizers(tiny, repeats=1))
    assert [row.optimizer for row in rows] == list(optimizers.OPTIMIZERS)
    assert min(min(row.plain_seconds, row.seconds, row.ratio) for row in rows) > 0
    slow = [
        optimizers.MeasuredOptimizer("tiny", "momentum", 1.0, 1.2, 1.2, True),
        optimizers.MeasuredOptimizer("tiny", "Adam", 1.0, 1.2, 1.2, False),
    ]
    monkeypatch.setattr(optimizers, "measure_optimizers", lambda **how: iter(slow))
    print_optimizers(repeats=1)
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[1:3] == [
        ["tiny", "momentum", "1000.00", "1200.00", "1.20*"],
        ["tiny", "Adam", "1000.00", "1200.00", "1.20"],
    ]


def test_options_that_do_not_go_together_are_refused() -> None:
    with pytest.raises(ConfigError, match="setting must be one of .*lstm; got 'lst'; did you mean"):
        measure_floor("lst")
    with pytest.raises(ConfigError, match="--methods and --processor exclude each other"):
        engine([], methods=True, processor=True)
    with pytest.raises(ConfigError, match="--processor goes with --engine loop"):
        engine([], name="stacked", processor=True)

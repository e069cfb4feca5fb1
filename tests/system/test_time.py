"""Rounds in time: three devices by hand, waiting, equal durations, and settings that all count."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.conftest import make_federation
from tests.driving import RecordedRun, make_plan

from fedgs.availability import Ideal, LessDataFirst, Trace
from fedgs.clients import Clients
from fedgs.driver import drive
from fedgs.errors import ConfigError
from fedgs.local import LoopEngine
from fedgs.records import Record
from fedgs.requests import Train
from fedgs.sampling import FedGS, PowerOfChoice, Uniform
from fedgs.system import SystemTime
from fedgs.system_settings import System
from fedgs.traces import DAY, Traces, write_traces

HOUR = 3600
PROFILE = "device,example_seconds,down,up\na,.1,8000,4000\nb,.5,8000,4000\nc,1,8000,4000\n"


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    """With 100 examples and 1000 bytes, a needs 1 + 10 + 2 s, b 1 + 50 + 2 s, c 1 + 100 + 2 s."""
    (tmp_path / "phones.csv").write_text(PROFILE)
    return tmp_path / "phones.csv"


@pytest.fixture
def phones(tmp_path: Path) -> Path:
    """a and c are there for the first 1000 s of a day; b is away from second 40 to 300."""
    on, off = [0, 0, 300, 0], [1000, 40, 1000, 1000]
    traces = Traces(on, off, [0, 1, 3, 4], [0] * 3, [DAY] * 3, ["a", "b", "c"])
    return write_traces(traces, tmp_path / "phones.npz")


def federation() -> Any:
    return make_federation((9, 4, 7))


def records_of(mode: Any, settings: System, *, limit: int = 2, **plan: Any) -> list[Record]:
    clients = federation()
    time = SystemTime(settings, clients.clients, mode, limit, np.full(3, 100.0))
    made = make_plan(clients, availability=mode, cohort_limit=limit, time=time, **plan)
    run = RecordedRun(made)
    drive([run.live], LoopEngine())
    assert run.failed is None, run.failed
    return run.records


def table(records: list[Record]) -> list[tuple[Any, ...]]:
    return [
        (
            r.clock,
            r.seconds,
            " ".join(r.fates or ()),
            r.ended,
            [round(w, 9) for w in r.worked or ()],
        )
        for r in records[:-1]
    ]


def test_three_devices_under_the_clock_of_rounds(profile: Path, phones: Path) -> None:
    """Rounds are at seconds 0, 350, 700 and 1050 of the trace; A_t does not follow the clock."""
    mode = Trace(path=phones, assign="order", round_seconds=350)
    settings = System(
        profile=profile, assign="order", update_bytes=1000, over_selection=1.5, deadline=60
    )
    records = records_of(mode, settings, rounds=4)
    assert table(records) == [
        # b leaves at 40, c needs 103 s, and the server waits for two answers.
        (0.0, 60.0, "answered gone late", "deadline", [13, 40, 60]),
        (60.0, 53.0, "answered answered late", "target", [13, 53, 53]),
        (113.0, 53.0, "answered answered late", "target", [13, 53, 53]),
        (166.0, 0.0, "", None, []),  # nobody is there at second 1050
    ]
    assert records[-1].clock == 166.0 and records[-1].fates is None
    assert [r.selection_status for r in records[:4]] == [None, None, None, "skipped"]
    weights = [[w > 0 for w in r.weights or ()] for r in records[:4]]
    assert weights == [[True, False, False], [True, True, False], [True, True, False], []]
    assert [sum(r.weights or ()) for r in records[:3]] == pytest.approx([1, 1, 1])
    assert [r.traffic for r in records[:4]] == [4000, 5000, 5000, 0]


def test_three_devices_under_their_own_clock(profile: Path, phones: Path) -> None:
    mode = Trace(path=phones, assign="order")
    settings = System(
        profile=profile,
        assign="order",
        update_bytes=1000,
        over_selection=1.5,
        deadline=60,
        clock="simulated",
        max_wait_hours=24,
    )
    records = records_of(mode, settings, rounds=20)
    short = (53.0, "answered answered late", "target", [13, 53, 53])
    alone = (60.0, "answered late", "deadline", [13, 60])  # b is away
    expected: list[tuple[Any, ...]] = [(0.0, 60.0, "answered gone late", "deadline", [13, 40, 60])]
    expected += [(60.0 * k, *alone) for k in range(1, 5)]
    expected += [(300.0 + 53 * k, *short) for k in range(13)]  # until 989
    # 11 s before all three leave; then the clock waits for the next day.
    expected += [(989.0, 11.0, "gone gone gone", "nobody", [11, 11, 11])]
    expected += [(float(DAY), 60.0, "answered gone late", "deadline", [13, 40, 60])]
    assert table(records) == expected
    assert records[18].weights == [0.0, 0.0, 0.0]
    assert records[-1].clock == DAY + 60


def test_a_run_that_waits_too_long_fails_by_name(phones: Path) -> None:
    mode = Trace(path=phones, assign="order", start_hour=1)
    clients = federation()
    settings = System(clock="simulated", max_wait_hours=22.5)
    time = SystemTime(settings, clients.clients, mode, 2, np.full(3, 100.0))
    run = RecordedRun(make_plan(clients, availability=mode, time=time))
    drive([run.live], LoopEngine())
    assert run.failed is not None and run.failed.round == 0
    assert str(run.failed.exception) == (
        "no client is available from hour 0.00 of the run on for 22.5 hours (system.max_wait_hours)"
    )
    assert records_of(mode, System(clock="simulated", max_wait_hours=23), rounds=1)[0].clock == (
        23 * HOUR
    )


@pytest.mark.parametrize(
    ("settings", "fates"),
    [
        ({"drop_out": 1.0}, {"failed"}),
        ({"deadline": 0.0}, {"late"}),
        ({"deadline": 1e-3}, {"late"}),
        ({"least": 2, "over_selection": 1, "deadline": 20.0}, {"answered", "late"}),
    ],
)
def test_rounds_without_enough_answers_keep_the_model_and_take_their_time(
    profile: Path, settings: dict[str, Any], fates: set[str]
) -> None:
    system = System(profile=profile, assign="order", update_bytes=1000, **settings)
    clients = federation()
    time = SystemTime(system, clients.clients, Ideal(), 2, np.full(3, 100.0))
    run = RecordedRun(make_plan(clients, availability=Ideal(), time=time, rounds=5))
    drive([run.live], LoopEngine())
    assert run.failed is None and run.final is not None and run.final.time is not None
    assert {fate for r in run.records[:-1] for fate in r.fates or ()} == fates
    # A round with at least two answers under `least` = 2 is possible for a and a slow one only.
    assert all(set(r.weights or ()) == {0.0} for r in run.records[:-1])
    assert torch.equal(run.final.parameters, run.starts[0].parameters)
    assert run.final.counts.sum() == sum(len(r.cohort or ()) for r in run.records)
    assert run.final.time.answers.sum() == 0
    assert run.final.time.clock == pytest.approx(sum(r.seconds or 0 for r in run.records[:-1]))
    assert (run.final.time.clock > 0) == (settings.get("deadline") != 0)


class Noting(LoopEngine):
    """Keeps the clients of all requests to train."""

    def __init__(self) -> None:
        super().__init__()
        self.trained: list[list[int]] = []

    def answer(self, requests: Any) -> Any:
        self.trained += [r.clients.tolist() for r in requests if isinstance(r, Train)]
        return super().answer(requests)


@pytest.mark.parametrize("sampler", [Uniform(), FedGS(), PowerOfChoice()], ids=str)
def test_only_clients_that_answer_train_and_the_counts_agree(sampler: Any) -> None:
    clients = make_federation()
    system = System(drop_out=0.3, over_selection=1.6, noise=0.5, least=2, deadline=1.5)
    mode = LessDataFirst(beta=0.4, seed=1)
    time = SystemTime(system, clients.clients, mode, 3, np.full(6, 60.0))
    plan = make_plan(clients, sampler, availability=mode, cohort_limit=3, time=time, rounds=30)
    run, engine = RecordedRun(plan), Noting()
    drive([run.live], engine)
    assert run.failed is None and run.final is not None and run.final.time is not None
    names = clients.clients.names
    entered = [
        [names.index(k) for k, w in zip(r.cohort or (), r.weights or (), strict=True) if w > 0]
        for r in run.records[:-1]
    ]
    assert engine.trained == [clients for clients in entered if clients]
    words = [fate for r in run.records[:-1] for fate in r.fates or ()]
    assert set(words) == {"answered", "late", "failed"} and [] in entered
    answers, failures = np.zeros(6, dtype=int), np.zeros(6, dtype=int)
    for record, rows in zip(run.records, entered, strict=False):
        answers[rows] += 1
        for name, fate in zip(record.cohort or (), record.fates or (), strict=True):
            row = names.index(name)
            failures[row] = 0 if fate == "answered" else failures[row] + 1
    assert run.final.time.answers.tolist() == answers.tolist()
    assert run.final.time.failures.tolist() == failures.tolist()
    assert max(len(r.cohort or ()) for r in run.records) == 5  # ceil(1.6·3)


def test_doubled_work_doubles_the_training_time_alone(profile: Path) -> None:
    clients = Clients(("a", "b", "c"), np.array([10, 10, 10]))
    chosen = np.arange(3)
    phases = [
        SystemTime(
            System(profile=profile, assign="order", work=work), clients, Ideal(), 2, np.full(3, 9.0)
        ).phases(4, chosen, 610)
        for work in (1.0, 2.0)
    ]
    assert phases[1][1].tolist() == (2 * phases[0][1]).tolist() == [1.8, 9.0, 18.0]
    assert phases[0][0].tolist() == phases[1][0].tolist() == [8 * 4 * 610 / 8000] * 3
    assert phases[0][2].tolist() == phases[1][2].tolist() == [8 * 4 * 610 / 4000] * 3


def test_durations_depend_on_client_and_round_alone(tmp_path: Path) -> None:
    clients = make_federation().clients
    time = SystemTime(System(noise=0.4, seed=2), clients, Ideal(), 3, np.full(6, 20.0))
    every = np.add.reduce(time.phases(5, np.arange(6), 10))
    some = np.add.reduce(time.phases(5, np.array([1, 4]), 10))
    assert some.tolist() == every[[1, 4]].tolist()
    assert (np.add.reduce(time.phases(6, np.arange(6), 10)) != every).all()
    # exp(s e - s²/2) has mean 1; 2000 rounds of 6 clients: sd .43/110, five sd.
    plain = SystemTime(System(seed=2), clients, Ideal(), 3, np.full(6, 20.0))
    base = np.add.reduce(plain.phases(0, np.arange(6), 10))
    ratios = [np.add.reduce(time.phases(t, np.arange(6), 10)) / base for t in range(2000)]
    assert abs(np.mean(ratios) - 1) < 0.02


# Each setting with a value beside that of the base, and what a run must have for it to count.
CHANGES: dict[str, tuple[Any, dict[str, Any]]] = {
    "example_seconds": (0.2, {}),
    "example_seconds_spread": (0.1, {}),
    "down": (2e4, {}),
    "down_spread": (0.1, {}),
    "up": (2e4, {}),
    "up_spread": (0.1, {}),
    "correlation": (-0.9, {}),
    "profile": ("phones.csv", {}),
    "assign": ("name", {"profile": "phones.csv"}),
    "noise": (0.5, {}),
    "update_bytes": (9_000, {}),
    "work": (2.0, {}),
    "over_selection": (1.0, {}),
    "deadline": (4.0, {}),
    "least": (2, {}),
    "drop_out": (0.9, {}),
    "away": ("at_end", {}),
    "couple_speed": (0.9, {}),
    "clock": ("rounds", {}),
    "max_wait_hours": (0.01, {}),
    "seed": (9, {}),
}


def test_every_setting_changes_the_records(
    phones: Path, profile: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(phones.parent)
    assert set(CHANGES) == set(System.model_fields)
    base = {
        "example_seconds": 0.4,
        "down": 1e4,
        "up": 1e4,
        "update_bytes": 5_000,
        "noise": 0.1,
        "over_selection": 1.5,
        "drop_out": 0.2,
        "clock": "simulated",
        "seed": 1,
    }

    def lines(settings: dict[str, Any]) -> Any:
        mode = Trace(path=phones, assign="order", start_hour=0.2)  # until second 1000
        clients = make_federation((9, 4, 7))
        named = Clients(("b", "c", "a"), clients.clients.data_sizes)
        time = SystemTime(System(**settings), named, mode, 2, np.full(3, 100.0))
        plan = make_plan(clients, availability=mode, time=time, rounds=8, evaluate_every=99)
        run = RecordedRun(plan)
        drive([run.live], LoopEngine())
        return [(r.clock, r.seconds, r.fates, r.weights) for r in run.records]

    for name, (value, needs) in CHANGES.items():
        settings = {**base, **needs}
        if "profile" in (name, *needs):
            settings = {
                k: v for k, v in settings.items() if k not in ("example_seconds", "down", "up")
            }
            before = {**base} if name == "profile" else settings
        else:
            before = settings
        if name == "clock":
            settings = {k: v for k, v in settings.items() if k != "max_wait_hours"}
        assert lines({**settings, name: value}) != lines(before), name


@pytest.mark.parametrize(
    ("settings", "mode", "message"),
    [
        ({"clock": "simulated"}, Ideal(), r"system\.clock must be 'rounds' for availability 'IDL'"),
        ({"least": 3}, Ideal(), r"system\.least must be at most 2, .*\(M\), got 3"),
        ({"away": "pause"}, Ideal(), r"system\.away has no effect with availability 'IDL'"),
    ],
)
def test_settings_that_do_not_fit_the_run_are_refused(
    settings: dict[str, Any], mode: Any, message: str
) -> None:
    clients = federation().clients
    with pytest.raises(ConfigError, match=message):
        SystemTime(System(**settings), clients, mode, 2, np.full(3, 1.0))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"example_seconds": 1e308}, r"system\.example_seconds must .*100 years.* for client '"),
        ({"work": 1e308}, r"system\.example_seconds with system\.work = 1e\+308 must give"),
        ({"up": 1e-300}, r"system\.up must give every client at most"),
        ({"down": 1e-300}, r"system\.down must give every client at most"),
    ],
)
def test_durations_without_a_number_are_refused(settings: dict[str, Any], message: str) -> None:
    time = SystemTime(System(**settings), federation().clients, Ideal(), 2, np.full(3, 1.0))
    with pytest.raises(ConfigError, match=message):
        time.check_durations(10)


def test_a_profile_may_give_a_hundred_years_and_no_more(tmp_path: Path) -> None:
    path, years = tmp_path / "phones.csv", 100 * 366 * 86_400  # 8 bits at 1 bit/s are 8 seconds
    path.write_text(f"device,example_seconds,down,up\na,{years},1,1\n")
    settings = System(profile=str(path), update_bytes=1)
    time = SystemTime(settings, federation().clients, Ideal(), 2, np.full(3, 1.0))
    time.check_durations(10)
    path.write_text("device,example_seconds,down,up\na,1,1,1e-320\n")
    time = SystemTime(settings, federation().clients, Ideal(), 2, np.full(3, 1.0))
    with pytest.raises(ConfigError, match=r"system\.profile '.*' \(up\) must .*, got inf for"):
        time.check_durations(10)


def test_a_trace_without_an_end_and_rates_without_failures_are_needed(phones: Path) -> None:
    clients, examples = federation(), np.full(3, 1.0)
    mode = Trace(path=phones, wrap="refuse")
    with pytest.raises(ConfigError, match=r"availability\.wrap must be 'days' or 'device'"):
        SystemTime(System(clock="simulated"), clients.clients, mode, 2, examples)
    time = SystemTime(System(), clients.clients, Ideal(), 2, examples)
    with pytest.raises(ConfigError, match="'known' needs clients that always answer"):
        make_plan(clients, Uniform(weighting="known"), availability=Ideal(), time=time)

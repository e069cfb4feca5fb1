"""The mode `trace`: rounds, settings, identity and what it refuses."""

from pathlib import Path

import numpy as np
import pytest

from fedgs import Clients
from fedgs.availability import Trace, activity, draw_available
from fedgs.config import Config
from fedgs.errors import ConfigError, DataError
from fedgs.fingerprint import identity_of
from fedgs.registry import build
from fedgs.traces import DAY, Traces, write_traces

HOUR = 3600
RNG = np.random.default_rng(0)


def some_traces(devices: int = 40) -> Traces:
    """Two days of sessions whose share of time rises from device to device."""
    on, off, offsets = [], [], [0]
    for d in range(devices):
        starts = np.arange(0, 2 * DAY, 2 * HOUR) + RNG.integers(0, HOUR // 2, 24)
        on += starts.tolist()
        off += (starts + 600 + d * HOUR // devices).tolist()
        offsets.append(len(on))
    names = [f"phone-{d}" for d in range(devices)]
    return Traces(on, off, offsets, [0] * devices, [2 * DAY] * devices, names)


TRACES = some_traces()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_traces(TRACES, tmp_path / "some.npz")


def clients_of(count: int, *, labels: bool = True) -> Clients:
    rng = np.random.default_rng(count)
    counts = rng.multinomial(5, [0.1] * 10, size=count) if labels else None
    sizes = rng.integers(1, 10**6, size=count)
    return Clients(tuple(range(count)), sizes, label_counts=counts)


def test_a_round_is_a_second_of_the_trace(path: Path) -> None:
    mode = Trace(path=path, assign="order", round_seconds=700.5, start_hour=1.5)
    clients = clients_of(40)
    for t in (0, 3, 1000, 7):
        second = int(t * 700.5 + 1.5 * HOUR) % (2 * DAY)
        expected = TRACES.is_on(np.arange(40), np.full(40, second))
        assert mode.available(t, clients).tolist() == expected.tolist()


def test_rates_are_the_shares_of_the_rounds_of_a_period(path: Path) -> None:
    mode, clients = Trace(path=path, round_seconds=10), clients_of(100)
    matrix = activity(mode, clients, 2 * DAY // 10)
    # an end of one of the 24 intervals is found to 10 s
    np.testing.assert_allclose(
        matrix.mean(axis=1), mode.rates(0, clients), atol=24 * 10 / (2 * DAY)
    )


def test_empty_rounds_are_skipped(tmp_path: Path) -> None:
    night = Traces([0], [HOUR], [0, 1], [0], [DAY], ["a"])
    mode = Trace(path=write_traces(night, tmp_path / "night.npz"), round_seconds=HOUR)
    assert [draw_available(mode, clients_of(1), t)[1] for t in range(3)] == [
        None, "skipped", "skipped",
    ]  # fmt: skip
    with pytest.raises(ConfigError, match=r"availability\.empty_round must be 'skip' for 'trace'"):
        Trace(path="x.npz", empty_round="redraw")


def test_shifted_copies_serve_more_clients_than_devices(path: Path) -> None:
    mode, clients = Trace(path=path, round_seconds=60), clients_of(24 * 2 * 40)
    mode.check(clients, 1)
    matrix = activity(mode, clients, 2 * DAY // 60)
    assert len({row.tobytes() for row in matrix}) == len(clients)
    with pytest.raises(ConfigError, match="at most 1920 clients, 24 copies of each of its dev"):
        mode.check(clients_of(1921), 1)


def test_the_seed_gives_the_devices_and_stays_out_of_other_copies(path: Path) -> None:
    mode, clients = Trace(path=path, seed=1), clients_of(30)
    first = mode.rates(0, clients).tolist()
    other = mode.model_copy(update={"seed": 2})
    assert other.rates(0, clients).tolist() != first
    assert mode.rates(0, clients).tolist() == first
    assert other.rates(0, clients).tolist() == Trace(path=path, seed=2).rates(0, clients).tolist()


def test_what_is_remembered_of_clients_is_by_content_and_settings(path: Path) -> None:
    clients = clients_of(20)
    before = Trace(path=path, assign="order").rates(0, clients).tolist()
    assert Trace(path=path, seed=1).rates(0, clients).tolist() != before
    write_traces(Traces([0], [HOUR], [0, 1], [0], [DAY], ["a"]), path)
    assert Trace(path=path, assign="order").rates(0, clients).tolist() == [1 / 24] * 20


def test_clients_have_the_devices_of_their_names(tmp_path: Path) -> None:
    on = [0, HOUR, 2 * HOUR]
    traces = Traces(
        on, [s + HOUR for s in on], range(4), [0] * 3, [DAY, DAY, DAY - 1], ["a", "7", "s"]
    )
    path = write_traces(traces, tmp_path / "named.npz")
    mode = Trace(path=path, assign="name", round_seconds=HOUR)
    clients = Clients((7, "a"), np.array([1, 1]))
    assert [mode.available(t, clients).tolist() for t in range(3)] == [
        [False, True], [True, False], [False, False],
    ]  # fmt: skip
    for name, reason in (("b", "there is none"), ("s", "it was observed for less than 1 days")):
        with pytest.raises(
            ConfigError, match=rf"assign = 'name' needs .* client '{name}': {reason}$"
        ):
            mode.check(Clients(("a", name), np.array([1, 1])), 1)


@pytest.mark.parametrize("coupling", [1, -1])
def test_data_sizes_are_coupled_with_shares_of_time(path: Path, coupling: float) -> None:
    clients = clients_of(40)
    mode = Trace(path=path, couple="data_size", coupling=coupling)
    assert mode.correlation(clients) == pytest.approx(coupling)
    by_size = mode.rates(0, clients)[np.argsort(clients.data_sizes)]
    assert (np.diff(by_size) * coupling >= 0).all()
    assert sorted(by_size) == sorted(Trace(path=path).rates(0, clients))


def test_labels_are_coupled_with_the_hour(tmp_path: Path) -> None:
    hours = np.arange(24)
    on = hours * HOUR
    sun = Traces(on, on + HOUR, np.arange(25), [0] * 24, [DAY] * 24, [str(h) for h in hours])
    path = write_traces(sun, tmp_path / "sun.npz")
    counts = np.eye(24, dtype=int)[::-1]  # client k has label 23 - k
    clients = Clients(tuple(range(24)), np.ones(24, int), label_counts=counts)
    mode = Trace(path=path, couple="label", coupling=1, round_seconds=HOUR)
    assert [np.flatnonzero(mode.available(t, clients)).tolist() for t in range(24)] == [
        [23 - t] for t in range(24)
    ]
    assert mode.correlation(clients) == pytest.approx(1)
    with pytest.raises(ConfigError, match=r"couple = 'label' needs clients with labels"):
        mode.check(clients_of(4, labels=False), 1)


def test_the_hour_of_a_shifted_copy_is_that_of_the_run(tmp_path: Path) -> None:
    noon = Traces([12 * HOUR], [13 * HOUR], [0, 1], [0], [DAY], ["a"])
    path = write_traces(noon, tmp_path / "noon.npz")
    clients = Clients(tuple(range(24)), np.ones(24, int), label_counts=np.eye(24, dtype=int))
    mode = Trace(path=path, couple="label", coupling=1, round_seconds=HOUR)
    assert [np.flatnonzero(mode.available(t, clients)).tolist() for t in range(24)] == [
        [t] for t in range(24)
    ]


def test_zones_move_the_clients_time(path: Path) -> None:
    clients = clients_of(40)
    alone = activity(Trace(path=path), clients, 200)
    spread = activity(Trace(path=path, spread_hours=24), clients, 200)
    assert (alone != spread).any(axis=1).all()
    np.testing.assert_array_equal(
        Trace(path=path, spread_hours=24).rates(0, clients), Trace(path=path).rates(0, clients)
    )


def test_short_devices_are_left_out(tmp_path: Path) -> None:
    mixed = Traces([0, 0], [HOUR, DAY], [0, 1, 2], [0, 0], [DAY - 1, DAY], ["short", "day"])
    path = write_traces(mixed, tmp_path / "mixed.npz")
    mode, clients = Trace(path=path), clients_of(1)
    assert mode.rates(0, clients).tolist() == [1.0]
    assert mode.lines(clients) == [
        "trace           1 of 2 devices used, 1 left out, observed for less than 1 days"
    ]
    both = Trace(path=path, min_days=0, unobserved="away", assign="order")
    assert both.rates(0, clients_of(2)).tolist() == [1 / 24, 1.0]
    with pytest.raises(
        ConfigError, match=r"availability\.min_days must leave a device of .* 1\.00"
    ):
        Trace(path=path, min_days=3).check(clients, 1)


def test_refuse_takes_the_rounds_of_the_file(path: Path) -> None:
    clients = clients_of(40)
    mode = Trace(path=path, wrap="refuse", start_hour=1, round_seconds=HOUR)
    mode.check(clients, 47)
    with pytest.raises(ConfigError, match=r"training\.rounds must be at most 47, .* got 48"):
        mode.check(clients, 48)


def test_lines_tell_the_coupling(path: Path) -> None:
    mode = Trace(path=path, couple="data_size", coupling=1)
    assert mode.lines(clients_of(40)) == [
        "trace           40 of 40 devices used",
        "coupling        rank correlation of data size and availability 1.000 "
        "(availability.coupling 1)",
    ]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, r"availability\.path must be given"),
        ({"path": "x.npz", "round_seconds": 0}, r"round_seconds should be greater than 0, got 0"),
        ({"path": "x.npz", "start_hour": -1}, r"start_hour should be greater than or equal to 0"),
        ({"path": "x.npz", "wrap": "week"}, r"wrap should be 'days', 'device' or 'refuse'"),
        ({"path": "x.npz", "coupling": 0.5}, r"coupling has no effect without availability\.coup"),
        (
            {"path": "x.npz", "couple": "label", "coupling": 1.5},
            r"coupling should be less than or equal to 1, got 1\.5",
        ),
        (
            {"path": "x.npz", "wrap": "device", "unobserved": "away"},
            r"availability\.unobserved has no effect beside availability\.wrap = 'device'",
        ),
        (
            {"path": "x.npz", "min_days": 0.5},
            r"availability\.min_days must be at least 1 for availability\.unobserved = 'replay'",
        ),
        (
            {"path": "x.npz", "assign": "name", "couple": "label"},
            r"availability\.couple has no effect beside availability\.assign = 'name'",
        ),
        ({"path": "x.npz", "spread_hours": 25}, r"spread_hours should be less than or equal to 24"),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build("availability", {"name": "trace", **settings})


def test_wrong_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"availability\.path must end in \.npz for 'trace', got"):
        Trace(path="trace.csv").check(clients_of(2), 1)
    with pytest.raises(DataError, match=r"availability\.path must be a file, got .*none\.npz"):
        Trace(path=tmp_path / "none.npz").check(clients_of(2), 1)


def test_the_identity_is_the_content_and_the_settings(path: Path, tmp_path: Path) -> None:
    def identity(path: Path, **settings: object) -> dict[str, str]:
        table = {"name": "trace", "path": str(path), **settings}
        config = Config(data="synthetic", availability=table, method="uniform")
        return dict(identity_of(config, data_fingerprint="same", limit=3).parts)

    other = write_traces(some_traces(39), tmp_path / "other.npz")
    assert identity(path)["availability.content"] != identity(other)["availability.content"]
    assert identity(path) != identity(path, round_seconds=300)
    assert identity(path) == identity(path)


def test_local_zones_read_all_devices_at_the_same_local_time(tmp_path: Path) -> None:
    """b lives two hours ahead of the file: at 9 h local time its clock in the file says 7 h."""
    on, off = [9 * 3600, 7 * 3600], [10 * 3600, 8 * 3600]
    zones = [0, 7200]
    traces = Traces(on, off, [0, 1, 2], [0, 0], [DAY] * 2, ["a", "b"], zone_seconds=zones)
    path = write_traces(traces, tmp_path / "two.npz")
    clients = Clients(("x", "y"), np.array([1, 1]))
    settings = {"path": path, "assign": "order", "round_seconds": 3600}
    hours = {
        zone: np.array([Trace(**settings, zones=zone).available(t, clients) for t in range(24)]).T
        for zone in ("file", "local")
    }
    assert [np.flatnonzero(row).tolist() for row in hours["file"]] == [[9], [7]]
    assert [np.flatnonzero(row).tolist() for row in hours["local"]] == [[9], [9]]
    assert "zones" not in Trace(**settings).model_dump()
    assert Trace(**settings, zones="local").model_dump()["zones"] == "local"

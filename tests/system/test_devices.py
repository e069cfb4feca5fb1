"""Speeds of clients: distributions, coupling and profiles."""

from pathlib import Path

import numpy as np
import pytest

from fedgs.clients import Clients
from fedgs.errors import ConfigError, DataError
from fedgs.system import devices_of
from fedgs.system.profile import Profile, read_profile, write_profile
from fedgs.system_settings import System
from fedgs.traces.assignment import rank_correlation

HEADER = "device,example_seconds,down,up\n"
MANY = Clients(tuple(range(4000)), np.arange(1, 4001))


def test_speeds_have_the_medians_spreads_and_correlation_of_the_settings() -> None:
    devices = devices_of(System(seed=5), MANY)
    logs = np.log([devices.example_seconds, devices.down, devices.up])
    # The median of 4000 has sd 1.25·sd/63, the sd has sd/89, the correlation .013: five sd.
    for row, median, sd in zip(logs, (0.0136, 5e6, 3.5e6), (0.6, 0.5, 0.7), strict=True):
        assert abs(np.median(row) - np.log(median)) < 0.1 * sd
        assert abs(row.std() - sd) < 0.06 * sd
    correlation = np.corrcoef(logs)
    assert abs(correlation[1, 2] - 0.45) < 0.065 and abs(correlation[0, 1]) < 0.08
    assert devices_of(System(seed=6), MANY).up[0] != devices.up[0]


@pytest.mark.parametrize("rho", [-1.0, -0.8, 0.8, 1.0])
def test_speeds_are_coupled_with_data_sizes(rho: float) -> None:
    sizes = MANY.data_sizes.astype(np.float64)
    coupled = devices_of(System(couple_speed=rho, seed=5), MANY)
    free = devices_of(System(seed=5), MANY)
    # A Gaussian copula with rho has the rank correlation 6/pi·asin(rho/2).
    expected = 6 / np.pi * np.arcsin(rho / 2)
    assert abs(rank_correlation(sizes, coupled.example_seconds) - expected) < 0.05
    pairs = [
        sorted(zip(d.example_seconds.tolist(), d.up.tolist(), strict=True)) for d in (coupled, free)
    ]
    assert pairs[0] == pairs[1]  # whole devices are exchanged


def test_clients_have_devices_of_the_profile(tmp_path: Path) -> None:
    profile = Profile(("a", "b", "c"), np.array([0.1, 0.2, 0.3]), np.ones(3), np.full(3, 2.0))
    path = write_profile(profile, tmp_path / "phones.csv")
    assert read_profile(path).digest == profile.digest
    clients = Clients(("c", "a", "b", "x"), np.array([3, 1, 2, 4]))
    ordered = devices_of(System(profile=path, assign="order"), clients)
    assert ordered.example_seconds.tolist() == [0.1, 0.2, 0.3, 0.1]
    named = System(profile=str(path), assign="name")
    with pytest.raises(ConfigError, match=r"system\.assign = 'name' .* has none named 'x'"):
        devices_of(named, clients)
    three = Clients(("c", "a", "b"), np.array([3, 1, 2]))
    assert devices_of(named, three).example_seconds.tolist() == [0.3, 0.1, 0.2]
    orders = {tuple(devices_of(System(profile=path, seed=s), three).up) for s in range(3)}
    drawn = {
        tuple(devices_of(System(profile=path, seed=s), three).example_seconds) for s in range(30)
    }
    assert orders == {(2.0, 2.0, 2.0)} and len(drawn) == 6


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"must begin with the line device,example_seconds,down,up, got ''"),
        ("id,a,b,c\nx,1,1,1\n", r"must begin with the line .*, got 'id,a,b,c'"),
        (HEADER, "must have at least one device, got none"),
        (HEADER + "x,1,1\n", "line 2 must have 4 entries, got 3"),
        (HEADER + "x,1,1,1\ny,0,1,1\n", "line 3: example_seconds must be a number > 0, got '0'"),
        (HEADER + "x,1,fast,1\n", "line 2: down must be a number > 0, got 'fast'"),
        (HEADER + "x,1,1,inf\n", "line 2: up must be a number > 0, got 'inf'"),
        (HEADER + "x,1,1,nan\n", "line 2: up must be a number > 0, got 'nan'"),
        (HEADER + "x,1,1,1\nx,1,1,1\n", "line 3: devices must be distinct, got 'x' twice"),
        ('device,example_seconds,down,up\n"x\0,1,1,1\n', "example_seconds|CSV|entries"),
    ],
)
def test_a_profile_that_does_not_fit_is_one_sentence(
    tmp_path: Path, text: str, message: str
) -> None:
    path = tmp_path / "phones.csv"
    path.write_text(text)
    with pytest.raises(DataError, match=message) as caught:
        read_profile(path)
    assert str(caught.value).startswith("system.profile ") and "\n" not in str(caught.value)


def test_a_profile_that_is_missing_or_binary_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read: No such file"):
        read_profile(tmp_path / "absent.csv")
    with pytest.raises(DataError, match="cannot be read: embedded null byte"):
        read_profile("\0.csv")
    with pytest.raises(DataError, match="cannot be read: File name too long"):
        read_profile("a" * 300 + ".csv")
    (tmp_path / "binary.csv").write_bytes(b"\xff\xfe\x00\x80")
    with pytest.raises(DataError, match="is not a readable CSV file"):
        read_profile(tmp_path / "binary.csv")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"assign": "order"}, r"system\.assign has no effect without system\.profile"),
        ({"profile": "p.csv", "down": 1e6}, r"system\.down has no effect beside system\.profile"),
        ({"max_wait_hours": 5}, r"system\.max_wait_hours has no effect without system\.clock"),
        ({"work": 0}, r"system\.work .*greater than 0, got 0"),
        ({"dead_line": 3}, r"system\.dead_line is not a setting; .*did you mean.*deadline"),
        ({"away": "home"}, r"system\.away should be 'lost', 'pause' or 'at_end', got 'home'"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        System(**settings)

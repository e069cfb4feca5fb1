"""The available clients of stored rounds: from the file of bits, or drawn again and checked."""

from pathlib import Path

import numpy as np
import pytest

import fedgs
from fedgs import available_clients
from fedgs.availability import AvailabilityDraws, LessDataFirst, Markov
from fedgs.availability.base import Availability
from fedgs.clients import Clients
from fedgs.errors import OutputError
from fedgs.members import Members
from fedgs.records import Record, RunFolder
from fedgs.traces import DAY, Traces, write_traces

ROUNDS = 5


def clients_of(count: int) -> Clients:
    return Clients(range(count), np.arange(count) % 90 + 10)


def written(
    path: Path, mode: Availability, clients: Clients, rounds: int = ROUNDS
) -> tuple[RunFolder, list[list[int]]]:
    """A run's folder with these rounds, and the available clients of each."""
    folder, draws = RunFolder(path), AvailabilityDraws(mode, clients)
    table = {"name": mode.name, "seed": mode.seed}
    folder.create({"seed": 3, "availability": table, "method": {"name": "md"}}, clients, {})
    expected = []
    for t in range(rounds):
        present = draws.at(t)
        record = Record(t, available=present.names, num_available=len(present.names), cohort=[0])
        folder.keep_available(record)
        folder.append("rounds.jsonl", [record.to_json()])
        expected.append(present.clients.tolist())
    return folder, expected


@pytest.mark.parametrize("mode", [LessDataFirst(seed=5), Markov(seed=2)])
def test_bits_are_read_and_missing_bits_are_drawn_again(mode: Availability, tmp_path: Path) -> None:
    folder, expected = written(tmp_path / "run", mode, clients_of(1003))
    bits = folder.path / available_clients.BITS
    assert bits.stat().st_size == ROUNDS * 126  # ceil(1003 / 8) bytes a round
    records = folder.records()
    assert [list(record.available) for record in records] == expected
    content = bytearray(bits.read_bytes())
    content[2 * 126 + 3] ^= 16  # one client of round 2
    bits.write_bytes(content[: 4 * 126 + 1])  # and the last round is cut off
    assert [list(record.available) for record in folder.records()] == expected
    bits.unlink()
    assert [list(record.available) for record in reversed(records)] == expected[::-1]


def test_thousand_clients_are_written_by_name_and_without_bits(tmp_path: Path) -> None:
    folder, expected = written(tmp_path / "run", LessDataFirst(seed=5), clients_of(1000))
    assert not (folder.path / available_clients.BITS).exists()
    assert [record.available for record in folder.records()] == expected


def test_bits_end_where_the_file_is_large_and_rounds_behind_them_are_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(available_clients, "MOST_BYTES", 3 * 126)
    folder, expected = written(tmp_path / "run", LessDataFirst(seed=5), clients_of(1003))
    assert folder.size(available_clients.BITS) == 3 * 126
    assert [list(record.available) for record in folder.records()] == expected


def test_other_clients_than_the_record_says_are_an_error(tmp_path: Path) -> None:
    folder, _ = written(tmp_path / "run", LessDataFirst(seed=5), clients_of(1003))
    (folder.path / available_clients.BITS).unlink()
    config = folder.config()
    folder.write_config({**config, "availability": {"name": "LDF", "seed": 6}})
    record = folder.records()[1]
    assert len(record.available) > 0  # the number needs no clients
    with pytest.raises(OutputError, match="available clients of round 1 .* differ from the digest"):
        list(record.available)
    folder.write_config({**config, "availability": {"name": "of-a-plug-in"}})
    with pytest.raises(OutputError, match="cannot be drawn again: .*of-a-plug-in"):
        list(folder.records()[1].available)


def test_rounds_that_are_repeated_leave_the_same_files(tmp_path: Path) -> None:
    whole, _ = written(tmp_path / "whole", LessDataFirst(seed=5), clients_of(1003))
    cut, _ = written(tmp_path / "cut", LessDataFirst(seed=5), clients_of(1003))
    lines = (cut.path / "rounds.jsonl").read_text().splitlines(keepends=True)
    for kept in range(ROUNDS):  # killed after the bits of some round, before its line
        (cut.path / "rounds.jsonl").write_text("".join(lines[:kept]))
        for record in whole.records()[kept:]:
            cut.keep_available(record)
            cut.append("rounds.jsonl", [record.to_json()])
        for name in ("rounds.jsonl", available_clients.BITS):
            assert (cut.path / name).read_bytes() == (whole.path / name).read_bytes()


def test_names_are_written_only_where_they_are_not_the_range(tmp_path: Path) -> None:
    sizes = np.arange(1, 2001)
    for number, names in enumerate((range(2000), tuple(range(1, 2001)), tuple(range(2000)))):
        folder = RunFolder(tmp_path / str(number))
        folder.create({"seed": 0}, Clients(names, sizes), {})
        assert tuple(folder.clients().names) == tuple(names)
        assert (folder.size("clients.npz") > 20_000) == (names == tuple(range(1, 2001)))


def test_counts_of_many_clients_are_written_in_a_small_type(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    sizes = np.full(1500, 300)
    counts = np.tile([255, 45], (1500, 1))
    folder.create({"seed": 0}, Clients(range(1500), sizes, counts), {})
    assert folder.size("clients.npz") < 1500 * (2 + 2) + 2000
    read = folder.clients()
    assert read.label_counts is not None
    assert (read.data_sizes.tolist(), read.label_counts.tolist()) == (
        sizes.tolist(),
        counts.tolist(),
    )
    assert read.label_counts.sum(axis=1).max() == 300  # no overflow


def test_a_run_with_a_clock_finds_its_available_clients(tmp_path: Path) -> None:
    x = np.zeros((1100, 2), dtype=np.float32)
    y = np.arange(1100) % 2
    federation = fedgs.Federation.from_arrays(x, y, client=np.arange(1100), test=(x[:9], y[:9]))
    ends = np.arange(50) * 600 + 3600
    traces = Traces([0] * 50, ends, range(51), [0] * 50, [DAY] * 50, range(50))
    trace = write_traces(traces, tmp_path / "phones.npz")
    stored = fedgs.compare(
        federation,
        methods=["uniform"],
        availability={"name": "trace", "path": str(trace), "seed": 1},
        training=fedgs.Training(rounds=3, proportion=0.01),
        seeds=[0],
        system={"clock": "simulated", "example_seconds": 30.0},
        out=tmp_path / "out",
    ).runs[0]
    assert stored.path is not None
    stored_bits = (stored.path / available_clients.BITS).read_bytes()
    assert len(stored_bits) == 3 * 138
    (stored.path / available_clients.BITS).unlink()
    clocks = set()
    for t, record in enumerate(stored.records[:3]):
        clocks.add(record.clock)
        assert isinstance(record.available, Members)
        bits = np.packbits(np.isin(np.arange(1100), record.available.indices()))
        assert bits.tobytes() == stored_bits[t * 138 : (t + 1) * 138]
    assert len(clocks) == 3 and len(stored_bits) == 3 * 138

"""Rows in a memory-mapped file: what is overwritten, and what a checkpoint finds again."""

import gc
import resource
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgs.aggregation import ClientTable
from fedgs.aggregation.row_file import RowFile
from fedgs.errors import OutputError, UpdateError

LIKE = torch.zeros(3)
COUNT = 5
EVERYONE = np.arange(COUNT)


def rows_of(table: ClientTable) -> list[list[float]]:
    values: list[list[float]] = table.stacked(EVERYONE, like=LIKE).tolist()
    return values


def test_a_place_is_used_again_when_neither_a_tensor_nor_a_checkpoint_needs_it(
    tmp_path: Path,
) -> None:
    file = RowFile(tmp_path / "rows.bin", COUNT)
    row = file.store(torch.ones(3))
    place, tail = file.place(row), row[1:]
    del row
    other = file.store(torch.zeros(3))
    assert file.place(other) != place  # `tail` is part of the row
    assert tail.tolist() == [1, 1]
    del tail
    row = file.store(torch.full((3,), 2.0))
    assert file.place(row) == place
    file.sync(np.array([place]))
    file.keep(np.array([place]))
    del row
    others = [file.store(torch.zeros(3)) for _ in range(3)]
    assert place not in map(file.place, [other, *others])
    file.keep(np.array([file.place(other)]))
    assert file.place(file.store(torch.zeros(3))) == place


def test_a_failed_checkpoint_loses_neither_the_old_rows_nor_the_new_ones(tmp_path: Path) -> None:
    file = RowFile(tmp_path / "rows.bin", COUNT)
    old, new = file.store(torch.zeros(3)), file.store(torch.ones(3))
    both = {file.place(old), file.place(new)}
    file.keep(np.array([file.place(old)]))
    file.sync(np.array([file.place(new)]))  # and writing the checkpoint fails
    del old, new
    later = [file.store(torch.ones(3)) for _ in range(4)]
    assert both.isdisjoint(map(file.place, later))


# A round replaces the rows of these clients, or fails after it has stored them; a checkpoint may
# follow.
ROUNDS = st.lists(
    st.tuples(
        st.lists(st.integers(0, COUNT - 1), unique=True, max_size=COUNT),
        st.booleans(),
        st.booleans(),
    ),
    max_size=30,
)


@settings(max_examples=40, deadline=None)
@given(rounds=ROUNDS, dtype=st.sampled_from([torch.float32, torch.float64]))
def test_a_process_that_is_killed_at_any_point_leaves_the_last_checkpoint(
    rounds: list[tuple[list[int], bool, bool]],
    dtype: torch.dtype,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("rows")
    (folder / "killed").mkdir()
    plain: list[list[float]] = [[0.0] * 3 for _ in EVERYONE]
    table = ClientTable.zeros(COUNT).kept_in(folder / "rows.bin")
    arrays, saved = table.arrays(), plain
    for t, (cohort, fails, checkpoint) in enumerate(rounds):
        vectors = torch.arange(3 * len(cohort), dtype=dtype).reshape(-1, 3) + 100 * t
        after = table.replaced(np.array(cohort, dtype=np.int64), vectors)
        if not fails:
            table, plain = after, list(plain)
            for client, vector in zip(cohort, vectors.tolist(), strict=True):
                plain[client] = vector
        del after
        assert rows_of(table) == plain
        if checkpoint:
            table.sync()
            arrays, saved = table.arrays(), plain
            table.keep()
        if (folder / "rows.bin").exists():  # what a kill at this point leaves
            shutil.copy(folder / "rows.bin", folder / "killed" / "rows.bin")
        resumed = ClientTable.from_arrays(arrays, folder / "killed")
        assert rows_of(resumed) == saved
        resumed = resumed.replaced(EVERYONE[:2], torch.full((2, 3), -1.0, dtype=dtype))
        assert rows_of(resumed) == [[-1.0] * 3] * 2 + saved[2:]
        assert rows_of(ClientTable.from_arrays(arrays, folder / "killed")) == saved


def test_the_file_stays_below_twice_the_table_and_a_round(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    count, cohort_size, path = 64, 4, tmp_path / "rows.bin"
    table = ClientTable.zeros(count).kept_in(path)
    for t in range(300):
        cohort = np.sort(rng.choice(count, cohort_size, replace=False))
        table = table.replaced(cohort, torch.full((cohort_size, 10), float(t)))
        if t % 50 == 0:
            table.sync()
            table.keep()
    segment = count // 8  # by which the file grows
    assert path.stat().st_size <= (2 * count + cohort_size + segment) * 10 * 4
    # Without checkpoints one table and two rounds suffice: places are used again at once.
    alone = ClientTable.zeros(count).kept_in(tmp_path / "alone.bin")
    for t in range(300):
        cohort = np.sort(rng.choice(count, cohort_size, replace=False))
        alone = alone.replaced(cohort, torch.full((cohort_size, 10), float(t)))
    size = (tmp_path / "alone.bin").stat().st_size
    assert size <= (count + 2 * cohort_size + segment) * 10 * 4


def test_only_changed_rows_are_written(tmp_path: Path) -> None:
    path = tmp_path / "rows.bin"
    table = ClientTable.zeros(64).kept_in(path).replaced(np.arange(64), torch.ones(64, 100))
    table.sync()
    before, places = np.fromfile(path, np.float32).reshape(-1, 100), table.arrays()["rows"]
    table.keep()
    table = table.replaced(np.array([3, 5]), torch.full((2, 100), 2.0))
    table.sync()
    after, moved = np.fromfile(path, np.float32).reshape(-1, 100), table.arrays()["rows"]
    assert np.flatnonzero(places != moved).tolist() == [3, 5]
    changed = np.flatnonzero((after[: len(before)] != before).any(axis=1)).tolist()
    assert {*changed, *range(len(before), len(after))} >= set(moved[[3, 5]].tolist())
    assert len(changed) <= 2


def test_rows_that_are_one_tensor_are_stored_once(tmp_path: Path) -> None:
    model = torch.ones(3)
    table = ClientTable([model] * COUNT).kept_in(tmp_path / "rows.bin")
    assert len(set(table.arrays()["rows"].tolist())) == 1
    table = table.replaced(np.array([0, 1]), [model, model])
    places = table.arrays()["rows"].tolist()
    assert places[0] == places[1] != places[2]
    again = ClientTable.from_arrays(table.arrays(), tmp_path)
    assert again.row(0) is again.row(1) and rows_of(again) == [[1.0] * 3] * COUNT


def test_the_rows_are_views_of_the_file(tmp_path: Path) -> None:
    table = ClientTable.zeros(2).kept_in(tmp_path / "rows.bin")
    table = table.replaced(np.array([1]), torch.tensor([[1.0, 2.0, 3.0]]))
    row = table.row(1)
    assert row is not None
    row[0] = 7.0  # an aggregation must not do this
    table.sync()
    assert 7.0 in np.fromfile(tmp_path / "rows.bin", np.float32)


def test_a_missing_or_short_file_is_named(tmp_path: Path) -> None:
    table = ClientTable.zeros(2).kept_in(tmp_path / "rows.bin")
    arrays = table.replaced(np.array([1]), torch.ones(1, 3)).arrays()
    (tmp_path / "rows.bin").write_bytes(b"short")
    with pytest.raises(OutputError, match=r"rows.bin must hold at least 12 bytes.* got 5; remove"):
        ClientTable.from_arrays(arrays, tmp_path)
    (tmp_path / "rows.bin").unlink()
    with pytest.raises(OutputError, match="got 0; remove the run's folder"):
        ClientTable.from_arrays(arrays, tmp_path)


def test_a_file_that_cannot_grow_is_named_and_its_rows_stay(tmp_path: Path) -> None:
    file = RowFile(tmp_path / "rows.bin", COUNT)  # a row is a segment of 12 bytes
    row = file.store(torch.ones(3))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20, limits[1]))
    try:
        with pytest.raises(OSError, match=r"rows\.bin"):
            file.store(torch.zeros(3))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert row.tolist() == [1, 1, 1]
    assert file.store(torch.full((3,), 2.0)).tolist() == [2, 2, 2]


@pytest.mark.parametrize("other", [torch.ones(4), torch.ones(3, dtype=torch.float64)])
def test_rows_of_another_length_or_type_are_refused(other: torch.Tensor, tmp_path: Path) -> None:
    file = RowFile(tmp_path / "rows.bin", 2)
    file.store(torch.ones(3))
    with pytest.raises(UpdateError, match=r"^the vectors of a ClientTable must be 3 numbers of"):
        file.store(other)


def test_rows_of_an_earlier_table_stay_while_it_is_in_use(tmp_path: Path) -> None:
    path, count = tmp_path / "rows.bin", np.arange(2)
    table = ClientTable.zeros(2).kept_in(path).replaced(count, torch.ones(2, 3))
    table.sync()
    earlier = ClientTable.from_arrays(table.arrays(), tmp_path)
    later = earlier
    for t in range(3):
        later = later.replaced(count, torch.full((2, 3), 5.0 + t))
        later.sync()
        later.keep()
    assert earlier.stacked(count, like=LIKE).tolist() == [[1.0] * 3] * 2
    assert later.stacked(count, like=LIKE).tolist() == [[7.0] * 3] * 2


def test_new_rows_are_brought_to_the_disk_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[int] = []
    monkeypatch.setattr(np.memmap, "flush", lambda memory: flushed.append(memory.offset))
    file = RowFile(tmp_path / "rows.bin", 2)  # a row is a segment
    rows = [file.store(torch.ones(3)) for _ in range(2)]
    file.sync(np.array(list(map(file.place, rows))))
    assert flushed == [0, 12]
    file.sync(np.array(list(map(file.place, rows))))
    assert flushed == [0, 12]


def test_a_file_goes_when_its_last_row_has_gone(tmp_path: Path) -> None:
    import weakref

    file = RowFile(tmp_path / "rows.bin", 2)
    row, alive = file.store(torch.ones(3)), weakref.ref(file)
    del file
    assert row.tolist() == [1, 1, 1] and alive() is not None
    del row
    gc.collect()
    assert alive() is None

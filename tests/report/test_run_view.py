from pathlib import Path

import pytest
from tests.report import folders

from fedgs.report.reading import read_runs
from fedgs.report.run_view import Run


def test_arrays_that_cannot_be_read_are_no_arrays(tmp_path: Path) -> None:
    folder = folders.write_run(tmp_path, "fedgs", 0)
    (run,), _ = read_runs(folder.path)
    assert set(run.memory()) == {"similarity", "adjacency", "distance"}
    (folder.path / "memory.npz").write_bytes(b"PK cut off")
    assert run.memory() == {}


def test_a_run_that_was_not_written_has_no_arrays_and_the_name_of_its_fingerprint() -> None:
    run = Run({"method": "md", "run": {"fingerprint": "0123", "num_clients": 4}}, ())
    assert (run.memory(), run.name, run.num_clients) == ({}, "0123", 4)


@pytest.mark.parametrize(
    ("config", "table"),
    [
        ({}, {}),
        ({"method": "md"}, {"name": "md"}),
        ({"method": {"name": "md", "replace": True}}, {"name": "md", "replace": True}),
    ],
)
def test_a_variant_given_by_its_name_is_a_table_too(
    config: dict[str, object], table: dict[str, object]
) -> None:
    assert Run(config, ()).table("method") == table

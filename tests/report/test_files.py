from pathlib import Path

import pytest

from fedgs.errors import OutputError
from fedgs.report.files import file_name, write_file


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(OutputError, match="cannot be written: "):
        write_file(tmp_path / "file" / "t.csv", b"")


def test_a_long_name_is_cut_and_stays_distinct() -> None:
    names = [file_name("ä" * 200 + end) for end in ("a", "b")]
    assert len(set(names)) == 2
    # 191 bytes hold 95 letters of two bytes each.
    assert all(name.startswith("ä" * 95 + "-") and len(name) == 95 + 9 for name in names)
    assert file_name("x" * 200) == "x" * 200

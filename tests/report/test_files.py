from pathlib import Path

import pytest

from fedgs.errors import OutputError
from fedgs.report.files import write_file


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(OutputError, match="cannot be written: "):
        write_file(tmp_path / "file" / "t.csv", b"")

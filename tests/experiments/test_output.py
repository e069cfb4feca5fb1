"""The output folder of a study: created, recognised, or refused and left alone."""

from pathlib import Path

import pytest

from fedgs.errors import OutputError
from fedgs.experiments.output import MARKER, claim


def test_a_new_or_empty_folder_is_marked_and_recognised_again(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "new" / "inner"):
        with claim(folder):
            assert (folder / MARKER).is_file()
        before = (folder / MARKER).read_bytes()
        (folder / "run").mkdir()
        with claim(folder):
            assert (folder / MARKER).read_bytes() == before


def test_a_foreign_folder_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    foreign = r"must be new, empty or a folder of fedgs runs; .* holds something else"
    with pytest.raises(OutputError, match=foreign), claim(tmp_path):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
    with (
        pytest.raises(OutputError, match=r"must be a folder; .* is a file"),
        claim(tmp_path / "thesis.tex"),
    ):
        pass


def test_a_folder_that_cannot_be_created_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (
        pytest.raises(OutputError, match=r"--out '.*below' cannot be written: Not a directory"),
        claim(tmp_path / "file" / "below"),
    ):
        pass
    with (
        pytest.raises(OutputError, match="cannot be written: .*null (byte|character)"),
        claim(tmp_path / "a\0b"),
    ):
        pass


def test_an_interrupt_says_how_to_resume_and_keeps_a_message_of_its_own(tmp_path: Path) -> None:
    for interrupt, message in (
        (KeyboardInterrupt(), f"the same call with out={str(tmp_path)!r} resumes where this one"),
        (KeyboardInterrupt("by hand"), "by hand"),
    ):
        with pytest.raises(KeyboardInterrupt) as raised, claim(tmp_path):
            raise interrupt
        assert raised.value is interrupt and str(interrupt).startswith(message)

"""References that a federation is verified against."""

from pathlib import Path

import pytest

from fedgs.data import Synthetic, export, write_leaf
from fedgs.data.verify import verify
from fedgs.errors import DataError


@pytest.mark.parametrize("reference", ["abc", "xyzxyzxyzxyz", "0" * 65])
def test_a_text_that_is_no_fingerprint_is_refused(reference: str) -> None:
    with pytest.raises(
        DataError,
        match=r"verify needs an exported .npz, an exported LEAF folder, or 12 to 64 digits",
    ):
        verify(Synthetic(clients=2).load(), reference)


def test_a_reference_of_any_kind_is_compared(tmp_path: Path) -> None:
    federation, other = Synthetic(clients=2).load(), Synthetic(clients=3).load()
    references = [
        str(export(federation, tmp_path / "two.npz")),
        str(write_leaf(federation, tmp_path / "two")),
        federation.fingerprint.upper(),
        federation.fingerprint[:12],
    ]
    assert [verify(federation, reference) for reference in references] == [None] * 4
    assert [verify(other, reference) for reference in references[:2]] == [
        "there are 3 clients, expected 2",
        "there are 3 clients, expected 2",
    ]
    message = f"the fingerprint is {other.fingerprint[:12]}, expected {references[3]}"
    assert verify(other, references[3]) == message


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="data.path: no file"):
        verify(Synthetic(clients=2).load(), str(tmp_path / "none.npz"))

"""Client ids as users hand them over."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgs import Federation
from fedgs.data import ByColumn, Labelled, share_out
from fedgs.data.owners import as_owners, in_order
from fedgs.errors import DataError


@given(
    st.lists(st.integers(-5, 300), min_size=1),
    st.sampled_from(["list", "object", "int16", "float64", "masked"]),
)
def test_every_form_of_one_list_of_integers_gives_the_same(ids: list[int], form: str) -> None:
    value = {
        "list": ids,
        "object": np.array(ids, dtype=object),
        "int16": np.array(ids, dtype=np.int16),
        "float64": np.array(ids, dtype=np.float64),
        "masked": np.ma.array(ids),
    }[form]
    names, owner = as_owners(value, "client")
    assert names == tuple(sorted(set(ids)))
    assert [names[k] for k in owner] == ids
    assert all(type(name) is int for name in names)


@given(
    st.lists(st.text("ab10ä", min_size=1), min_size=1),
    st.sampled_from(["list", "object", "text", "bytes", "string"]),
)
def test_every_form_of_one_list_of_texts_gives_the_same(ids: list[str], form: str) -> None:
    value = {
        "list": ids,
        "object": np.array(ids, dtype=object),
        "text": np.array(ids),
        "bytes": np.array([name.encode() for name in ids]),
        "string": np.array(ids, dtype=np.dtypes.StringDType())
        if hasattr(np.dtypes, "StringDType")
        else ids,
    }[form]
    names, owner = as_owners(value, "client")
    assert names == tuple(sorted(set(ids)))
    assert [names[k] for k in owner] == ids
    assert all(type(name) is str for name in names)


class NAType:
    """What pandas calls a missing value; comparing it gives no truth value."""

    def __eq__(self, other: object) -> bool:
        raise TypeError("boolean value of NA is ambiguous")

    __hash__ = None  # type: ignore[assignment]

    def __str__(self) -> str:
        return "<NA>"


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (np.array([0, np.nan, 1, np.nan, np.nan]), r"3 missing ids \(nan\), the first in row 1"),
        (np.array([0, np.nan], dtype=np.float16), r"1 missing id \(nan\), the first in row 1"),
        (
            ["a", float("nan"), "b"],
            r"1 missing id \(nan\), the first in row 1",
        ),  # NumPy would make the text 'nan' of it
        (["a", "b", None, None], r"2 missing ids \(None\), the first in row 2"),
        (np.array(["a", NAType()], dtype=object), r"1 missing id \(<NA>\), the first in row 1"),
        (np.array(["a", ""]), r"1 missing id \(an empty text\), the first in row 1"),
        (np.array([b"a", b""]), r"1 missing id \(an empty text\), the first in row 1"),
        (np.array(["", "a"], dtype=object), r"1 missing id \(an empty text\), the first in row 0"),
        (
            np.ma.array(["a", "b"], mask=[False, True]),
            r"1 missing id \(masked\), the first in row 1",
        ),
    ],
)
def test_missing_ids_are_counted_and_the_first_is_shown(ids: object, message: str) -> None:
    with pytest.raises(
        DataError, match=f"^client must name the owner of every example, got {message}$"
    ):
        as_owners(ids, "client")


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([1, "1"], "must hold either integers or texts, got 1 in row 0 and '1' in row 1"),
        (["a", 1.0], "must hold either integers or texts, got 'a' in row 0 and 1 in row 1"),
        ([0.5, 1], r"got 0.5 \(float\) in row 0"),
        (np.array([0, np.inf]), r"got inf \(float\) in row 1"),
        ([True, 2], r"got True \(bool\) in row 0"),
        (np.array([True, False]), r"got True \(bool\) in row 0"),
        ([10**30], "got 10{30}"),
        (np.array([1e30]), r"got 1e\+30 \(float\) in row 0"),
        (np.array([3, 2**63], dtype=np.uint64), r"got 9223372036854775808 \(int\) in row 1"),
        (np.array([1j]), "complex128"),
        (
            np.array(["2024"], dtype="datetime64[Y]"),
            r"got 2024 \(datetime64\) in row 0; use .astype\(str\)",
        ),
        (np.array([1], dtype="timedelta64[D]"), "timedelta64"),
        (np.zeros(1, dtype=[("a", int)]), "void"),
        ([object()], r"\(object\) in row 0"),
        (np.array([b"\xff"]), r"must hold bytes that are UTF-8 text, got b'\\xff'"),
        (np.zeros((3, 1)), r"shape \(n,\), got shape \(3, 1\); use .ravel\(\)"),
        ([["a"], ["b"]], r"shape \(n,\), got shape \(2, 1\); use .ravel\(\)"),
        ([[1], [1, 2]], "must have rows of one shape"),
        (np.array(3), r"got shape \(\)"),
        (None, "must be an array or a list, got NoneType"),
        ("abc", "must be an array or a list, got str"),
    ],
)
def test_other_ids_are_one_sentence(ids: object, message: str) -> None:
    with pytest.raises(DataError, match=message):
        as_owners(ids, "client")


def test_the_order_of_clients_is_the_one_asked_for() -> None:
    ids, x = ["c10", "c2", "c1", "c2"], np.arange(4.0)[:, None]

    def made(**order: object) -> Federation:
        return Federation.from_arrays(x, [0, 1, 0, 1], client=ids, test=(x, [0] * 4), **order)  # type: ignore[arg-type]

    assert made().clients.names == ("c1", "c10", "c2")  # character by character, as before
    assert made(client_order="natural").clients.names == ("c1", "c2", "c10")
    given = made(client_order=["c2", "c10", "c1"], validation=(x, [0] * 4, ids))
    assert given.clients.names == ("c2", "c10", "c1")
    # rows 1 and 3 belong to c2, row 0 to c10, row 2 to c1
    assert given.train.x[:, 0].tolist() == [1, 3, 0, 2]
    assert given.validation is not None
    assert given.validation.x[:, 0].tolist() == [1, 3, 0, 2]
    assert (
        made(client_order=["c1", "c10", "c2"]).fingerprint
        == made().fingerprint
        != given.fingerprint
    )


def test_integers_are_in_natural_order_already() -> None:
    owners = as_owners([10, 2, -1], "client")
    assert owners[0] == (-1, 2, 10)
    assert in_order(owners, "natural")[0] == (-1, 2, 10)


@pytest.mark.parametrize(
    ("order", "message"),
    [
        (
            "size",
            "client_order must be 'sorted', 'natural' or all client names in order, got 'size'",
        ),
        (["a"], "exactly the names of the 2 clients, got 1 names; 'b' is only in client"),
        (["a", "b", "c"], "'c' is only in client_order"),
        (["a", "a", "b"], "client names must be distinct, got 'a' twice"),
        (["a", None], "got None for client 1"),
        (None, "must be a tuple with a name for each client, got None"),
    ],
)
def test_another_order_is_one_sentence(order: object, message: str) -> None:
    with pytest.raises(DataError, match=message):
        in_order(as_owners(["b", "a"], "client"), order)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (["a", 1, "a", 1], "must hold either integers or texts, got 'a' in row 0 and 1 in row 1"),
        (
            ["a", float("nan"), "a", "a"],
            r"must name the owner of every example, got 1 missing id \(nan\), the first in row 1",
        ),
        (
            np.array([None] * 4),
            r"must name the owner of every example, got 4 missing ids \(None\), the first in row 0",
        ),
        (
            np.zeros((4, 1)),
            r"must have one id for each example, .* got shape \(4, 1\); use .ravel\(\)",
        ),
        (["a", "b"], "must hold 4 ids, one for each example, got 2"),
    ],
)
def test_a_column_that_names_clients_is_held_to_the_same(column: object, message: str) -> None:
    x, y = np.eye(4), np.array([0, 1, 0, 1])
    with pytest.raises(DataError, match=f"^partition.column = 'site' {message}"):
        share_out(
            Labelled("mine", x, y, (x, y), 2), ByColumn(column="site"), 2, columns={"site": column}
        )  # type: ignore[dict-item]


def test_a_list_names_clients() -> None:
    x, y = np.eye(4), np.array([0, 1, 0, 1])
    federation = share_out(
        Labelled("mine", x, y, (x, y), 2),
        ByColumn(column="site"),
        2,
        columns={"site": ["b", "a", "b", "b"]},
    )  # type: ignore[dict-item]
    assert federation.clients.names == ("a", "b")


def test_no_ids_are_no_owners_whatever_their_type() -> None:
    for ids in (np.zeros(0, dtype=bool), np.zeros(0, dtype="datetime64[D]"), [], np.zeros(0)):
        names, owner = as_owners(ids, "client")
        assert (names, owner.tolist()) == ((), [])

"""What may name a client."""

import json
import logging
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgs import AvailabilityFile, Clients, Federation
from fedgs.client_names import checked_names, clean_name, natural_key, warn_of_text_order
from fedgs.errors import DataError

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)
NAMES = TEXTS | st.integers(-(2**63), 2**63 - 1)


@given(st.lists(NAMES, unique_by=str))
def test_texts_and_integers_stay_as_they_are_and_are_json(names: list[str | int]) -> None:
    assert checked_names(names) == tuple(names)
    assert json.loads(json.dumps(names, allow_nan=False)) == names


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        (np.str_("a"), "a"),
        (np.int8(3), 3),
        (np.uint64(7), 7),
        (2.0, 2),
        (np.float32(4), 4),
        (-0.0, 0),
    ],
)
def test_other_types_of_the_same_name_become_python_s_own(name: object, plain: str | int) -> None:
    assert clean_name(name) == plain
    assert type(clean_name(name)) is type(plain)
    assert Clients((name, "z"), np.array([1, 1])).names == (plain, "z")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "name",
    [
        None, float("nan"), float("inf"), np.float32("nan"), 1.5, True, np.True_, b"a", "",
        "\ud800", 2**63, -(2**63) - 1, 1j, np.timedelta64(1, "D"), np.datetime64("2024-01-01"),
        ("a",), ["a"], {}, object(), np.array(1),
    ],
)  # fmt: skip
def test_what_is_no_name_is_refused_with_its_place(name: object) -> None:
    with pytest.raises(
        DataError,
        match=r"^client names must be non-empty texts or 64-bit integers, got .* for client 1$",
    ):
        Clients(("a", name), np.array([1, 1]))  # type: ignore[arg-type]


@pytest.mark.parametrize("names", [None, 5, "ab", b"ab"])
def test_names_are_a_collection(names: object) -> None:
    with pytest.raises(DataError, match="client names must be a tuple with a name for each client"):
        Clients(names, np.array([1, 1]))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("a", "b", "a"), "distinct, got 'a' twice"),
        ((1, 2, 1.0), "distinct, got 1 twice"),
        ((np.str_("a"), "a"), "distinct, got 'a' twice"),
        (("1", "b", 1), "distinct as text, got 1 and '1'"),
    ],
)
def test_names_are_distinct(names: tuple[str | int, ...], message: str) -> None:
    with pytest.raises(DataError, match=message):
        checked_names(names)


def test_natural_order_compares_digits_as_numbers() -> None:
    names = ["b2", "b10", "a10b3", "a9b20", "a10b20", "b02", "c", "10", "9"]
    assert sorted(names, key=natural_key) == [
        "9",
        "10",
        "a9b20",
        "a10b3",
        "a10b20",
        "b02",
        "b2",
        "b10",
        "c",
    ]


@pytest.mark.parametrize(
    ("names", "row"),
    [
        (("client1", "client10", "client2"), 1),
        (("a", "b10", "b9", "c"), 1),
        (("client1", "client2", "client10"), None),  # an order that was chosen
        (("client01", "client02", "client10"), None),
        (("b", "a"), None),
        ((1, 2, 10), None),
        ((10, "c10", "c2"), None),
    ],
)
def test_rows_that_may_be_read_for_other_clients_give_one_warning(
    names: tuple[str | int, ...], row: int | None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    warn_of_text_order.cache_clear()
    np.save(tmp_path / "who.npy", np.ones((len(names), 2), dtype=bool))
    clients = Clients(names, np.ones(len(names), dtype=np.int64))
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            AvailabilityFile(path=tmp_path / "who.npy").check(clients, 2)
    messages = [record.message for record in caplog.records]
    assert len(messages) == (row is not None)
    if row is not None:
        assert messages[0].startswith(
            f"row {row} of availability.path '{tmp_path}/who.npy' is read "
            f"for client {names[row]!r}, since "
        )


def test_features_in_text_order_give_the_warning_unless_an_order_was_asked_for(
    caplog: pytest.LogCaptureFixture,
) -> None:
    warn_of_text_order.cache_clear()
    x, ids = np.eye(3), ["c1", "c10", "c2"]
    with caplog.at_level(logging.WARNING):
        for order in ("natural", ["c1", "c10", "c2"], "sorted"):
            assert not caplog.records
            Federation.from_arrays(
                x, [0, 1, 0], client=ids, test=(x, [0, 1, 0]), client_features=x, client_order=order
            )
    assert [
        "row 1 of client_features is read for client 'c10'" in record.message
        for record in caplog.records
    ] == [True]

"""The first difference between two federations."""

import re

import numpy as np
import pytest
from tests.data.material import small

from fedgs.clients import Clients
from fedgs.data import (
    Federation,
    Normalization,
    Part,
    first_difference,
)
from fedgs.data.verify import verify

OTHER_X = np.array([[0, 1], [2, 3], [4, 6]], dtype=np.float32)  # the last number differs


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"clients": Clients(("a", "c"), np.array([2, 1]))}, "client 1 is named 'c', expected 'b'"),
        ({"num_labels": 3}, "there are 3 labels, expected 2"),
        (
            {"normalization": Normalization(1.0, (0.0,), (1.0,))},
            "the normalization is Normalization",
        ),
        (
            {
                "clients": Clients(("a", "b"), np.array([1, 2])),
                "train": Part(OTHER_X, np.array([0, 1, 0]), np.array([0, 1, 3])),
            },
            "client 'a' has 1 training examples, expected 2",
        ),
        (
            {"train": Part(OTHER_X, np.array([0, 1, 1]), np.array([0, 2, 3]))},
            "client 'b', training example 0: label 1, expected 0",
        ),
        (
            {"train": Part(OTHER_X, np.array([0, 1, 0]), np.array([0, 2, 3]))},
            "client 'b', training example 0 has other contents than expected",
        ),
        ({"validation": None}, "there is no validation part, expected one"),
        (
            {"test": Part(OTHER_X[1:], np.array([1, 1]), np.array([0, 2]))},
            "the server, test example 1 has other contents",
        ),
        (
            {"test": Part(OTHER_X[:1], np.array([1]), np.array([0, 1]))},
            "the server has 1 test examples, expected 2",
        ),
        (
            {"clients": Clients(("a", "b"), np.array([2, 1]))},
            "there are no client features, expected some",
        ),
        (
            {"clients": Clients(("a", "b"), np.array([2, 1]), features=np.eye(2)[:, :1])},
            r"have shape \(2, 1\), expected \(2, 2\)",
        ),
        (
            {"clients": Clients(("a", "b"), np.array([2, 1]), features=np.ones((2, 2)))},
            "client 'a' has other features",
        ),
    ],
)
def test_the_first_difference_is_named(changes: dict[str, object], message: str) -> None:
    changed = small(**changes)
    found = first_difference(changed, small())
    assert found is not None
    assert re.search(message, found)
    assert changed.fingerprint != small().fingerprint
    assert (
        verify(changed, small().fingerprint)
        == f"the fingerprint is {changed.fingerprint}, expected {small().fingerprint}"
    )


def test_another_type_or_shape_of_examples_is_a_difference() -> None:
    x, y = np.ones((2, 2)), np.zeros(2, dtype=int)
    one, bytes_ = (
        Federation.from_arrays(x.astype(t), y, client=y, test=(x.astype(t), y))
        for t in (np.float32, np.uint8)
    )
    flat = Federation.from_arrays(x[:, :1], y, client=y, test=(x[:, :1], y))
    assert first_difference(bytes_, one) == "examples have type |u1, expected <f4"
    assert first_difference(flat, one) == "examples have shape (1,), expected (2,)"


def test_the_name_and_where_it_is_from_are_no_difference() -> None:
    assert first_difference(small(name="other", facts={"a": 1}), small()) is None
    assert small(name="other", facts={"a": 1}).fingerprint == small().fingerprint


def test_a_number_of_classes_that_was_given_is_a_difference() -> None:
    x, y = np.eye(3, dtype=np.float32), np.array([0, 1, 0])
    three, also_three = (
        Federation.from_arrays(x, labels, client=y, test=(x, labels), classes=classes)
        for labels, classes in ((y, 3), (np.array([0, 1, 2]), None))
    )
    difference = "the number of classes was given as 3, expected None"
    assert first_difference(three, also_three) == difference


def test_clients_without_validation_examples_are_compared() -> None:
    """A client may have no example in a part, and a part may have none at all."""
    x, y = np.eye(3, dtype=np.float32), np.array([0, 1, 0])
    one, other = (
        Federation.from_arrays(x, y, client=y, test=(x, y), validation=(values, y[:1], [1]))
        for values in (x[:1], x[1:2])
    )
    assert first_difference(one, one) is None
    difference = "client 1, validation example 0 has other contents than expected"
    assert first_difference(one, other) == difference

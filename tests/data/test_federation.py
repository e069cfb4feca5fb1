"""A federation refuses what does not fit and has one fingerprint for one content."""

import copy
import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgs.clients import Clients
from fedgs.data import Federation, Normalization, Part
from fedgs.errors import DataError

X, Y = np.eye(4, dtype=np.float32), np.array([0, 1, 0, 1])
OWNER = np.array(["b", "a", "b", "a"])


def made(**changes: object) -> Federation:
    settings: dict[str, object] = {"x": X, "y": Y, "client": OWNER, "test": (X, Y), **changes}
    return Federation.from_arrays(settings.pop("x"), settings.pop("y"), **settings)  # type: ignore[arg-type]


@settings(max_examples=30)
@given(seed=st.integers(0, 10_000))
def test_examples_stay_with_their_owner_in_their_order(seed: int) -> None:
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 40))
    owner, y = rng.integers(0, 5, count), rng.integers(0, 3, count)
    x = np.arange(count, dtype=np.float64)[:, None]
    federation = Federation.from_arrays(x, y, client=owner, test=(x[:1], y[:1]))
    for position, name in enumerate(federation.clients.names):
        mine = np.flatnonzero(owner == name)
        assert federation.train.x[federation.train.rows(position), 0].tolist() == mine.tolist()
        assert federation.clients.label_counts is not None
        assert federation.clients.label_counts[position].tolist() == [
            int((y[mine] == c).sum()) for c in range(federation.num_labels)
        ]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"client": OWNER[:3]}, "x, y and client must have one length, got 4, 4 and 3"),
        (
            {"x": X[:0], "y": Y[:0], "client": OWNER[:0]},
            "a federation needs at least one training example, got none",
        ),
        ({"y": Y[:, None]}, r"y: labels must be a 1-d array, got shape \(4, 1\)"),
        ({"y": Y + 0.5}, "y: labels must be integers >= 0, .* got 0.5 in row 0"),
        (
            {"y": np.array([0, np.nan, 0, 0])},
            "y: labels must be integers >= 0, .* got nan in row 1",
        ),
        ({"y": Y - 1}, "y: labels must be integers >= 0, .* got -1 in row 0"),
        ({"test": (X, Y - 2)}, "test y: labels must be integers >= 0, .* got -2 in row 0"),
        ({"test": (X[:, :3], Y)}, r"test examples have shape \(3,\), training examples \(4,\)"),
        ({"test": (X.astype(int), Y)}, "test examples are int64, training examples float32"),
        ({"test": (X[:3], Y)}, "test: x and y must have one length, got 3 and 4"),
        ({"x": X * np.nan}, "x must be finite, got nan in row 0, column 0"),
        ({"test": (X + np.inf, Y)}, "test x must be finite, got inf in row 0, column 0"),
        (
            {"validation": (X, Y, np.array(["a", "b", "c", "a"]))},
            "client 'c' has validation examples but no training example",
        ),
        (
            {"client_features": np.eye(3)},
            "client_features must have 2 rows, one for each client, got 3",
        ),
    ],
)
def test_what_does_not_fit_is_one_sentence(changes: dict[str, object], message: str) -> None:
    with pytest.raises(DataError, match=message):
        made(**changes)


def test_labels_beyond_the_number_of_labels_are_refused() -> None:
    with pytest.raises(DataError, match=r"training labels must be in 0..0, got 0..1"):
        replace(made(), num_labels=1)


def test_offsets_that_do_not_fit_the_sizes_are_refused() -> None:
    with pytest.raises(
        DataError, match="the training part's offsets do not fit the clients' data sizes"
    ):
        replace(made(), clients=Clients(("a", "b"), np.array([3, 1])))
    with pytest.raises(DataError, match="the validation part must have 3 offsets, got 2"):
        replace(made(), validation=Part(X, Y, np.array([0, 4])))


def test_the_fingerprint_changes_with_every_content_and_with_nothing_else() -> None:
    base = made(
        validation=(X, Y, OWNER),
        client_features=np.eye(2),
        normalization=Normalization(2.0, (0.0,), (1.0,)),
    )
    changed = X.copy()
    changed[3, 3] = 2
    others = [
        made(),
        made(x=changed),
        made(y=Y[::-1]),
        made(client=np.array(["b", "a", "a", "b"])),
        made(client=np.array(["b", "c", "b", "c"])),
        made(test=(changed, Y)),
        made(validation=(X, Y, OWNER)),
        made(client_features=np.eye(2)),
        made(client_features=np.eye(2) * 2),
        made(client_features=np.eye(2).reshape(2, 2)[:, :1]),
        made(normalization=Normalization(2.0, (0.0,), (1.0,))),
        base,
    ]
    assert len({federation.fingerprint for federation in others}) == len(others)
    assert made(name="another name").fingerprint == made().fingerprint
    # held in float32 either way
    assert made(x=X.astype(np.float64)).fingerprint == made().fingerprint
    assert made(x=np.asfortranarray(X)).fingerprint == made().fingerprint


@pytest.mark.parametrize(
    "empty",
    [(X[:0], Y[:0], OWNER[:0]), ([], [], []), (np.zeros((0, 7)), [], np.array([], dtype=object))],
)
def test_an_empty_validation_part_is_none(empty: tuple[object, object, object]) -> None:
    federation = made(validation=empty)
    assert federation.validation is None
    assert federation.fingerprint == made().fingerprint
    part = Part(X[:0], Y[:0], np.zeros(3, dtype=np.int64))
    assert replace(federation, validation=part).validation is None


@pytest.mark.parametrize(
    ("train", "test", "validation", "held"),
    [
        ("int64", "int32", "int8", "int64"),
        ("int32", "int64", "int32", "int64"),
        ("bool", "uint8", "bool", "uint8"),
        ("uint8", "bool", "int16", "int16"),
        ("int64", "uint64", "int64", "float32"),
        ("float64", "float32", "float16", "float32"),
        (">i4", "int32", "int32", "int32"),
    ],
)
def test_parts_that_differ_in_width_alone_are_held_in_one_type(
    train: str, test: str, validation: str, held: str
) -> None:
    scaling = Normalization(1.0, (0.0,), (1.0,))
    federation = made(
        x=X.astype(train),
        test=(X.astype(test), Y),
        validation=(X.astype(validation), Y, OWNER),
        normalization=scaling,
    )
    assert federation.validation is not None
    for part in (federation.train, federation.test, federation.validation):
        assert part.x.dtype == np.dtype(held)
        assert sorted(part.x.tolist()) == sorted(X.tolist())


def test_bytes_are_refused_without_a_normalization_beside_wider_integers_too() -> None:
    images = np.full((4, 1, 4, 4), 200, dtype=np.uint8)
    with pytest.raises(DataError, match="x of type uint8 .* must have a normalization"):
        made(x=images, test=(images.astype(np.int64), Y))


@pytest.mark.parametrize("name", [5, "", "  ", None, b"mine"])
def test_a_name_is_a_text(name: object) -> None:
    with pytest.raises(DataError, match="name must be a text that is not empty, got "):
        made(name=name)
    with pytest.raises(DataError, match="name must be a text that is not empty, got "):
        replace(made(), name=name)  # type: ignore[arg-type]


def test_features_of_a_federation_are_finite() -> None:
    features = np.array([[1.0], [np.nan]])
    with pytest.raises(
        DataError,
        match="client features must be finite numbers of shape .*, got nan in row 1, column 0",
    ):
        replace(made(), clients=Clients(("a", "b"), np.array([2, 2]), features=features))


@pytest.mark.parametrize(
    ("part", "message"),
    [
        (
            Part(X, Y, np.array([0.0, 4.0])),
            r"the test part's offsets must be .*, got float64 of shape \(2,\)",
        ),
        (
            Part(X, Y, np.array([4])),
            r"the test part's offsets must be .*, got int64 of shape \(1,\)",
        ),
        (Part(X, Y, np.array([1, 4])), "must begin with 0 and never fall, got .1, 4."),
        (Part(X, Y, np.array([0, 5, 4])), "must begin with 0 and never fall, got .0, 5, 4."),
        (Part(X, Y, np.array([0, 3])), "the test part has 4 examples, 4 labels, 3 rows"),
        (Part(X, Y[:3], np.array([0, 3])), "the test part has 4 examples, 3 labels, 3 rows"),
        (
            Part(X, Y + 0.5, np.array([0, 4])),
            r"test labels must be a 1-d array of integers, got float64 of shape \(4,\)",
        ),
    ],
)
def test_a_part_that_does_not_fit_is_refused(part: Part, message: str) -> None:
    with pytest.raises(DataError, match=message):
        replace(made(), test=part)


def test_a_normalization_of_another_type_is_refused() -> None:
    with pytest.raises(DataError, match="normalization must be a Normalization or None, got 255"):
        replace(made(), normalization=255)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"test": X}, r"test must be a tuple \(x, y\), got ndarray with 4 entries"),
        ({"test": 5}, r"test must be a tuple \(x, y\), got int"),
        ({"validation": (X, Y)}, r"must be a tuple \(x, y, client\), got tuple with 2 entries"),
        ({"validation": (5, 5, 5)}, "validation x must have a row for each example"),
        ({"validation": (np.array(5),) * 3}, "validation x must have a row for each example"),
    ],
)
def test_parts_are_tuples_of_arrays(changes: dict[str, object], message: str) -> None:
    with pytest.raises(DataError, match=message):
        made(**changes)


def test_copies_and_pickles_of_a_part_are_read_only() -> None:
    part = made().train
    for again in (copy.deepcopy(part), pickle.loads(pickle.dumps(part))):
        assert again.x.tolist() == part.x.tolist()
        assert again.index is None
        with pytest.raises(ValueError, match="read-only"):
            again.y[0] = 1

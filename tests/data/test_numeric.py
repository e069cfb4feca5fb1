"""Examples, labels and features as users hand them over."""

import decimal
import fractions
import tracemalloc

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from fedgs import Clients, Federation
from fedgs.data import Iid, Labelled, Part, share_out
from fedgs.data.numeric import as_examples, as_features, as_labels
from fedgs.errors import DataError

LARGEST = float(np.finfo(np.float32).max)
OBJECTS = np.dtype(object)
Y_OF_FOUR = np.array([0, 1, 0, 1])


def objects(*rows: object) -> np.ndarray:
    """A 1-d array of objects."""
    array = np.empty(len(rows), dtype=object)
    array[:] = rows
    return array


class Broken:
    """Something that says it is an array and cannot become one."""

    def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
        raise ValueError("the sensor is off")


class Frame:
    """As a data frame: NumPy reads it through `__array__`."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = values

    def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
        return self.values


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (np.array([[0.5, True], [2, False]], dtype=object), np.float32),
        (np.array([[True], [False]], dtype=object), np.float32),
        (np.array([[np.float32(0.5)], [np.int8(3)]], dtype=object), np.float32),
        (
            np.array([[decimal.Decimal("0.5")], [fractions.Fraction(1, 2)]], dtype=object),
            np.float32,
        ),
        (objects([1, 2], [3, 4]), np.int64),
        (objects(np.ones(3), np.zeros(3)), np.float32),
        (objects(torch.ones(3), torch.zeros(3)), np.float32),
        ([[1.5, 2], [3, 4]], np.float32),
        ([[1, 2], [3, 4]], np.int64),
        ([torch.ones(3), torch.zeros(3)], np.float32),
        (torch.eye(2), np.float32),
        (Frame(np.eye(2)), np.float32),
        (np.ma.array([[1.5], [2.0]]), np.float32),
        (np.eye(2, dtype=bool), np.bool_),
        (np.eye(2, dtype=np.uint8), np.uint8),
        (np.eye(2, dtype=">i4"), np.int32),
        (np.eye(2, dtype=">f8"), np.float32),
        (np.eye(2, dtype=np.float16), np.float32),
        (np.eye(2, dtype=np.longdouble), np.float32),
    ],
)
def test_numbers_in_any_container_become_the_array_that_numpy_says(
    value: object, dtype: type
) -> None:
    examples = as_examples(value, "x")
    assert examples.dtype == dtype
    assert examples.dtype.isnative
    expected = value.values if isinstance(value, Frame) else value
    plain = np.array([np.asarray(row, dtype=np.float64) for row in expected])  # type: ignore[attr-defined]
    assert examples.astype(np.float64).tolist() == plain.tolist()


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.array([["a"], ["b"]]), r"must hold numbers or booleans, got texts \(<U1\)"),
        (np.array([[1, "a"]], dtype=object), "got the text 'a' in row 0, column 1"),
        (np.array([[1, "1.5"]], dtype=object), "got the text '1.5' in row 0, column 1"),
        (np.array([[1, None]], dtype=object), r"got a missing value \(None\) in row 0, column 1"),
        (
            np.array([[[1], [b"a"]]], dtype=object),
            r"got the bytes b'a' in row 0, position \(1, 0\)",
        ),
        (np.array([[{}]], dtype=object), "got a dict in row 0, column 0"),
        (np.array([[1j]], dtype=object), "got 1j in row 0, column 0"),
        (np.array([[np.timedelta64(1, "D")]], dtype=object), "in row 0, column 0"),
        (
            objects([1, 2], [1]),
            r"must have rows of one shape, got \(2,\) in row 0 and \(1,\) in row 1",
        ),
        (objects([1, 2], "ab"), "must hold numbers or booleans, got a list in row 0"),
        (objects([1, "a"], [1, 2]), "must hold numbers or booleans, got "),
        ([[1, 2], [1]], r"must have rows of one shape, got \(2,\) in row 0 and \(1,\) in row 1"),
        (
            [[[1, 2], [1]]],
            r"x, row 0 must have rows of one shape, got \(2,\) in row 0 and \(1,\) in row 1",
        ),
        (np.array([["2024-01-01"]], dtype="datetime64[D]"), "got dates"),
        (np.array([[1]], dtype="timedelta64[D]"), "got durations"),
        (np.array([[1j]]), "got complex numbers"),
        (np.zeros((2, 1), dtype=[("a", float)]), "got records"),
        (
            np.ma.array([[1.0, 2.0]], mask=[[False, True]]),
            "got 1 masked ones, the first in row 0, column 1",
        ),
        (
            torch.eye(2, requires_grad=True),
            "must be readable as a NumPy array, got Tensor: Can't call numpy",
        ),
        (torch.eye(2, dtype=torch.bfloat16), "must be readable as a NumPy array, got Tensor"),
        (1.5, r"must have a row for each example, .* got \(\)"),
        (
            np.zeros(3),
            r"must have a row for each example, .* got \(3,\); for one feature use .reshape\(",
        ),
        (np.zeros((3, 0)), r"must have at least one feature, got shape \(3, 0\)"),
        (np.zeros((3, 2, 0)), "must have at least one feature"),
        (None, "must be an array or a list, got NoneType"),
        ({"a": 1}, "must be an array or a list, got dict"),
        ((number for number in range(3)), "must be an array or a list, got generator"),
        ([Broken()], "must be readable as a NumPy array, got list: the sensor is off"),
        ([[1, 10**400]], "float32's range of .*, got an integer beyond it in row 0, column 1"),
    ],
)
def test_what_is_no_table_of_numbers_is_one_sentence(value: object, message: str) -> None:
    with pytest.raises(DataError, match=message):
        as_examples(value, "x")


def test_sparse_matrices_are_named() -> None:
    sparse = pytest.importorskip("scipy.sparse")
    with pytest.raises(
        DataError, match=r"x must be a dense array, got a sparse csr_matrix; use .toarray\(\)"
    ):
        as_examples(sparse.csr_matrix(np.eye(2)), "x")


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.longdouble, OBJECTS])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_the_first_entry_that_is_not_finite_is_shown(dtype: np.dtype, value: float) -> None:
    x = np.zeros((5, 3), dtype=dtype)
    x[3, 1] = x[4, 0] = value
    with pytest.raises(DataError, match=f"^x must be finite, got {value} in row 3, column 1$"):
        as_examples(x, "x")


@pytest.mark.parametrize("value", [1e300, -3.5e38, LARGEST * (1 + 2**-23)])
def test_finite_values_beyond_float32_are_called_that(value: float) -> None:
    x = np.zeros((5, 3, 2))
    x[2, 1, 1] = value
    with pytest.raises(
        DataError,
        match=r"x must be within float32's range of \+-3.4e38, got .* in row 2, position \(1, 1\)",
    ):
        as_examples(x, "x")


@pytest.mark.parametrize("value", [LARGEST, -LARGEST, 1e-300, LARGEST * (1 + 2**-26)])
def test_values_that_round_to_a_finite_float32_are_taken(value: float) -> None:
    assert as_examples(np.array([[value]]), "x")[0, 0] == np.float32(value)


def exact(value: int) -> bool:
    """Whether float32 represents the integer: 24 binary digits from the first 1 to the last."""
    digits = f"{abs(value):b}".rstrip("0")
    return len(digits) <= 24


@given(
    st.sampled_from([np.int32, np.uint32, np.int64, np.uint64, OBJECTS]),
    st.integers(0, 63),
    st.integers(-3, 3),
    st.booleans(),
)
def test_integers_are_taken_where_float32_holds_them(
    dtype: np.dtype, power: int, add: int, negative: bool
) -> None:
    value = (-1 if negative else 1) * (2**power + add)
    if dtype != OBJECTS and not np.iinfo(dtype).min <= value <= np.iinfo(dtype).max:
        return
    x = np.array([[0], [value]], dtype=dtype)
    if exact(value):
        assert int(as_examples(x, "x").astype(np.float32)[1, 0]) == value
    else:
        with pytest.raises(
            DataError,
            match=f"integers that float32 represents exactly, .* got {value} in row 1, column 0",
        ):
            as_examples(x, "x")


@given(arrays.arrays(st.sampled_from([np.int64, np.uint64, np.int32]), (2, 3)))
def test_all_integers_are_judged_alike(x: np.ndarray) -> None:
    first = next((index for index in np.ndindex(x.shape) if not exact(int(x[index]))), None)
    if first is None:
        assert as_examples(x, "x").tolist() == x.tolist()
    else:
        with pytest.raises(DataError, match=f"got {x[first]} in row {first[0]}, column {first[1]}"):
            as_examples(x, "x")


def test_the_entry_is_found_in_any_block() -> None:
    x = np.zeros((1 << 21, 2), dtype=np.float32)  # four blocks
    x[1_900_000, 1] = np.nan
    with pytest.raises(DataError, match="got nan in row 1900000, column 1"):
        as_examples(x, "x")


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_large_arrays_are_not_copied(dtype: type) -> None:
    x = np.zeros((4_000_000, 4), dtype=dtype)
    tracemalloc.start()
    try:
        assert np.shares_memory(as_examples(x, "x"), x)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # one block of a million entries at a time; the arrays have 16 and 64 MB
    assert peak < 8_000_000


@pytest.mark.parametrize(
    "value",
    [
        [0, 1, 2],
        np.array([0, 1, 2], dtype=np.uint8),
        np.array([0, 1, 2], dtype=np.uint64),
        np.array([0, 1, 2], dtype=np.int8),
        [0.0, 1.0, 2.0],
        np.array([0, 1, 2], dtype=np.float16),
        np.array([0, 1.0, np.int64(2)], dtype=object),
        torch.tensor([0, 1, 2]),
        Frame(np.array([0, 1, 2])),
        np.ma.array([0, 1, 2]),
    ],
)
def test_whole_numbers_of_any_type_are_labels(value: object) -> None:
    labels = as_labels(value, "y")
    assert labels.dtype == np.int64
    assert labels.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    "value", [[True, False], np.array([True, False]), np.array([True, False], dtype=object)]
)
def test_booleans_are_two_classes(value: object) -> None:
    assert as_labels(value, "y").tolist() == [1, 0]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            ["cat", "dog"],
            r"got the text 'cat' in row 0; encode classes with np.unique\(labels, return_inverse",
        ),
        (np.array([0, "dog"], dtype=object), "got the text 'dog' in row 1; encode classes"),
        ([b"cat"], "got the bytes b'cat' in row 0; encode classes"),
        (["0", "1"], "got the text '0' in row 0; encode classes"),
        ([0, 0.5], "got 0.5 in row 1; for the targets of a regression give task = 'regression'"),
        ([0, 1e300], r"got 1e\+300 in row 1"),
        ([0, np.nan], "got nan in row 1$"),
        ([0, np.inf], "got inf in row 1$"),
        ([0, -np.inf], "got -inf in row 1$"),
        ([0, None], r"got a missing value \(None\) in row 1"),
        ([0, -1], "got -1 in row 1$"),
        (np.array([-1], dtype=np.int8), "got -1 in row 0$"),
        (np.array([0, 2**63], dtype=np.uint64), "got 9223372036854775808 in row 1"),
        ([1j], r"got .*0?\+?1j.* in row 0"),
        (np.array(["2024"], dtype="datetime64[Y]"), "got a date in row 0"),
    ],
)
def test_what_is_no_label_is_refused_by_its_row(value: object, message: str) -> None:
    with pytest.raises(
        DataError, match=f"^y: labels must be integers >= 0, as task 'classes' needs, {message}"
    ):
        as_labels(value, "y")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.zeros((3, 1)), r"must be a 1-d array, got shape \(3, 1\); use .ravel\(\)"),
        (
            np.eye(3),
            r"got shape \(3, 3\); turn one-hot rows into labels with .argmax\(axis=1\)",
        ),
        (3, r"must be a 1-d array, got shape \(\)"),
        (None, "y must be an array or a list, got NoneType"),
        ("0101", "y must be an array or a list, got str"),
        ([[0], [1, 2]], "y must have rows of one shape"),
        (
            np.ma.array([0, 1], mask=[False, True]),
            "y must not have missing entries, got 1 masked ones, the first in row 1",
        ),
    ],
)
def test_labels_are_one_number_an_example(value: object, message: str) -> None:
    with pytest.raises(DataError, match=message):
        as_labels(value, "y")


@pytest.mark.parametrize(
    "value", [[[1, 2]], np.array([[1, 2.0]], dtype=object), torch.tensor([[1, 2]]), objects([1, 2])]
)
def test_features_are_float64(value: object) -> None:
    features = as_features(value, "client_features")
    assert features.dtype == np.float64
    assert features.tolist() == [[1, 2]]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([["a"]], r"must be finite numbers of shape \(N, d\), got <U1 \(1, 1\)"),
        ([1, 2], r"must be finite numbers of shape \(N, d\), got int64 \(2,\)"),
        ([[1], [np.nan]], "got nan in row 1, column 0"),
        ([[1], [None]], r"got a missing value \(None\) in row 1, column 0"),
        ([[1], [1, 2]], "must have rows of one shape"),
        ([[1j]], "complex128"),
        (np.empty((3, 0)), r"must have at least one number for each client, got shape \(3, 0\)"),
        ([[1.0], [1e200]], "of length at most 1e\\+150, .* number 1e\\+200 in row 1"),
        ([[-1e155, 1.0], [1.0, 1.0]], "number 1e\\+155 in row 0"),
        ([[0.8e150, 0.8e150]], "number 8e\\+149 in row 0"),
    ],
)
@pytest.mark.filterwarnings("error")
def test_other_features_are_one_sentence(value: object, message: str) -> None:
    with pytest.raises(DataError, match=message):
        as_features(value, "client_features")


@pytest.mark.parametrize(
    ("part", "x", "message"),
    [
        (
            "train",
            [[0.0], [1.0], [np.nan]],
            "training examples must be finite, got nan in example 0 of client 'b', column 0",
        ),
        (
            "train",
            [[0.0], [np.inf], [1.0]],
            "training examples must be finite, got inf in example 1 of client 'a', column 0",
        ),
        (
            "test",
            [[0.0], [1.0], [1e300]],
            r"must be within float32's range .* in example 2 of the test set, column 0",
        ),
        (
            "train",
            [["a"], ["b"], ["c"]],
            "training examples must hold numbers or booleans, got texts",
        ),
        ("train", [0.0, 1.0, 2.0], "training examples must have a row for each example"),
    ],
)
def test_a_federation_from_parts_is_held_to_the_same(
    part: str, x: list[object], message: str
) -> None:
    good = np.zeros((3, 1), dtype=np.asarray(x).dtype) if np.ndim(x) == 2 else np.asarray(x)
    y = np.zeros(3, dtype=np.int64)
    parts = {"train": good, "test": good, part: np.array(x)}
    with pytest.raises(DataError, match=message):
        Federation(
            name="parts",
            clients=Clients(("a", "b"), np.array([2, 1])),
            num_labels=1,
            train=Part(parts["train"], y, np.array([0, 2, 3])),
            validation=None,
            test=Part(parts["test"], y, np.array([0, 3])),
        )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"x": np.array([[1, None]] * 4, dtype=object)},
            r"^x must hold numbers or booleans, got a missing value \(None\) in row 0",
        ),
        ({"x": [[1.0, 2], [1.0], [1.0, 2], [1.0, 2]]}, "^x must have rows of one shape"),
        ({"x": np.full((4, 2), np.nan)}, "^x must be finite, got nan in row 0, column 0"),
        (
            {"y": ["a", "b", "a", "b"]},
            "^y and test y must both hold numbers or both texts, got int64 in test y",
        ),
        ({"y": [0, 1, 0]}, "^x and y must have one length, got 4 and 3"),
        (
            {"test": (np.eye(4, 2), [0, 0.5, 1, 1])},
            "^test y: labels must be integers >= 0, .* got 0.5 in row 1",
        ),
        ({"test": np.eye(4, 2)}, r"^test must be a tuple \(x, y\), got ndarray"),
        ({"test": (np.eye(4, 2), [0, 1])}, "^test: x and y must have one length, got 4 and 2"),
        (
            {"num_labels": 1},
            "^num_labels must be an integer above the largest label, which is 1, got 1",
        ),
        ({"num_labels": 2.5}, "^num_labels must be an integer above the largest label"),
        ({"normalization": 255}, "^normalization must be a table"),
    ],
)
def test_a_set_to_be_partitioned_is_held_to_the_same(
    changes: dict[str, object], message: str
) -> None:
    settings: dict[str, object] = {
        "x": np.eye(4, 2),
        "y": [0, 1, 0, 1],
        "test": (np.eye(4, 2), [0, 1, 0, 1]),
        "num_labels": 2,
    }
    with pytest.raises(DataError, match=message):
        Labelled("mine", **{**settings, **changes})  # type: ignore[arg-type]


def test_lists_can_be_partitioned_and_types_are_kept() -> None:
    rows, labels = [[1, 2], [3, 4], [5, 6], [7, 8]], [0.0, 1.0, 0.0, 1.0]
    federation = share_out(Labelled("mine", rows, labels, (rows, labels), num_labels=2), Iid(), 2)  # type: ignore[arg-type]
    assert federation.train.x.dtype == np.int64
    assert federation.train.y.dtype == np.int64
    wide = Labelled("mine", np.eye(4), Y_OF_FOUR, (np.eye(4), Y_OF_FOUR), num_labels=2)
    # not narrowed: the fingerprints of such federations stay what they were
    assert wide.x.dtype == np.float64


@pytest.mark.parametrize("num_labels", [0, 2.5, True, "2", None])
def test_a_federation_has_a_whole_number_of_labels(num_labels: object) -> None:
    part = Part(np.eye(2), np.zeros(2, dtype=np.int64), np.array([0, 2]))
    with pytest.raises(DataError, match="num_labels must be an integer >= 1, got "):
        Federation("parts", Clients(("a",), np.array([2])), num_labels, part, None, part)  # type: ignore[arg-type]


def test_no_labels_are_labels_of_any_type() -> None:
    for value in ([], np.array([], dtype=str), np.array([], dtype=object)):
        assert as_labels(value, "y").tolist() == []

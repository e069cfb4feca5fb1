"""The number of classes: given, or the largest label + 1."""

from pathlib import Path

import numpy as np
import pytest

from fedgs import Federation, File, LabelCycle, LargeLabelsFirst, Leaf
from fedgs.data import Iid, export, open_folder, to_folder, write_leaf
from fedgs.data.classes import class_count
from fedgs.errors import ConfigError, DataError
from fedgs.models import as_model, check_model

X, Y = np.random.default_rng(0).random((12, 3)), np.arange(12) % 2
CLIENT = np.arange(12) % 3


def made(classes: int | None = None, y: np.ndarray = Y) -> Federation:
    return Federation.from_arrays(X, y, client=CLIENT, test=(X, y), classes=classes)


def test_the_largest_label_of_any_part_counts() -> None:
    federation = Federation.from_arrays(
        X, Y, client=CLIENT, test=(X, Y + 1), validation=(X, Y + 4, CLIENT)
    )
    assert federation.num_labels == 6


def test_more_classes_leave_room_for_labels_that_do_not_occur() -> None:
    nn = pytest.importorskip("torch.nn")
    federation = made(classes=10)
    assert federation.num_labels == 10
    assert federation.clients.label_counts is not None
    assert federation.clients.label_counts.shape == (3, 10)
    check_model(as_model(lambda: nn.Linear(3, 10)), federation)
    with pytest.raises(ConfigError, match=r"got \(2, 10\)"):
        check_model(as_model(lambda: nn.Linear(3, 10)), made())


def test_availability_by_labels_counts_all_classes() -> None:
    cycle = LabelCycle(beta=1.0, period=10)
    two = [cycle.rates(t, made().clients).max() for t in range(10)]
    ten = [cycle.rates(t, made(classes=10).clients).max() for t in range(10)]
    assert two == [1] * 10  # labels 0 and 1 take five rounds each
    # each of ten labels takes one round; nobody holds the last eight
    assert ten == [1, 1, *[0] * 8]
    subset = np.array([0, 1, 2] * 4)
    # over the largest that occurs
    assert LargeLabelsFirst(beta=1.0).rates(0, made(y=subset).clients).tolist() == [0, 0.5, 1]
    # over C - 1
    assert LargeLabelsFirst(beta=1.0).rates(0, made(classes=9, y=subset).clients).tolist() == [
        0,
        1 / 8,
        2 / 8,
    ]


@pytest.mark.parametrize("kind", ["npz", "partition", "export", "leaf", "folder"])
def test_classes_that_were_given_stay_given_on_every_way(tmp_path: Path, kind: str) -> None:
    federation = made(classes=9)
    assert federation.clients.classes == 9
    assert made(classes=2).clients.classes is None
    np.savez(tmp_path / "plain.npz", x=X, y=Y, client=np.where(np.arange(12) < 9, CLIENT, -1))
    found = {
        "npz": lambda: File(path=str(tmp_path / "plain.npz"), classes=9).load(),
        "partition": lambda: File(
            path=str(tmp_path / "plain.npz"), classes=9, partition=Iid(), clients=2
        ).load(),
        "export": lambda: File(path=str(export(federation, tmp_path / "kept.npz"))).load(),
        "leaf": lambda: Leaf(path=str(write_leaf(federation, tmp_path / "leaf"))).load(),
        "folder": lambda: open_folder(to_folder(federation, tmp_path / "shared")),
    }[kind]()
    assert found.clients.classes == 9
    if kind in ("export", "leaf", "folder"):
        assert found.fingerprint == federation.fingerprint


def test_the_default_given_in_words_is_the_same_federation() -> None:
    assert made(classes=2).fingerprint == made().fingerprint != made(classes=3).fingerprint


@pytest.mark.parametrize("classes", [1, 0, -3, 2.0, "3", True, None.__class__, np.array([3])])
def test_another_number_is_refused(classes: object) -> None:
    with pytest.raises(
        DataError, match="^classes must be an integer above the largest label, which is 1, got "
    ):
        made(classes=classes)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["npz", "partition", "export", "leaf"])
def test_every_file_takes_classes(tmp_path: Path, kind: str) -> None:
    np.savez(tmp_path / "plain.npz", x=X, y=Y, client=np.where(np.arange(12) < 9, CLIENT, -1))
    exported, folder = export(made(), tmp_path / "kept.npz"), write_leaf(made(), tmp_path / "leaf")

    def load(classes: int | None) -> Federation:
        if kind == "leaf":
            return Leaf(path=str(folder), classes=classes).load()
        path = exported if kind == "export" else tmp_path / "plain.npz"
        partition = {"partition": Iid(), "clients": 2} if kind == "partition" else {}
        return File(path=str(path), classes=classes, **partition).load()  # type: ignore[arg-type]

    assert load(None).num_labels == 2
    assert load(2).fingerprint == load(None).fingerprint
    more = load(7)
    assert more.num_labels == 7
    assert more.clients.label_counts is not None
    assert more.clients.label_counts.shape[1] == 7
    with pytest.raises(
        DataError,
        match="^data.classes must be an integer above the largest label, which is 1, got 1$",
    ):
        load(1)


def test_an_export_keeps_its_classes(tmp_path: Path) -> None:
    federation = made(classes=9)
    assert (
        File(path=str(export(federation, tmp_path / "a.npz"))).load().fingerprint
        == federation.fingerprint
    )
    assert (
        Leaf(path=str(write_leaf(federation, tmp_path / "b"))).load().fingerprint
        == federation.fingerprint
    )


@pytest.mark.parametrize(
    "labels",
    [
        np.random.default_rng(0).integers(0, 8606, 2000),  # days of survival
        np.random.default_rng(0).integers(0, 900, 300),
        np.arange(5000),  # ids
        np.arange(101),
        np.array([0, 10**15]),
        np.array([0, 5000] * 4000),
    ],
)
def test_targets_of_a_regression_are_refused_until_they_are_confirmed(labels: np.ndarray) -> None:
    classes = int(labels.max()) + 1
    message = f"task = .regression., .* confirm it with data.classes = {classes}$"
    with pytest.raises(DataError, match=message):
        class_count([labels], None, clients=1, setting="data.classes")
    if classes < 10**6:
        assert class_count([labels], classes, clients=1) == classes


@pytest.mark.parametrize(
    "labels",
    [
        np.arange(100),  # 100 classes, one example each
        np.array([99]),
        np.arange(400) % 200,  # 200 classes, two examples each
        np.random.default_rng(0).integers(0, 62, 50),
        np.random.default_rng(0).integers(0, 1000, 1200),  # two thirds of 1000 classes occur
        np.random.default_rng(0).integers(0, 5000, 10_000),  # most of 5000 classes occur
    ],
)
def test_classes_are_never_taken_for_a_regression(labels: np.ndarray) -> None:
    assert class_count([labels], None, clients=1) == int(labels.max()) + 1


def test_counts_that_would_not_fit_into_memory_are_refused() -> None:
    labels = [np.array([0, 1])]
    assert class_count(labels, 2**20, clients=2**8) == 2**20
    with pytest.raises(DataError, match="got 1048577 classes and 256 clients, 2 GiB$"):
        class_count(labels, 2**20 + 1, clients=2**8)

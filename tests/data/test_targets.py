"""Targets of every task: what a federation holds, its identity, files, and what is refused."""

import copy
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedgs.clients import Clients
from fedgs.data import (
    ByColumn,
    Federation,
    File,
    Iid,
    Labelled,
    Part,
    Quantiles,
    Shards,
    describe,
    export,
    first_difference,
    open_folder,
    share_out,
    to_folder,
)
from fedgs.data.targets import as_targets, output_count
from fedgs.errors import ConfigError, DataError, GraphError
from fedgs.graph.similarity import client_features
from fedgs.registry import build

X = np.eye(4, dtype=np.float32)
OWNER = np.array(["b", "a", "b", "a"])
Y = {
    "regression": np.array([3.5, 1.0, -2.0, 0.25]),
    "multilabel": np.array([[1, 0, 1], [0, 0, 0], [1, 1, 1], [0, 1, 0]]),
    "sequence": np.array([[1, 2], [2, -1], [0, 4], [-1, 3]]),
}
TOKENS = np.array([[0, 1], [1, 0], [5, 0], [2, 3]], dtype=np.int16)


def made(task: str, **changes: object) -> Federation:
    x, y = (TOKENS if task == "sequence" else X), Y[task]
    settings = {"x": x, "y": y, "client": OWNER, "test": (x, y), "task": task, **changes}
    return Federation.from_arrays(settings.pop("x"), settings.pop("y"), **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("task", "type_", "outputs"),
    [("regression", "float32", 1), ("multilabel", "float32", 3), ("sequence", "int64", 6)],
)
def test_targets_follow_their_clients_in_one_type(task: str, type_: str, outputs: int) -> None:
    federation = made(task)
    order = [1, 3, 0, 2]  # client a has rows 1 and 3, client b rows 0 and 2
    assert federation.clients.names == ("a", "b")
    assert federation.train.y.tolist() == Y[task][order].tolist()
    assert federation.train.y.dtype == federation.test.y.dtype == type_
    assert (federation.task, federation.num_labels) == (task, outputs)
    assert federation.label_counts is None and federation.clients.label_counts is None
    if task == "sequence":
        assert federation.train.x.dtype == np.int64


def test_a_vector_of_targets_has_an_output_for_each() -> None:
    y = np.array([[1.0, 2.0]] * 4)
    assert made("regression", y=y, test=(X, y)).num_labels == 2
    # one column is one target, in the shape in which it was given
    column = made("regression", y=y[:, :1], test=(X, y[:, :1]))
    assert column.train.y.shape == (4, 1) and column.num_labels == 1


def test_tokens_of_examples_count_and_classes_gives_more() -> None:
    # the largest token is 5 among examples, the largest label 4
    assert output_count("sequence", [Y["sequence"]], [TOKENS], None, clients=2) == 6
    assert made("sequence", classes=80).num_labels == 80
    with pytest.raises(DataError, match="classes must be an integer above the largest token.* 5,"):
        made("sequence", classes=5)


def test_the_task_and_the_groups_are_part_of_the_fingerprint() -> None:
    whole = np.array([1, 0, 1, 0])
    labels = Federation.from_arrays(X, whole, client=OWNER, test=(X, whole))
    federations = [
        labels,
        made("regression"),
        made("regression", groups=["x", "x", "y", "y"]),
        made("regression", groups=["x", "y", "x", "y"]),
        made("multilabel"),
        replace(made("multilabel"), task="regression"),
    ]
    assert len({federation.fingerprint for federation in federations}) == len(federations)
    assert made("regression").fingerprint == made("regression", y=list(Y["regression"])).fingerprint


def test_the_fingerprint_of_classes_is_that_of_earlier_versions() -> None:
    federation = Federation.from_arrays(X, [0, 1, 0, 1], client=OWNER, test=(X, [0, 1, 0, 1]))
    assert federation.fingerprint[:16] == "99e45d00bfb6e220"


def test_groups_stand_for_labels() -> None:
    # groups of a's rows 1 and 3: south, north; of b's rows 0 and 2: north, north
    groups = ["north", "south", "north", "north"]
    federation = made("regression", groups=groups)
    assert federation.groups is not None
    assert federation.groups.tolist() == [1, 0, 0, 0]
    assert federation.label_counts is not None
    assert federation.label_counts.tolist() == [[1, 1], [2, 0]]
    assert client_features(federation.clients).tolist() == [[0.5, 0.5], [1.0, 0.0]]
    assert build("availability", "YMF").rates(0, federation.clients).shape == (2,)  # type: ignore[attr-defined]


def test_without_groups_what_needs_labels_names_the_setting() -> None:
    clients = made("regression").clients
    for name in ("YMF", "YC"):
        with pytest.raises(ConfigError, match=f"{name}.* data.groups gives groups instead"):
            build("availability", name).check(clients, 3)  # type: ignore[attr-defined]
    with pytest.raises(GraphError, match="data.groups gives groups instead of labels"):
        client_features(clients)


def test_quantiles_of_targets_are_groups_of_the_same_size() -> None:
    y = np.random.default_rng(0).permutation(100) / 10
    federation = Federation.from_arrays(
        np.zeros((100, 2)),
        y,
        client=np.zeros(100, dtype=int),
        test=(np.zeros((1, 2)), [0.0]),
        task="regression",
        groups=Quantiles(10),
    )
    assert federation.label_counts is not None
    assert federation.label_counts.tolist() == [[10] * 10]
    assert federation.groups is not None
    for group in range(10):  # the targets 0.0 to 9.9, ten for each integer
        mine = federation.train.y[federation.groups == group]
        assert set(np.floor(mine)) == {group}


def test_equal_targets_make_fewer_bins_without_gaps() -> None:
    y = np.array([0.0, 0.0, 0.0, 7.0])
    # the quartiles 0, 0, 1.75: a target of 0 equals two bounds and is in the upper bin
    federation = made("regression", y=y, test=(X, y), groups={"quantiles": 4})
    assert federation.groups is not None
    assert sorted(federation.groups.tolist()) == [0, 0, 0, 1]


def test_partitions_read_groups_and_some_need_none() -> None:
    x, y = np.zeros((40, 2)), np.arange(40) / 4
    source = Labelled("mine", x, y, (x, y), 1, task="regression", groups={"quantiles": 2})  # type: ignore[arg-type]
    federation = share_out(source, Shards(per_client=1), 4, validation_fraction=0.0)
    # four shards of ten examples sorted by group: two of the lower half, two of the upper one
    assert federation.label_counts is not None
    assert sorted(federation.label_counts.tolist()) == [[0, 10], [0, 10], [10, 0], [10, 0]]
    without = Labelled("mine", x, y, (x, y), 1, task="regression")
    assert share_out(without, Iid(), 4).groups is None
    by_site = share_out(without, ByColumn(column="site"), None, columns={"site": np.arange(40) % 3})
    assert len(by_site) == 3
    with pytest.raises(DataError, match="partition 'shards' needs labels or groups"):
        share_out(without, Shards(), 4)


def test_groups_of_held_out_examples_are_left_out() -> None:
    x, y = np.zeros((40, 2)), np.arange(40) / 4
    source = Labelled("mine", x, y, (x, y), 1, task="regression", groups=np.arange(40) % 3)
    federation = share_out(source, Iid(), 4, validation_fraction=0.5)
    assert federation.groups is not None and federation.train.index is not None
    assert federation.groups.tolist() == (federation.train.index % 3).tolist()


@pytest.mark.parametrize("task", list(Y))
@pytest.mark.parametrize("groups", [None, ["n", "s", "n", "n"]])
def test_files_and_folders_load_back_identically(
    task: str, groups: list[str] | None, tmp_path: Path
) -> None:
    federation = made(task, groups=groups, validation=(made(task).test.x, Y[task], OWNER))
    path = export(federation, tmp_path / "kept.npz")
    for loaded in (
        File(path=str(path)).load(),
        File(path=str(path), task=task).load(),  # type: ignore[arg-type]
        open_folder(to_folder(federation, tmp_path / "folder")),
    ):
        assert first_difference(loaded, federation) is None
        assert loaded.fingerprint == federation.fingerprint
        assert loaded.task == task
    with pytest.raises(DataError, match=f"data.task must be .* '{task}', got 'classes'"):
        File(path=str(path), task="classes").load()
    with pytest.raises(DataError, match="leave data.groups out"):
        File(path=str(path), groups="ward").load()


def test_differences_of_targets_are_named() -> None:
    base = made("regression", groups=["x", "x", "y", "y"])
    changed = Y["regression"].copy()
    changed[2] = 9
    vector = np.zeros((4, 2))
    others = {
        "label 9.0, expected -2.0": made("regression", y=changed, groups=["x", "x", "y", "y"]),
        "training example 2 has group 1": made("regression", groups=["y", "x", "y", "y"]),
        "no groups": made("regression"),
        "the task is": made("multilabel"),
        "there are 2 labels": made("regression", y=vector, test=(X, vector)),
    }
    for sentence, other in others.items():
        difference = first_difference(other, base)
        assert difference is not None and sentence.split(",")[0] in difference, difference
    one = made("regression", y=Y["regression"][:, None], test=(X, Y["regression"][:, None]))
    assert first_difference(one, made("regression")) == "targets have shape (1,), expected ()"


def test_a_file_has_targets_and_groups(tmp_path: Path) -> None:
    client = np.array([1, 0, 1, 0, -1])
    arrays = {
        "x": np.vstack([X, X[:1]]),
        "y": np.append(Y["regression"], 5.0),
        "client": client,
        "ward": np.array(["n", "s", "n", "n", "w"]),
    }
    np.savez(tmp_path / "mine.npz", **arrays)
    path = str(tmp_path / "mine.npz")
    federation = File(path=path, task="regression", groups="ward").load()
    assert federation.label_counts is not None
    assert federation.label_counts.tolist() == [[1, 1], [2, 0]]  # the test set's ward is no group
    assert (
        federation.fingerprint
        == made(
            "regression", client=client[:4], test=(X[:1], [5.0]), groups=["n", "s", "n", "n"]
        ).fingerprint
    )
    shards = File(
        path=path,
        task="regression",
        groups={"quantiles": 2},  # type: ignore[arg-type]
        partition={"name": "shards", "per_client": 1},  # type: ignore[arg-type]
        clients=2,
        validation_fraction=0.0,
    )
    shared = shards.load().label_counts
    assert shared is not None and sorted(shared.tolist()) == [[0, 2], [2, 0]]
    assert shards.model_dump(mode="json")["groups"] == {"quantiles": 2}
    np.savez(tmp_path / "mine.npz", **{**arrays, "ward": arrays["ward"][:3]})
    with pytest.raises(DataError, match="ward must have an entry for each of the 5 examples"):
        File(path=path, task="regression", groups="ward").load()


def test_the_description_says_what_is_predicted() -> None:
    lines = describe(made("regression")).lines()
    assert lines[0].endswith("test examples (4 float32), task regression with 1 target")
    assert any("data.groups gives groups instead" in line for line in lines)
    assert not any("y=" in line for line in lines)
    table = describe(made("regression")).table()
    assert table["skew"] == {"size_gini": 0.0}
    assert (table["task"], table["targets"]) == ("regression", 1)
    grouped = describe(made("multilabel", groups=["n", "s", "n", "n"]))
    assert grouped.lines()[0].endswith("task multilabel with 3 targets, 2 groups")
    assert any(line.startswith("groups          1.5 a client") for line in grouped.lines())
    assert grouped.lines()[-1] == "g=GROUP: training examples of the group."
    assert grouped.table()["clients"][0]["groups"] == [1, 1]  # type: ignore[index]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"task": "ranking"}, "task must be one of"),
        ({"groups": np.zeros(4, dtype=int)}, "label_counts must count the groups"),
        ({"groups": np.zeros(3, dtype=int)}, "groups must be 4 integers >= 0"),
        ({"groups": np.zeros(4)}, "groups must be 4 integers >= 0"),
        ({"num_labels": 2}, "must be float32 with 2 columns .* got float32 with 1"),
        (
            {"clients": Clients(("a", "b"), np.array([2, 2]), np.eye(2, dtype=np.int64))},
            "clients must not have label_counts without groups",
        ),
        (
            {"test": Part(X, np.array([0.5, np.nan, 1, 1], np.float32), np.array([0, 4]))},
            "test targets must be finite, got another one in row 1",
        ),
        ({"task": "multilabel"}, r"must have shape \(n, q\), got \(4,\)"),
    ],
)
def test_a_federation_refuses_what_does_not_fit(changes: dict[str, object], message: str) -> None:
    with pytest.raises(DataError, match=message):
        replace(made("regression"), **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (TOKENS + 3, Y["sequence"], r"training tokens must be in 0..5, got 3..8"),
        (TOKENS - 1, Y["sequence"], r"training tokens must be in 0..5, got -1..4"),
        (TOKENS, Y["sequence"] + 2, r"training labels must be in -1..5, got 1..6"),
    ],
)
def test_sequences_have_tokens_in_range(x: np.ndarray, y: np.ndarray, message: str) -> None:
    federation = made("sequence")
    part = Part(x.astype(np.int64), y, np.array([0, 2, 4]))
    with pytest.raises(DataError, match=message):
        replace(federation, train=part)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda made: pickle.loads(pickle.dumps(made))])
def test_a_copy_is_read_only_and_has_the_same_fingerprint(
    copied: Callable[[Federation], Federation],
) -> None:
    federation = made("regression", groups=OWNER, test=(X, Y["regression"], OWNER))
    other = copied(federation)
    assert other.fingerprint == federation.fingerprint
    for array in (other.groups, other.test_offsets):
        assert array is not None and not array.flags.writeable


def test_booleans_are_labels_that_hold_or_not() -> None:
    flags = Part(X, np.eye(4, 3, dtype=bool), np.array([0, 2, 4]))
    federation = replace(made("multilabel"), train=flags)
    assert federation.train.y.dtype == bool
    assert as_targets(np.eye(2, dtype=bool), "y", "multilabel").dtype == np.float32

"""LEAF-style JSON with texts as sequences, text labels, numbers to predict, own test parts."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedgs.data import Federation, Leaf, Quantiles, first_difference, write_leaf
from fedgs.data.text import check_texts, encoded
from fedgs.errors import DataError

Users = dict[str, dict[str, list[Any]]]
SPEECHES: Users = {
    "ROMEO": {"x": ["abc", "bca"], "y": ["a", "b"]},
    "JULIET": {"x": ["cab"], "y": ["d"]},
}


def write(folder: Path, train: Users, test: Users | None = None) -> str:
    for part, users in (("train", train), ("test", train if test is None else test)):
        (folder / part).mkdir(exist_ok=True)
        content = {
            "users": list(users),
            "num_samples": [len(user["y"]) for user in users.values()],
            "user_data": users,
        }
        (folder / part / "all.json").write_text(json.dumps(content))
    return str(folder)


def test_characters_are_tokens_and_the_next_one_is_the_label(tmp_path: Path) -> None:
    federation = Leaf(path=write(tmp_path, SPEECHES), task="sequence").load()
    # the vocabulary abcd in sorted order; only the last place of a text has a label
    assert federation.facts == {"vocabulary": "abcd"}
    assert federation.num_labels == 4
    assert federation.clients.names == ("ROMEO", "JULIET")
    assert federation.train.x.tolist() == [[0, 1, 2], [1, 2, 0], [2, 0, 1]]
    assert federation.train.y.tolist() == [[-1, -1, 0], [-1, -1, 1], [-1, -1, 3]]
    assert federation.train.x.dtype == federation.train.y.dtype == np.int64
    assert federation.label_counts is None


def test_each_character_may_have_its_successor_as_label(tmp_path: Path) -> None:
    federation = Leaf(path=write(tmp_path, SPEECHES), task="sequence", predict="every").load()
    assert federation.train.y.tolist() == [[1, 2, 0], [2, 0, 1], [0, 1, 3]]


def test_texts_of_unequal_length_are_padded_over_all_parts(tmp_path: Path) -> None:
    test: Users = {"ROMEO": {"x": ["abcde"], "y": ["f"]}}
    federation = Leaf(path=write(tmp_path, SPEECHES, test), task="sequence").load()
    assert federation.facts["vocabulary"] == "abcdef"
    assert federation.train.x[0].tolist() == [0, 1, 2, 0, 0]
    assert federation.train.y[0].tolist() == [-1, -1, 0, -1, -1]
    assert federation.test.y.tolist() == [[-1, -1, -1, -1, 5]]


def test_texts_may_have_a_label_for_each_character() -> None:
    texts = check_texts(["ab", "b"], ["ca", "a"], "mine")
    parts, vocabulary = encoded({"train": {"ann": texts}}, every=False)
    assert vocabulary == "abc"
    assert parts["train"]["ann"][1].tolist() == [[2, 0], [0, -1]]


def test_lists_of_tokens_are_sequences_as_they_are(tmp_path: Path) -> None:
    users: Users = {"ann": {"x": [[3, 0, 1]], "y": [[0, 1, -1]]}}
    federation = Leaf(path=write(tmp_path, users), task="sequence", classes=9).load()
    assert federation.train.x.tolist() == [[3, 0, 1]]
    assert federation.train.x.dtype == np.int64
    assert federation.train.y.tolist() == [[0, 1, -1]]
    assert federation.num_labels == 9


def test_labels_that_are_texts_are_numbered_over_all_users(tmp_path: Path) -> None:
    train: Users = {"ann": {"x": [[0.5]], "y": ["dog"]}, "ben": {"x": [[1], [2]], "y": ["cat"] * 2}}
    test: Users = {"ann": {"x": [[0.5]], "y": ["eel"]}}
    federation = Leaf(path=write(tmp_path, train, test)).load()
    assert federation.facts["label_names"] == ["cat", "dog", "eel"]
    assert federation.train.y.tolist() == [1, 0, 0]
    assert federation.test.y.tolist() == [2]
    assert federation.num_labels == 3


def test_numbers_are_targets_whose_quantiles_are_groups(tmp_path: Path) -> None:
    users: Users = {
        "ann": {"x": [[0], [1]], "y": [0.5, 7.25]},
        "ben": {"x": [[2], [3]], "y": [1.5, 9]},
    }
    path = write(tmp_path, users)
    federation = Leaf(path=path, task="regression", groups=Quantiles(2)).load()
    assert federation.train.y.tolist() == [0.5, 7.25, 1.5, 9]
    assert federation.label_counts is not None
    assert federation.label_counts.tolist() == [[1, 1], [1, 1]]
    with pytest.raises(DataError, match="data.groups must be .quantiles = k. for data 'leaf'"):
        Leaf(path=path, task="regression", groups="ward").load()


def test_users_keep_their_test_examples(tmp_path: Path) -> None:
    train: Users = {name: {"x": [[0], [1]], "y": [0, 1]} for name in ("ben", "ann", "cleo")}
    test: Users = {"ann": {"x": [[7], [8]], "y": [0, 1]}, "ben": {"x": [[9]], "y": [1]}}
    path = write(tmp_path, train, test)
    federation = Leaf(path=path, client_test=True).load()
    assert federation.clients.names == ("ben", "ann", "cleo")
    assert federation.client_test is not None
    assert federation.client_test.offsets.tolist() == [0, 1, 3, 3]
    assert federation.test.x.tolist() == [[9], [7], [8]]
    assert Leaf(path=path).load().client_test is None
    write(tmp_path, {"ann": train["ann"]}, test)
    with pytest.raises(DataError, match="each user of test/ must be one of train/, got 'ben'"):
        Leaf(path=path, client_test=True).load()


def exported(task: str) -> Federation:
    x, y = np.eye(4, dtype=np.float32), np.array([[0, 1], [1, 1], [0, 0], [1, 0]])
    targets: Any = {
        "regression": y[:, 0] + 0.25,
        "multilabel": y,
        "sequence": y,
        "classes": y[:, 0],
    }
    inputs: Any = y if task == "sequence" else x
    client = np.array(["b", "a", "b", "a"])
    return Federation.from_arrays(
        inputs,
        targets[task],
        client=client,
        test=(inputs[:3], targets[task][:3], client[:3]),
        task=task,  # type: ignore[arg-type]
        groups=None if task == "classes" else ["n", "s", "n", "n"],
    )


@pytest.mark.parametrize("task", ["classes", "regression", "multilabel", "sequence"])
def test_every_task_is_written_and_read_back(task: str, tmp_path: Path) -> None:
    federation = exported(task)
    loaded = Leaf(path=str(write_leaf(federation, tmp_path / "kept"))).load()
    assert first_difference(loaded, federation) is None
    assert loaded.fingerprint == federation.fingerprint


@pytest.mark.parametrize(
    ("user", "settings", "message"),
    [
        ({"x": ["abc", ""], "y": ["a", "b"]}, {"task": "sequence"}, "at least one character"),
        ({"x": ["abc", 7], "y": ["a", "b"]}, {"task": "sequence"}, "got 7 in row 1"),
        ({"x": ["abc"], "y": ["ab"]}, {"task": "sequence"}, "each of the 3 characters, got 'ab'"),
        ({"x": ["abc"], "y": [0]}, {"task": "sequence"}, "y must hold the next character.* got 0"),
        (
            {"x": ["abc"], "y": ["a"]},
            {},
            "x of user 'ann' must hold numbers or booleans, got texts",
        ),
        ({"x": [[0], [1]], "y": ["a", 1]}, {}, "either numbers or texts .* got 1 in row 1"),
        ({"x": [[0], [1]], "y": ["a", ""]}, {}, "texts that are not empty, got '' in row 1"),
        ({"x": [[0]], "y": [float("nan")]}, {"task": "regression"}, "must be finite, got nan"),
        ({"x": [[0, 1]], "y": [[0, 1]]}, {"task": "ranking"}, "data.task should be .classes."),
    ],
)
def test_what_is_wrong_is_one_sentence(
    tmp_path: Path, user: dict[str, list[Any]], settings: dict[str, Any], message: str
) -> None:
    path = write(tmp_path, {"ann": user})
    with pytest.raises(Exception, match=message) as refusal:
        Leaf(path=path, **settings).load()
    assert refusal.type.__name__ in ("DataError", "ConfigError")


def test_texts_beside_numbers_are_refused(tmp_path: Path) -> None:
    users: Users = {"ann": {"x": [[0]], "y": ["a"]}, "ben": {"x": [[0]], "y": [1]}}
    with pytest.raises(DataError, match="must both hold numbers or both texts"):
        Leaf(path=write(tmp_path, users)).load()


def test_lists_of_tokens_of_unequal_length_are_padded_and_masked(tmp_path: Path) -> None:
    """Within a user, between users and between the parts."""
    train: Users = {
        "a": {"x": [[1, 2], [3]], "y": [[2, 0], [1]]},
        "b": {"x": [[2, 2, 1]], "y": [[2, 1, 0]]},
        "c": {"x": [[1], [2]], "y": [[3], [0]]},
    }
    test: Users = {"a": {"x": [[1, 2, 3, 0]], "y": [[2, 3, -1, 1]]}}
    federation = Leaf(path=write(tmp_path, train, test), task="sequence").load()
    assert federation.train.x.tolist() == [
        [1, 2, 0, 0],
        [3, 0, 0, 0],
        [2, 2, 1, 0],
        [1, 0, 0, 0],
        [2, 0, 0, 0],
    ]
    assert federation.train.y.tolist() == [
        [2, 0, -1, -1],
        [1, -1, -1, -1],
        [2, 1, 0, -1],
        [3, -1, -1, -1],
        [0, -1, -1, -1],
    ]
    assert federation.test.x.tolist() == [[1, 2, 3, 0]]
    assert federation.test.y.tolist() == [[2, 3, -1, 1]]
    assert federation.train.x.dtype == federation.train.y.dtype == np.int64
    copy = Leaf(path=str(write_leaf(federation, tmp_path / "copy"))).load()
    assert first_difference(federation, copy) is None


def test_a_token_without_a_label_is_refused(tmp_path: Path) -> None:
    train: Users = {"a": {"x": [[1, 2], [3]], "y": [[2], [1]]}}
    with pytest.raises(
        DataError, match=r"a label for each token, got 2 tokens and 1 labels in row 0"
    ):
        Leaf(path=write(tmp_path, train), task="sequence").load()

"""Partitions that are given as lists of indices."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedgs.data import Federation, File, IndexLists, Labelled, describe, share_out
from fedgs.errors import ConfigError, DataError
from fedgs.registry import build, table

X, Y = np.arange(12.0).reshape(6, 2), np.arange(6) % 2


def shared(partition: IndexLists) -> Federation:
    return share_out(Labelled("mine", X, Y, (X, Y), 2), partition, None, validation_fraction=0.0)


@pytest.mark.parametrize(
    "lists",
    [
        [[5, 0], [1, 2, 3, 4]],
        [np.array([5, 0]), np.array([1, 2, 3, 4], dtype=np.uint8)],
        np.array([[0, 5, 1], [2, 3, 4]])[:, ::-1],
    ],
)
def test_each_client_gets_the_rows_of_its_list(lists: list[list[int]]) -> None:
    federation = shared(IndexLists(lists=lists))
    assert federation.clients.names == (0, 1)
    assert federation.train.index is not None
    for k, rows in enumerate(lists):
        assert federation.train.index[federation.train.rows(k)].tolist() == sorted(rows)
    assert federation.train.x.tolist() == X[federation.train.index].tolist()


def test_lists_have_names_in_their_order(tmp_path: Path) -> None:
    lists = {"ward 10": [3, 4], "ward 2": [0, 1, 2, 5]}
    federation = shared(IndexLists(lists=lists))
    assert federation.clients.names == ("ward 10", "ward 2")
    (tmp_path / "lists.json").write_text(json.dumps(lists))
    from_file = shared(IndexLists(path=str(tmp_path / "lists.json")))
    assert from_file.fingerprint == federation.fingerprint
    assert federation.facts["partition"] == {"name": "index_lists", "lists": 2, "named": True}


def test_examples_in_no_list_are_left_out_where_asked() -> None:
    partition = IndexLists(lists=[[5], [2, 3]], rest="leave_out")
    federation = shared(partition)
    assert federation.clients.data_sizes.tolist() == [1, 2]
    assert federation.facts["unassigned"] == 3
    text = "\n".join(describe(federation).lines())
    assert "unassigned      3 examples belong to no client" in text
    with pytest.raises(DataError, match="got 3 in no list, the first is 0"):
        shared(IndexLists(lists=[[5], [2, 3]]))


def test_lists_are_a_table_and_back_and_a_setting_of_a_file(tmp_path: Path) -> None:
    partition = IndexLists(lists=[np.array([1, 0, 3]), [2]])
    assert build("partition", table(partition)) == partition
    np.savez(tmp_path / "mine.npz", x=X, y=Y, client=[0, 0, 0, 0, -1, -1])
    file = File(path=str(tmp_path / "mine.npz"), partition=partition, validation_fraction=0.0)
    assert file.load().clients.data_sizes.tolist() == [3, 1]


def test_an_empty_list_is_a_client_without_examples() -> None:
    with pytest.raises(DataError, match="client 1 has no training example"):
        shared(IndexLists(lists=[list(range(6)), []]))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "must have either lists or path, got none"),
        ({"lists": [[0]], "path": "x.json"}, "must have either lists or path, got both"),
        ({"lists": [[[0]]]}, r"integers in the list of client 0, got int64 of shape \(1, 1\)"),
        ({"lists": {"ann": ["0"]}}, "integers in the list of client ann, got <U1"),
        ({"lists": {1: [0], "1": [1]}}, "one list for each name, got '1' twice"),
        ({"lists": "all"}, "must be a list of indices for each client"),
    ],
)
def test_other_lists_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises((ConfigError, DataError), match=message):
        shared(IndexLists(**settings))  # type: ignore[arg-type]


def test_a_file_that_holds_no_lists_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read: No such file"):
        shared(IndexLists(path=str(tmp_path / "none.json")))
    (tmp_path / "lists.json").write_text("[[0, 1")
    with pytest.raises(DataError, match="is not readable as JSON"):
        shared(IndexLists(path=str(tmp_path / "lists.json")))
    (tmp_path / "lists.json").write_text("7")
    with pytest.raises(DataError, match="must be a list of indices for each client.* got int"):
        shared(IndexLists(path=str(tmp_path / "lists.json")))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": [0, 1, 2], "a": [3, 4], "b": [5]}', "one list for each name, got 'a' twice"),
        ('{"a": [0, 1, 2], "\\u0061": [3, 4], "b": [5]}', "one list for each name, got 'a' twice"),
        ("[" * 100_000 + "]" * 100_000, "is not readable as JSON: it is nested too deeply"),
        ('{"a":' * 100_000 + "1" + "}" * 100_000, "JSON: it is nested too deeply"),
    ],
)
def test_a_file_with_a_name_twice_or_nested_too_deeply_is_refused(
    tmp_path: Path, text: str, message: str
) -> None:
    path = tmp_path / "lists.json"
    path.write_text(text)
    for rest in ("refuse", "leave_out"):
        with pytest.raises(DataError, match=message):
            shared(IndexLists(path=str(path), rest=rest))


@pytest.mark.parametrize("partition", ["index_lists", "by_column"])
def test_another_number_of_clients_than_the_partition_gives_is_refused(
    tmp_path: Path, partition: str
) -> None:
    path = tmp_path / "mine.npz"
    x = np.zeros((6, 2), dtype=np.float32)
    np.savez(path, x=x, y=[0, 1] * 3, split=[0, 0, 0, 0, 2, 2], ward=list("aabbab"))
    settings: dict[str, Any] = {"name": partition}
    settings |= {"lists": [[0, 1], [2, 3]]} if partition == "index_lists" else {"column": "ward"}
    message = f"clients = 7 contradicts partition '{partition}', which gives 2 clients; leave it"
    for clients in ({}, {"clients": 2}, {"clients": 30}):  # 30 is the default
        file = File(path=str(path), partition=settings, validation_fraction=0.0, **clients)
        assert len(file.load()) == 2
    with pytest.raises(DataError, match=message):
        File(path=str(path), partition=settings, validation_fraction=0.0, clients=7).load()
    if partition == "index_lists":
        dataset = [(row, k % 2) for k, row in enumerate(x)]
        with pytest.raises(DataError, match="clients = 7 contradicts partition 'index_lists'"):
            Federation.from_dataset(dataset[:4], partition=settings, clients=7, test=dataset)

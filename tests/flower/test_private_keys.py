"""Keys of nodes: kept in a file, pinned by the operator, or trusted on first use."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr")
pytest.importorskip("cryptography")

from tests.flower.private_nodes import nodes, session, shares

from fedgs.errors import ConfigError, OutputError
from fedgs.flower.private.keys import check_keys, fingerprint, kept_key, read_pins
from fedgs.secure.channel import KeyPair

CLIENTS = 4
COUNTS = shares(CLIENTS)


def with_files(world: Any, folder: Path, *, pins: dict[str, str] | None = None) -> Any:
    """Nodes with a key file each, and a file of pins if there are some."""
    lines = [f"{value} {name}" for name, value in (pins or {}).items()]
    (folder / "pins").write_text("\n".join(["# fingerprints", "", *lines]))
    more = {} if pins is None else {"pins-file": str(folder / "pins")}

    def config(key: str) -> dict[str, Any]:
        return {"client-id": key, "key-file": str(folder / f"{key}.key"), **more}

    return nodes(world, COUNTS, node_config=config)


def pinned(folder: Path, clients: int = CLIENTS) -> dict[str, str]:
    """The fingerprints that the operator collects before the start."""
    names = [f"site-{k}" for k in range(clients)]
    return {name: fingerprint(kept_key(folder / f"{name}.key").public) for name in names}


def known(products: np.ndarray) -> list[int]:
    """The clients with at least one product."""
    return np.flatnonzero(~np.isnan(products).all(axis=1)).tolist()


def test_a_key_file_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "site.key"
    first = kept_key(path)
    assert kept_key(path).public == first.public
    assert path.stat().st_mode & 0o777 == 0o600
    assert [entry.name for entry in path.parent.iterdir()] == ["site.key"]


def test_the_command_prints_the_fingerprint(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "fedgs.flower.private.keys", str(tmp_path / "a.key")]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert printed.stdout.strip() == fingerprint(kept_key(tmp_path / "a.key").public)


@pytest.mark.parametrize("text", ["", "zz", "ab" * 31, "ab" * 33])
def test_a_file_that_holds_no_key_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "bad").write_text(text)
    with pytest.raises(ConfigError, match="key-file must hold a private key of 64 hexadecimal"):
        kept_key(tmp_path / "bad")


def test_a_key_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="key-file must be a file with a private key, got"):
        kept_key(tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("abc site-0", "in each line, got line 1"),
        ("# fine\n" + "a" * 64, "in each line, got line 2"),
        (f"{'a' * 64} x\n{'b' * 64} x", "must name a client key once, got 'x' twice"),
    ],
)
def test_bad_pins_are_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "pins").write_text(text)
    with pytest.raises(ConfigError, match=message):
        read_pins(tmp_path / "pins")


def test_pins_of_names_with_spaces_and_capital_digits(tmp_path: Path) -> None:
    (tmp_path / "pins").write_text(f"{'AB' * 32}  site one \n")
    assert read_pins(tmp_path / "pins") == {"site one": "ab" * 32}
    with pytest.raises(ConfigError, match="pins-file must be a readable file"):
        read_pins(tmp_path / "none")


def test_a_pin_comes_before_what_was_seen() -> None:
    public = KeyPair.generate().public
    pins, seen = {"a": fingerprint(public)}, {"a": "0" * 64}
    assert check_keys({"a": public}, pins=pins, seen=seen) == {}
    assert check_keys({"a": public}, pins=None, seen=seen) != {}


def test_pinned_nodes_compute_the_products(world: Any, tmp_path: Path) -> None:
    found, events = session(with_files(world, tmp_path, pins=pinned(tmp_path)), CLIENTS)
    assert events == []
    assert known(found) == [0, 1, 2, 3]


def test_a_swapped_key_is_named_by_every_pinned_node(world: Any, tmp_path: Path) -> None:
    grid = with_files(world, tmp_path, pins=pinned(tmp_path))
    # The server answers for site-3 with a key of its own.
    own = KeyPair.generate()
    grid.bend = lambda phase, node, entries: (
        {**entries, "public": own.public} if (phase, node) == ("keys", 103) else entries
    )
    found, events = session(grid, CLIENTS)
    assert known(found) == [0, 1, 2]
    refusals = {event["client"]: event for event in events if "accused" in event}
    assert set(refusals) == {"site-0", "site-1", "site-2"}
    for event in refusals.values():
        assert event["accused"] == ["site-3"]
        assert "client 'site-3': its key is not the pinned one" in event["detail"]


def test_an_invented_client_is_named_by_every_pinned_node(world: Any, tmp_path: Path) -> None:
    grid = with_files(world, tmp_path, pins=pinned(tmp_path, clients=3))
    found, events = session(grid, CLIENTS)
    assert known(found) == [0, 1, 2]
    details = [event["detail"] for event in events if event["client"] != "site-3"]
    assert len(details) == 3
    assert all("client 'site-3': its key is not pinned" in detail for detail in details)


def test_a_restarted_node_with_a_key_file_is_accepted(world: Any, tmp_path: Path) -> None:
    grid = with_files(world, tmp_path)
    session(grid, CLIENTS)
    grid.restart(102)
    found, events = session(grid, CLIENTS)
    assert events == []
    assert known(found) == [0, 1, 2, 3]


def test_without_files_a_changed_key_is_refused_and_a_first_one_is_not(world: Any) -> None:
    grid = nodes(world, COUNTS)
    session(grid, CLIENTS)
    grid.restart(102)
    found, events = session(grid, CLIENTS)
    assert known(found) == [0, 1, 3]
    assert {event["client"] for event in events} == {"site-0", "site-1", "site-3"}


def test_a_pins_file_that_is_missing_costs_its_own_node(world: Any, tmp_path: Path) -> None:
    def config(key: str) -> dict[str, Any]:
        missing = {"pins-file": str(tmp_path / "none")} if key == "site-1" else {}
        return {"client-id": key, **missing}

    found, events = session(nodes(world, COUNTS, node_config=config), CLIENTS)
    assert known(found) == [0, 2, 3]
    (event,) = events
    assert event["client"] == "site-1"
    assert "pins-file must be a readable file" in event["detail"]


def test_an_accusation_of_all_others_leaves_the_accuser_out(world: Any) -> None:
    grid = nodes(world, COUNTS)
    lie = {"refused": "they are bad", "accused": ["site-0", "site-2", "site-3", "nobody"]}
    grid.bend = lambda phase, node, entries: lie if node == 101 else entries
    found, _ = session(grid, CLIENTS)
    assert known(found) == [0, 2, 3]


def test_an_error_of_the_clients_function_says_nothing_of_the_data(world: Any) -> None:
    from flwr.clientapp import ClientApp

    from fedgs.flower import describe_privately

    def counts(context: Any) -> Any:
        if context.node_config["client-id"] == "site-2":
            raise ValueError("17 patients with label 3")
        return COUNTS[0]

    grid = nodes(world, COUNTS)
    grid.app = ClientApp()
    describe_privately(grid.app, label_counts=counts)
    found, events = session(grid, CLIENTS)
    assert known(found) == [0, 1, 3]
    (event,) = events
    assert event["detail"] == "it refused a message: the client's function failed: ValueError"

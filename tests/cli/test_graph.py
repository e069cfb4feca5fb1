"""`fedgs graph` as a user meets it."""

from pathlib import Path

import numpy as np
import pytest
from tests.commands import fedgs

from fedgs.cli.graph import graph
from fedgs.errors import ConfigError
from fedgs.graph.recovery import components, density
from fedgs.plurals import counted

SMALL = ["--set", "data.clients=6", "--set", "training.local_steps=2"]


@pytest.mark.parametrize("similarity", ["private", "functional"])
def test_a_graph_is_described_and_written_so_that_it_can_be_used(
    similarity: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    done = fedgs(tmp_path, "graph", *SMALL, "--similarity", similarity, "--table", "--out", "g.npz")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == f"Synthetic(0.5, 0.5), 6 clients: graph of {similarity}"
    with np.load(tmp_path / "g.npz") as stored:
        assert sorted(stored.files) == ["adjacency", "distance", "similarity"]
        adjacency = stored["adjacency"]
    parts = counted(components(adjacency), "connected part")
    share = f"{density(adjacency):.0%}".replace("%", " %")
    edges = round(density(adjacency) * 15)
    assert lines[1].startswith(
        f"  edges:  {edges} of 15 pairs of clients ({share}), {parts}; made in "
    )
    assert lines[2].startswith("  effect: ")
    epsilons = [line.split()[0] for line in lines if line[:1] == "0"]
    assert epsilons == ["0", "0.01", "0.05", "0.1", "0.5"]
    assert any(line.startswith("target density 1/3: ") for line in lines)
    # Four exchanges; every client answers in each of them: keys, masks, corrections or u, v_1.
    assert ("cost:   4 exchanges, " in done.stdout) == (similarity == "private")
    if similarity == "private":
        # Off-diagonal rescaling and epsilon .1 are the settings: these are the oracle's edges.
        (row,) = [line for line in lines if line.startswith("0.1 ")]
        assert "1.000 (1.000, 1.000)" in row
        assert lines[3].startswith(
            "  oracle: 100 % of its edges are in the graph, 100 % of the graph's in it: "
        )
    graph(set_=["data.clients=6", f"method.graph.path={tmp_path / 'g.npz'}"])
    described = capsys.readouterr().out
    assert f"graph of {tmp_path / 'g.npz'}\n{lines[1].rpartition(';')[0]}" in described
    assert "recall" not in described


def test_bad_input_is_one_sentence(tmp_path: Path) -> None:
    done = fedgs(tmp_path, "graph", *SMALL, "--similarity", "cosine")
    assert (done.returncode, done.stdout) == (2, "")
    assert (
        done.stderr
        == "fedgs: --similarity must be one of oracle, private, update, functional; got 'cosine'\n"
    )


@pytest.mark.parametrize(
    ("settings", "similarity", "out", "message"),
    [
        ([], None, "g.csv", r"^--out must be an \.npz in a folder that exists, got '.*g\.csv'$"),
        (
            [],
            None,
            "no/g.npz",
            r"^--out must be an \.npz in a folder that exists, got '.*no/g\.npz'$",
        ),
        (
            ["method.graph.start=seen"],
            None,
            "g.npz",
            r"^method\.graph\.start must be 'all' for a graph before round 0, got 'seen'$",
        ),
        (
            ["method.graph.path=no.npz"],
            None,
            "g.npz",
            r"^method\.graph\.path must be a file, got 'no\.npz', which does not exist$",
        ),
        (
            ["method.graph.layer=head"],
            "functional",
            "g.npz",
            r"^method\.graph\.layer must be one of the model's layers \(.*\), got 'head'$",
        ),
        (
            ["method.graph.preset=authors"],
            "private",
            "g.npz",
            "^method.graph.normalize_by_norm = True needs every client's own product",
        ),
    ],
)
def test_bad_input_is_refused_before_anything_is_written(
    settings: list[str], similarity: str | None, out: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=message):
        graph(set_=["data.clients=6", *settings], similarity=similarity, out=tmp_path / out)
    assert list(tmp_path.iterdir()) == []


def test_a_method_without_a_graph_gets_one(capsys: pytest.CaptureFixture[str]) -> None:
    graph(set_=["data.clients=4", "method=uniform"])
    out = capsys.readouterr().out
    assert out.startswith("Synthetic(0.5, 0.5), 4 clients: graph of oracle\n  edges: ")
    assert out.count("\n") == 3 and "oracle: " not in out  # no comparison with itself

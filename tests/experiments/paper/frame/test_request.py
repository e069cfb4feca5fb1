"""Requests from the options of a command line."""

from collections.abc import Callable
from pathlib import Path

import pytest

from fedgs.errors import ConfigError, OutputError
from fedgs.experiments.paper.frame.request import (
    ExperimentRequest,
    Mode,
    Options,
    Source,
    parse_data,
    parse_modes,
    parse_seeds,
)


def test_options_become_a_request(toy_file: Path) -> None:
    options = Options(
        data=["synthetic", f"cifar10,{toy_file}"],
        modes=["LDF", "ln 0.3"],
        methods=["uniform, fedgs-1"],
        rounds=5,
        seeds="0,7",
        scale="paper",
        ours=True,
        workers=3,
        set=["data.seed=1", "training.mu=0.1"],
    )
    request = ExperimentRequest.of("table2", options)
    assert request == ExperimentRequest(
        "table2",
        (Source("synthetic"), Source("cifar10"), Source("toy", str(toy_file))),
        (Mode("LDF"), Mode("LN", 0.3)),
        ("uniform", "fedgs-1"),
        5,
        (0, 7),
        "paper",
        True,
        (("data.seed", 1), ("training.mu", 0.1)),
    )
    assert options.given == [
        "data",
        "modes",
        "methods",
        "rounds",
        "seeds",
        "scale",
        "ours",
        "workers",
        "set",
    ]


def test_no_options_are_the_defaults() -> None:
    assert ExperimentRequest.of("fig4", Options()) == ExperimentRequest("fig4")
    assert Options().given == []


def test_a_data_file_is_found_in_the_data_folder(toy_file: Path) -> None:
    options = Options(data=[toy_file.name])
    assert ExperimentRequest.of("table2", options, data_dir=toy_file.parent).data == (
        Source("toy", toy_file.name),
    )
    with pytest.raises(ConfigError, match=f"there is no file '{toy_file.name}'"):
        ExperimentRequest.of("table2", options)


@pytest.mark.parametrize(
    ("parse", "message"),
    [
        (
            lambda: parse_modes(["LFD"]),
            r"--modes must be of IDL, .*; got 'LFD'; did you mean 'LDF'\?",
        ),
        (lambda: parse_modes(["IDL0.5"]), "IDL has no beta"),
        (
            lambda: parse_data(["cifar"]),
            r"--data must be .*; got 'cifar'; did you mean 'cifar10'\?",
        ),
        (lambda: parse_data(["nowhere.npz"]), "there is no file 'nowhere.npz'"),
        (lambda: parse_data(["synthetic,synthetic"]), "--data names 'synthetic' twice"),
        (lambda: parse_seeds("none"), "--seeds must be how many"),
        (lambda: parse_seeds("0"), "--seeds must be how many"),
        (
            lambda: ExperimentRequest.of("table2", Options(set=["nonsense"])),
            "--set takes KEY=VALUE",
        ),
    ],
)
def test_what_cannot_be_parsed_is_one_sentence(parse: Callable[[], object], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        parse()
    assert "\n" not in str(caught.value)


def test_a_file_may_not_have_the_name_of_a_data_set(tmp_path: Path) -> None:
    (tmp_path / "cifar10.npz").write_bytes(b"")
    with pytest.raises(ConfigError, match="'cifar10' is the name of a data set"):
        parse_data([str(tmp_path / "cifar10.npz")])


@pytest.mark.parametrize("stored", [{}, {"data": 3}, {"data": [{"nobody": 1}]}, [1]])
def test_tables_that_are_no_request_are_refused(stored: object) -> None:
    with pytest.raises(OutputError, match="not the request of an experiment"):
        ExperimentRequest.from_json(stored)  # type: ignore[arg-type]


def test_sources_know_which_figures_are_comparable() -> None:
    assert Source("cifar10").paper_block(7) == "cifar10"
    assert Source("mine", "mine.npz").paper_block(30) == "synthetic"
    assert Source("mine", "mine.npz").paper_block(31) is None

"""Requests from the options of a command line."""

from pathlib import Path

import pytest

from fedgs.errors import ConfigError, OutputError
from fedgs.experiments.paper.frame.conditions import Mode, Source
from fedgs.experiments.paper.frame.request import ExperimentRequest, Options


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
    ("options", "message"),
    [
        (Options(seeds="none"), "--seeds must be how many"),
        (Options(seeds="0"), "--seeds must be how many"),
        (Options(set=["nonsense"]), "--set takes KEY=VALUE"),
    ],
)
def test_an_option_that_cannot_be_parsed_is_one_sentence(options: Options, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        ExperimentRequest.of("table2", options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("stored", [{}, {"data": 3}, {"data": [{"nobody": 1}]}, [1]])
def test_tables_that_are_no_request_are_refused(stored: object) -> None:
    with pytest.raises(OutputError, match="not the request of an experiment"):
        ExperimentRequest.from_json(stored)  # type: ignore[arg-type]

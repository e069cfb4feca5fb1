"""Federations and availability modes as the user names them."""

from collections.abc import Callable
from pathlib import Path

import pytest

from fedgs.errors import ConfigError
from fedgs.experiments.paper.frame.conditions import Source, parse_data, parse_modes
from fedgs.experiments.paper.frame.request import Options
from fedgs.experiments.paper.frame.run import requested


@pytest.mark.parametrize(
    ("parse", "message"),
    [
        (
            lambda: parse_modes(["LFD"]),
            r"--modes must be of IDL, .*; got 'LFD'; did you mean 'LDF'\?",
        ),
        (lambda: parse_modes(["IDL0.5"]), "IDL has no beta"),
        (
            lambda: parse_modes(["markow"]),
            r"--modes must be of IDL, .*; got 'markow'; did you mean 'markov'\?",
        ),
        (lambda: parse_modes(["file"]), "--modes must be of IDL, .*; got 'file'"),
        (
            lambda: requested("table2", Options(modes=["LDF,sine"])),
            "--modes must be of IDL, .* for table2, whose figures are the paper's; got 'sine'",
        ),
        (
            lambda: parse_data(["cifar"]),
            r"--data must be .*; got 'cifar'; did you mean 'cifar10'\?",
        ),
        (lambda: parse_data(["nowhere.npz"]), "there is no file 'nowhere.npz'"),
        (lambda: parse_data(["synthetic,synthetic"]), "--data names 'synthetic' twice"),
    ],
)
def test_an_unknown_federation_or_mode_is_one_sentence(
    parse: Callable[[], object], message: str
) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        parse()
    assert "\n" not in str(caught.value)


def test_a_file_may_not_have_the_name_of_a_data_set(tmp_path: Path) -> None:
    (tmp_path / "cifar10.npz").write_bytes(b"")
    with pytest.raises(ConfigError, match="'cifar10' is the name of a data set"):
        parse_data([str(tmp_path / "cifar10.npz")])


def test_sources_know_which_figures_are_comparable() -> None:
    assert Source("cifar10").paper_block(7) == "cifar10"
    assert Source("mine", "mine.npz").paper_block(30) == "synthetic"
    assert Source("mine", "mine.npz").paper_block(31) is None

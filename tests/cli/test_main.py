"""The `fedgs` command as a whole."""

from pathlib import Path

from tests.cli.test_run import fedgs

from fedgs import __version__


def test_help_lists_the_commands(tmp_path: Path) -> None:
    done = fedgs(tmp_path, "--help")
    assert done.returncode == 0
    for command in ("run", "table", "config", "data", "report", "bench", "graph", "reproduce"):
        assert command in done.stdout


def test_version_is_printed_without_a_command(tmp_path: Path) -> None:
    done = fedgs(tmp_path, "--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"fedgs {__version__}\n", "")

"""Exit codes, signals and the next command."""

import errno
import io
import signal

import pytest
from rich.console import Console

from fedgs.cli.common import Terminated, exit_codes, line_width, terminated_like_interrupted
from fedgs.errors import ConfigError, WorkerError


def raised(error: BaseException) -> object:
    """The exit code of a block that raises the error."""
    with pytest.raises(SystemExit) as ended, exit_codes():
        raise error
    return ended.value.code


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (ConfigError("rounds must be >= 1"), 2, "fedgs: rounds must be >= 1\n"),
        (WorkerError("a worker ended"), 1, "fedgs: a worker ended\n"),
        (
            ModuleNotFoundError("No module named 'torch'", name="torch"),
            2,
            "fedgs: this needs 'torch', which is not installed: pip install 'fedgs[sim]'\n",
        ),
        (KeyboardInterrupt(), 130, "fedgs: interrupted\n"),
        (
            KeyboardInterrupt("stored"),
            130,
            "fedgs: interrupted; the same command resumes where this one stopped\n",
        ),
        (Terminated(signal.SIGTERM), 143, "fedgs: terminated\n"),
        (BrokenPipeError(), 0, ""),
        (
            OSError(errno.ENOSPC, "No space left on device", "out/rounds.jsonl"),
            1,
            "fedgs: No space left on device (out/rounds.jsonl)\n",
        ),
        (OSError("odd"), 1, "fedgs: odd\n"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_an_error_is_one_sentence_and_an_exit_code(
    error: BaseException, code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert raised(error) == code
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", message)


def test_a_missing_module_of_the_user_is_shown_with_its_traceback() -> None:
    with pytest.raises(ModuleNotFoundError, match="mine"), exit_codes():
        raise ModuleNotFoundError("No module named 'mine'", name="mine")


def test_sigterm_raises_terminated_within_the_block_alone() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(Terminated) as ended, terminated_like_interrupted():
        signal.raise_signal(signal.SIGTERM)
    assert ended.value.signal == signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) == before == signal.SIG_DFL


def test_a_signal_that_is_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with terminated_like_interrupted():
            assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_tables_fit_a_terminal_and_are_whole_elsewhere() -> None:
    assert line_width(Console(file=io.StringIO(), force_terminal=True, width=80)) == 80
    assert line_width(Console(file=io.StringIO(), width=80)) is None

"""Errors: which ones pass through user code unchanged, and which frames a traceback shows."""

import pytest

from fedgs.errors import (
    ConfigError,
    DataError,
    RunError,
    missing_extra,
    own_traceback,
    shown,
    user_code,
)
from fedgs.registry import build


def test_errors_of_the_package_show_no_frames_of_it() -> None:
    with pytest.raises(ConfigError) as raised:
        build("method", 5)
    outside = raised.value.__traceback__
    raised.value.__traceback__ = outside.tb_next if outside else None
    assert own_traceback(raised.value).startswith("fedgs.errors.ConfigError: ")


def test_a_lack_of_memory_is_no_mistake_of_the_user() -> None:
    with pytest.raises(MemoryError), user_code("model"):
        raise MemoryError


def test_errors_of_the_package_pass_through_user_code() -> None:
    with pytest.raises(DataError, match="^no rows$"), user_code("model"):
        raise DataError("no rows")


def test_a_missing_extra_passes_through_user_code_and_another_module_does_not() -> None:
    with pytest.raises(ModuleNotFoundError), user_code("model"):
        raise ModuleNotFoundError("No module named 'torch'", name="torch")
    with (
        pytest.raises(ConfigError, match="^model raised ModuleNotFoundError: No module"),
        user_code("model"),
    ):
        raise ModuleNotFoundError("No module named 'elsewhere'", name="elsewhere")


def test_the_message_ends_with_the_frames_of_the_users_code() -> None:
    with pytest.raises(ConfigError) as raised, user_code("model"):
        raise ZeroDivisionError("by zero")
    lines = str(raised.value).splitlines()
    assert lines[0] == "model raised ZeroDivisionError: by zero"
    assert lines[1] == "Traceback (most recent call last):" and __file__ in lines[2]
    assert lines[-1] == "ZeroDivisionError: by zero"


def test_a_syntax_error_is_shown_without_frames() -> None:
    with pytest.raises(ConfigError) as raised, user_code("--plugin 'x.py'"):
        compile("def (", "x.py", "exec")
    assert "SyntaxError" in str(raised.value)


def test_an_error_without_frames_of_the_users_shows_all_frames() -> None:
    assert own_traceback(RunError("stopped")) == "fedgs.errors.RunError: stopped\n"
    assert own_traceback(KeyError("gone")) == (
        "Traceback (most recent call last):\nKeyError: 'gone'\n"
    )


def test_modules_without_an_extra_have_no_message() -> None:
    assert (
        missing_extra(ModuleNotFoundError("No module named 'elsewhere'", name="elsewhere")) is None
    )
    assert missing_extra(ModuleNotFoundError("")) is None


def test_values_in_messages_are_one_line_of_limited_length() -> None:
    assert shown("a\nb", limit=7) == "'a\\nb'"
    assert len(shown(list(range(1000)))) == 100

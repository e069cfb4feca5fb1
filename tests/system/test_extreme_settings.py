"""Every setting of `[system]` with values that nobody means: one sentence, or rounds that end."""

import math
import warnings

import numpy as np
import pytest

from fedgs.availability import Ideal
from fedgs.clients import Clients
from fedgs.errors import UserError
from fedgs.system import SystemTime
from fedgs.system_settings import System

VALUES: list[object] = [
    *(-1, 0, 1, 2, 10**9, 2**31, 2**62, 2**63, 10**30, True, None),
    *(-0.0, 5e-324, 1e-300, 1e-12, 0.5, 2.5, 10.0, 1e8, 1e308, math.inf, -math.inf, math.nan),
    *("", "x", ".", "\0", "\0.csv", "a" * 300 + ".csv", "lost", "simulated", [], [0.5, "x"], {}),
]


def outcome(settings: dict[str, object]) -> str:
    """The sentence that refuses a table; empty where rounds take their time."""
    clients = Clients(tuple("abcdef"), np.array([1, 7, 7, 30, 2, 9]))
    try:
        time = SystemTime(System(**settings), clients, Ideal(), 2, np.full(6, 20.0))
        time.check_durations(610)
        for t in (0, 5):
            played = time.play(t, 3.0 * t, np.array([0, 2, 5]), 610)
            assert math.isfinite(played.seconds) and played.seconds >= 0
            assert np.isfinite(played.worked).all() and set(played.fates) <= {
                "answered", "late", "failed",
            }  # fmt: skip
    except UserError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("key", System.model_fields)
def test_any_value_of_any_setting_is_one_sentence_or_works(key: str) -> None:
    for value in VALUES:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = outcome({key: value})
        assert "\n" not in found and len(found) < 700, value

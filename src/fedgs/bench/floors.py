"""The loop engine against a bare PyTorch loop, in processor time of one thread.

Both make the same steps, and they take turns. Other programs hardly change processor time, so that
the ratio can be measured on a machine that is in use.
"""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from fedgs.bench.engines import (
    SETTINGS,
    Setting,
    answered,
    bare_loop,
    random_work,
    training_requests,
)
from fedgs.errors import ConfigError
from fedgs.local.loop import LoopEngine
from fedgs.local.parameters import initial_parameters
from fedgs.local.threads import threads_of
from fedgs.models import LSTM, ResNet8
from fedgs.suggestions import nearest

__all__ = ["FLOOR_SETTINGS", "TARGET", "AboveFloor", "in_turns", "measure_floor"]

TARGET = 1.15  # the most that a round may take, as a multiple of the bare loop

FLOOR_SETTINGS = {
    **SETTINGS,
    "resnet8": Setting(
        ResNet8(), (100,) * 10, (3, 32, 32), 2, 32, 0.03, 20, grid_runs=1, local_steps=5
    ),
    "lstm": Setting(
        LSTM(), (50,) * 10, (80,), 2, 10, 0.5, 20, 1, local_steps=2, labels=80, task="sequence"
    ),
}


@dataclass(frozen=True)
class AboveFloor:
    """What was measured.

    Attributes:
        setting: its name.
        round_seconds: processor time of a round of the loop engine, the median.
        floor_seconds: of a bare loop over the same number of steps, the median.
        ratio: of the two in one turn, the median.
    """

    setting: str
    round_seconds: float
    floor_seconds: float
    ratio: float

    @property
    def misses(self) -> bool:
        """Whether the ratio is above the target."""
        return self.ratio > TARGET


def measure_floor(name: str, *, repeats: int = 5) -> AboveFloor:
    """Time a round of the loop engine and the bare loop in turns, in one thread.

    Args:
        name: a key of `FLOOR_SETTINGS`.
        repeats: how many turns, >= 1.

    Raises:
        ConfigError: no such setting.
    """
    if name not in FLOOR_SETTINGS:
        known = ", ".join(FLOOR_SETTINGS)
        raise ConfigError(
            f"setting must be one of {known}; got {name!r}{nearest(name, FLOOR_SETTINGS)}"
        )
    setting, cpu = FLOOR_SETTINGS[name], torch.device("cpu")
    with threads_of(1):
        work, engine = random_work(setting, "float32"), LoopEngine()
        theta = initial_parameters(work.model, work.federation, 0)
        requests = training_requests(setting, work, theta, 1)
        floor = bare_loop(setting, work, cpu)
        own, bare, ratio = in_turns(lambda: answered(engine, requests), floor, repeats)
    return AboveFloor(name, own, bare, ratio)


def in_turns(
    job: Callable[[], object], reference: Callable[[], object], repeats: int
) -> tuple[float, float, float]:
    """The median processor seconds of a job and of a reference, and the median ratio of a turn.

    Each is called once before, to warm up. The reference is first in every other turn.

    >>> job, reference, ratio = in_turns(lambda: sum(range(9999)), lambda: sum(range(9999)), 3)
    >>> job > 0 and reference > 0 and ratio > 0
    True
    """
    for call in (job, reference):
        call()
    turns = []
    for turn in range(repeats):
        order = (reference, job) if turn % 2 else (job, reference)
        taken = {call: _seconds(call) for call in order}
        turns.append((taken[job], taken[reference]))
    return (
        statistics.median(own for own, _ in turns),
        statistics.median(other for _, other in turns),
        statistics.median(own / other for own, other in turns),
    )


def _seconds(call: Callable[[], object]) -> float:
    started = time.process_time()
    call()
    return time.process_time() - started

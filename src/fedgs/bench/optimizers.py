"""The cost of an optimiser's steps in the stacked engine, compared with plain SGD."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

from fedgs.bench.engines import SETTINGS, answered, random_work, training_requests
from fedgs.bench.floors import in_turns
from fedgs.local import StackedEngine
from fedgs.local.parameters import initial_parameters
from fedgs.local.threads import threads_of
from fedgs.models import MLP, LogisticRegression, Model
from fedgs.optimizers import SGD, Adam, Optimizer

__all__ = ["OPTIMIZERS", "TARGET", "MeasuredOptimizer", "measure_optimizers"]

TARGET = 1.1  # the most that steps of SGD may take, as a multiple of plain ones

_MODELS: Mapping[str, tuple[Model, int]] = {  # with the runs that are trained together
    "logistic": (LogisticRegression(), 50),
    "mlp, 64 units": (MLP(hidden=(64,)), 4),
    "mlp, 2x200 units": (MLP(hidden=(200, 200)), 2),
}
# Title -> the optimiser, and whether it has the target.
OPTIMIZERS: Mapping[str, tuple[Optimizer, bool]] = {
    "weight decay": (SGD(weight_decay=1e-3), True),
    "momentum": (SGD(momentum=0.9), True),
    "momentum, weight decay": (SGD(momentum=0.9, weight_decay=1e-3), True),
    "Nesterov": (SGD(momentum=0.9, nesterov=True), True),
    "Nesterov, weight decay": (SGD(momentum=0.9, nesterov=True, weight_decay=1e-3), True),
    "Adam": (Adam(), False),
}


@dataclass(frozen=True)
class MeasuredOptimizer:
    """What was measured of a model and an optimiser; seconds are medians of processor time.

    Attributes:
        model: its title.
        optimizer: its title.
        plain_seconds: a round with plain SGD.
        seconds: a round with the optimiser.
        ratio: of the two in one turn, the median.
        has_target: whether the ratio should be at most `TARGET`.
    """

    model: str
    optimizer: str
    plain_seconds: float
    seconds: float
    ratio: float
    has_target: bool

    @property
    def misses(self) -> bool:
        """Whether the ratio is above the target."""
        return self.has_target and self.ratio > TARGET


def measure_optimizers(
    models: Mapping[str, tuple[Model, int]] = _MODELS, *, repeats: int = 5
) -> Iterator[MeasuredOptimizer]:
    """Time a round with each optimiser and one with plain SGD in turns, in one thread.

    The shapes are those of the setting `synthetic`.

    Args:
        models: title -> the model and the number of runs that are trained together.
        repeats: how many turns, >= 1.
    """
    with threads_of(1):
        for title, (model, runs) in models.items():
            setting = replace(SETTINGS["synthetic"], model=model)
            work, engine = random_work(setting, "float32"), StackedEngine()
            theta = initial_parameters(model, work.federation, 0)
            plain = training_requests(setting, work, theta, runs)
            for name, (optimizer, has_target) in OPTIMIZERS.items():
                own = [replace(one, work=replace(work, optimizer=optimizer)) for one in plain]
                job, reference = partial(answered, engine, own), partial(answered, engine, plain)
                taken = in_turns(job, reference, repeats)
                yield MeasuredOptimizer(title, name, taken[1], taken[0], taken[2], has_target)

"""Snapshots of a run's models: the best one so far, and the last one.

The best model is the evaluated one with the best value of the figure `evaluation.best`, by default
with the lowest validation loss, or with the lowest test loss where the federation has no validation
parts; the first of equal ones. A folder holds it in `best.npz`, which is written before a
checkpoint where it has changed, and the last model in `checkpoint.npz`. The model of record T is
not written twice: a reader compares its figure with that of `best.npz`.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from fedgs.arrays import AnyArray
from fedgs.checkpoint import State
from fedgs.errors import ConfigError, OutputError
from fedgs.local.parameters import layout_for
from fedgs.plan import Plan
from fedgs.records import Record, RunFolder, save_arrays
from fedgs.report.summary import is_figure
from fedgs.requests import Work
from fedgs.stopping import is_higher

__all__ = [
    "BestModel",
    "Snapshot",
    "Tensors",
    "Which",
    "best_figure",
    "best_record",
    "load_best",
    "save_best",
    "stored_snapshot",
    "tensors_of",
]

Tensors: TypeAlias = Sequence[tuple[str, tuple[int, ...]]]
Which: TypeAlias = Literal["best", "last"]


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A model at the beginning of a round.

    Attributes:
        round: t.
        parameters: (P,) float32, theta^t.
        tensors: names and shapes of its tensors, in their order; empty where they are not known.
    """

    round: int
    parameters: AnyArray
    tensors: Tensors = ()

    @staticmethod
    def of(state: State, tensors: Tensors) -> "Snapshot":
        """The model of a state."""
        return Snapshot(state.round, state.parameters.detach().cpu().numpy(), tensors)

    def by_name(self) -> dict[str, AnyArray]:
        """Name -> array in its shape.

        Raises:
            OutputError: the names are not known.

        >>> theta = np.arange(3, dtype=np.float32)
        >>> Snapshot(0, theta, [("weight", (1, 2)), ("bias", (1,))]).by_name()["weight"]
        array([[0., 1.]], dtype=float32)
        """
        sizes = [int(np.prod(shape, dtype=np.int64)) for _, shape in self.tensors]
        if not sizes or sum(sizes) != len(self.parameters):
            raise OutputError(
                "the names of the model's tensors are not stored, since the run was begun by an "
                "earlier version"
            )
        parts = np.split(self.parameters, np.cumsum(sizes)[:-1])
        return {
            name: part.reshape(shape)
            for (name, shape), part in zip(self.tensors, parts, strict=True)
        }


@dataclass(eq=False)
class BestModel:
    """The best evaluated model of a run so far.

    Attributes:
        figure: by which models are compared, see `fedgs.record.Record.value`.
        higher: whether higher values of it are better.
        snapshot: the model; None: no model was evaluated.
        value: its figure.
        saved: the snapshot that the folder holds.
    """

    figure: str = "test_loss"
    higher: bool = False
    snapshot: Snapshot | None = None
    value: float = np.nan
    saved: Snapshot | None = None

    def see(self, state: State, record: Record, tensors: Tensors) -> None:
        """Keep the model of a state if its record is the best so far."""
        value = record.value(self.figure)
        if not is_figure(value):
            return
        if np.isnan(self.value) or (value > self.value if self.higher else value < self.value):
            self.snapshot, self.value = Snapshot.of(state, tensors), value


def best_figure(plan: Plan) -> tuple[str, bool]:
    """The figure by which the best model of a run is chosen, and whether higher is better."""
    default = "test_loss" if plan.federation.validation is None else "valid_loss"
    figure = plan.best or default
    return figure, is_higher(figure, plan.lower_metrics)


def best_record(
    records: Sequence[Record], figure: str | None = None, *, higher: bool = False
) -> Record | None:
    """The record of the best model, None where no model was evaluated.

    Args:
        records: of a run.
        figure: by which models are compared; None: the validation loss, or the test loss where no
            record has it.
        higher: whether higher values of it are better.

    >>> best_record([Record(0, test_loss=0.5), Record(5, test_loss=0.4), Record(10)]).round
    5
    """
    if figure is None:
        figure = "valid_loss" if any(is_figure(r.valid_loss) for r in records) else "test_loss"
    values = [(record, record.value(figure)) for record in records]
    pairs = [(record, -value if higher else value) for record, value in values if is_figure(value)]
    return min(pairs, key=lambda pair: pair[1])[0] if pairs else None


def _stored_figure(folder: RunFolder) -> tuple[str | None, bool]:
    """The figure of `evaluation.best` of a stored run, and whether higher is better."""
    tables = folder.config()
    figure = tables.get("evaluation", {}).get("best")
    if figure is None:
        return None, False
    better = tables.get("run", {}).get("metrics", {})
    return figure, is_higher(figure, [name for name in better if better[name] == "lower"])


def tensors_of(work: Work) -> Tensors:
    """Names and shapes of the tensors of a model, in the order of the flat vector."""
    federation = work.federation
    layout = layout_for(work.model, federation.example_shape, federation.num_labels)
    return tuple((entry.name, entry.shape) for entry in layout.parameters + layout.buffers)


def save_best(folder: RunFolder, best: BestModel) -> None:
    """Write `best.npz` if the best model is another one than the file holds."""
    snapshot = best.snapshot
    if snapshot is None or snapshot is best.saved:
        return
    header = {"round": snapshot.round, "value": best.value, "tensors": snapshot.tensors}
    arrays: dict[str, npt.ArrayLike] = {"header": json.dumps(header)}
    arrays["parameters"] = snapshot.parameters
    save_arrays(folder.path / "best.npz", arrays)
    best.saved = snapshot


def load_best(folder: RunFolder, figure: tuple[str, bool], state: State | None) -> BestModel:
    """The best model that an earlier start has stored.

    A model of the rounds that are repeated counts, too, since they give the same records; where the
    run starts again from the beginning, there is none.
    """
    arrays = {} if state is None or state.round == 0 else folder.arrays("best")
    if not arrays:
        return BestModel(*figure)
    snapshot, value = _read(folder, arrays)
    return BestModel(*figure, snapshot, value, saved=snapshot)


def stored_snapshot(folder: RunFolder, which: str, rounds: int | None = None) -> Snapshot:
    """The best or the last model that a run's folder holds.

    Args:
        folder: of the run, finished or not.
        which: "best" or "last".
        rounds: of the run that is asked for, where the stored one may have more; None: its own.

    Raises:
        ConfigError: another word.
        OutputError: the folder does not hold that model.
    """
    if which not in ("best", "last"):
        raise ConfigError(f"which must be 'best' or 'last', got {which!r}")
    arrays = folder.arrays("checkpoint")
    if not arrays:
        raise OutputError(f"{folder.path} holds no model yet: it has no checkpoint")
    last, _ = _read(folder, arrays)
    records = [r for r in folder.records() if r.round <= last.round]
    end = last.round if rounds is None else min(rounds, max((r.round for r in records), default=0))
    if which == "last":
        return _of_round(folder, end, [last], "last")
    figure, higher = _stored_figure(folder)
    evaluated = [record for record in records if record.round <= end]
    best = best_record(evaluated, figure, higher=higher)
    if best is None:
        raise OutputError(f"{folder.path} holds no best model: no model was evaluated yet")
    arrays = folder.arrays("best")
    kept = [last, *([_read(folder, arrays)[0]] if arrays else [])]
    return _of_round(folder, best.round, kept, "best")


def _of_round(folder: RunFolder, round: int, kept: Sequence[Snapshot], word: str) -> Snapshot:
    for snapshot in kept:
        if snapshot.round == round:
            return snapshot
    held = " and ".join(str(snapshot.round) for snapshot in kept)
    raise OutputError(
        f"{folder.path} does not hold the {word} model, which is that of round {round}: it holds "
        f"the model of round {held}"
    )


def _read(folder: RunFolder, arrays: dict[str, AnyArray]) -> tuple[Snapshot, float]:
    """The model of a file's arrays, and its figure."""
    try:
        header = json.loads(str(arrays["header"]))
        tensors = [(str(name), tuple(shape)) for name, shape in header.get("tensors", ())]
        value = float(header.get("value", np.nan))
        return Snapshot(int(header["round"]), arrays["parameters"], tensors), value
    except (KeyError, TypeError, ValueError) as error:
        raise OutputError(
            f"a model in {folder.path} is damaged ({error}); remove the run's folder to restart it"
        ) from None

"""`fedgs.compare`: methods side by side on one federation, from Python."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import ClassVar

from pydantic import Field

from fedgs.availability import Availability
from fedgs.config import Evaluation, Execution, System, Training
from fedgs.data.base import Data
from fedgs.data.federation import Federation
from fedgs.errors import ConfigError, shown
from fedgs.experiments.crew import Progress
from fedgs.experiments.grid import build_config
from fedgs.experiments.listening import OnRecord
from fedgs.experiments.study import Results, prepare_study
from fedgs.listeners import check_listener
from fedgs.models import Model, as_model
from fedgs.plurals import counted
from fedgs.registry import Variant
from fedgs.sampling.base import Sampler
from fedgs.stopping import Stopping

__all__ = ["compare"]

# What stands for a variant: an object or class of it, its name, or a table with `name`; a decorated
# function stands for a sampler, and a function that returns an `nn.Module` for a model.
_Method = Sampler | str | Mapping[str, object] | Callable[..., object]
_Availability = Availability | type[Availability] | str | Mapping[str, object]
_Aggregation = Variant | type[Variant] | str | Mapping[str, object]
_Model = Model | str | Mapping[str, object] | Callable[..., object]


class _Given(Data):
    """A federation that is already in memory."""

    name: ClassVar[str] = "arrays"
    federation: Federation = Field(exclude=True, repr=False)

    def load(self, data_dir: Path | None = None) -> Federation:
        return self.federation


def compare(
    federation: Federation | Data | str,
    *,
    methods: Mapping[str, _Method] | Iterable[_Method],
    availability: _Availability = "IDL",
    aggregation: _Aggregation | None = None,
    model: _Model | None = None,
    training: Training | Mapping[str, object] | None = None,
    evaluation: Evaluation | Mapping[str, object] | None = None,
    stopping: Stopping | Mapping[str, object] | None = None,
    execution: Execution | Mapping[str, object] | None = None,
    system: System | Mapping[str, object] | None = None,
    seeds: Iterable[int] = (0,),
    out: str | Path | None = None,
    data_dir: str | Path | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    on_record: OnRecord | None = None,
) -> Results:
    """Train every method with every seed under the same availability, all runs together.

    Args:
        federation: a `Federation`, or a data set (object or name).
        methods: label -> sampler (object, name, table or decorated function); or samplers, labelled
            by their names.
        availability: a mode (object, name or table).
        aggregation: of all methods (object, class, name or table); None: `mean`, or that of a
            method's preset.
        model: a model variant, a name, or a function that returns an `nn.Module`; None: the data
            set's default.
        training: settings; what is not given defaults to the data set's row of the paper.
        evaluation: settings; what is not given has its default.
        stopping: when runs end before their last round; None: they do not.
        execution: settings; what is not given has its default.
        system: how long clients take and which of them answer; None: rounds take no time, and every
            selected client answers.
        seeds: one run a method and seed.
        out: a folder for the records; None: nothing is written.
        data_dir: where files are searched first.
        on_progress: called after every round of every run.
        on_record: called in this process with a run (`fedgs.report.Run`, without records) and each
            of its new records, in the order of its rounds, before the record is stored. Its
            exception ends that run alone.

    Raises:
        UserError: anything that cannot run, before anything is written.
        WorkerError: a worker process crashed three times; what the others gave is in `out`.

    >>> import numpy as np
    >>> x, y = np.eye(4, dtype=np.float32), np.arange(4) % 2
    >>> federation = Federation.from_arrays(x, y, client=np.array([0, 0, 1, 1]), test=(x, y))
    >>> training = {"rounds": 2, "proportion": 0.5}
    >>> results = compare(federation, methods=["uniform", "md"], training=training)
    >>> [run.label for run in results.runs]
    ['uniform', 'md']
    """
    if not isinstance(federation, Federation | Data | str | Mapping) and not _is_data_class(
        federation
    ):
        raise ConfigError(
            "federation must be a Federation, a data set or the name of one, "
            f"got {shown(federation)}"
        )
    data = _Given(federation=federation) if isinstance(federation, Federation) else federation
    labelled_methods = _labelled(methods)
    listed_seeds = _listed("seeds", seeds, "integers, such as range(3)")
    if on_progress is not None and not callable(on_progress):
        raise ConfigError(
            f"on_progress must be a function of a Progress or None, got {shown(on_progress)}"
        )
    if on_record is not None:
        check_listener(on_record, "on_record")
    folders = {name: _folder(name, value) for name, value in (("out", out), ("data_dir", data_dir))}
    common: dict[str, object] = {
        "data": data,
        "availability": availability,
        "model": None if model is None else as_model(model),
        "training": Training() if training is None else training,
        "evaluation": Evaluation() if evaluation is None else evaluation,
        "stopping": Stopping() if stopping is None else stopping,
        "execution": Execution() if execution is None else execution,
    }
    if aggregation is not None:
        common["aggregation"] = aggregation
    if system is not None:
        common["system"] = system
    configs = [
        build_config({"method": method, "seed": seed, "label": label, **common})
        for label, method in labelled_methods
        for seed in listed_seeds
    ]
    if not configs:
        counts = (
            f"{counted(len(labelled_methods), 'method')} and {counted(len(listed_seeds), 'seed')}"
        )
        raise ConfigError(f"compare needs at least one method and one seed, got {counts}")
    study = prepare_study(configs, data_dir=folders["data_dir"])
    return study.run(out=folders["out"], on_progress=on_progress, on_record=on_record)


def _labelled(methods: object) -> list[tuple[str | None, object]]:
    """(label or None, method) of all methods."""
    if isinstance(methods, Mapping):
        return list(methods.items())
    return [
        (None, method)
        for method in _listed("methods", methods, "samplers, such as ['uniform', 'fedgs']")
    ]


def _listed(name: str, value: object, wanted: str) -> list[object]:
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise ConfigError(f"{name} must be a collection of {wanted}; got {shown(value)}")
    return list(value)


def _folder(name: str, value: str | Path | None) -> Path | None:
    try:
        return None if value is None else Path(value)
    except TypeError:
        raise ConfigError(
            f"{name} must be the path of a folder or None, got {shown(value)}"
        ) from None


def _is_data_class(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, Data)

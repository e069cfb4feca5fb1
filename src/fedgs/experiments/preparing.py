"""Prepare runs: load the data, check every configuration against it, and resolve what a run needs."""

import datetime
import platform
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

import fedgs
from fedgs.availability import Attendance, Availability
from fedgs.config import Config, cohort_limit
from fedgs.data.base import Data
from fedgs.data.federation import Federation
from fedgs.errors import ConfigError, DataError, shown, user_code
from fedgs.fingerprint import Identity, identity_of
from fedgs.identity import Digest, Digester
from fedgs.identity.sources import origin_of
from fedgs.local import check_training
from fedgs.local.engines import EngineChoice, choose_engine, numerics_by_rule
from fedgs.local.model_facts import forget_models
from fedgs.local.parameters import build_module
from fedgs.models import Model, as_model, check_model
from fedgs.requests import Work
from fedgs.sampling.base import Sampler
from fedgs.simulation import Plan

__all__ = ["Attendances", "Known", "Prepared", "load_federation", "make_plan", "prepare", "prepare_one", "run_tables"]

Attendances = dict[Any, Attendance]


@dataclass(frozen=True)
class Prepared:
    """A run that has been checked and can begin.

    Attributes:
        config: resolved, the model included.
        plan: what the loop needs.
        identity: what makes it another run than others.
        engine: by which a new run is carried out, and why; a resumed run keeps the one it began with.
    """

    config: Config
    plan: Plan
    identity: Identity
    engine: EngineChoice

    @property
    def fingerprint(self) -> str:
        """16 hexadecimal digits for the identity."""
        return self.identity.fingerprint

    @property
    def folder_name(self) -> str:
        """The run's folder: words for people, the fingerprint for truth."""
        config = self.config
        words = (config.data.name, config.availability.name, config.method.name, f"seed{config.seed}")
        return "-".join([*(word or "custom" for word in words), self.fingerprint])


def load_federation(config: Config, data_dir: Path | None = None) -> Federation:
    """The federation that a configuration names."""
    data = config.data
    if not isinstance(data, Data):
        raise ConfigError(f"data must be a data set, a subclass of fedgs.data.Data; got {shown(data)}")
    if origin_of(type(data).__module__) == "fedgs":
        return data.load(data_dir)
    with user_code(f"data {data.name or type(data).__name__!r}"):
        federation = data.load(data_dir)
    if not isinstance(federation, Federation):
        raise DataError(f"data {data.name or type(data).__name__!r} must load a Federation, got {shown(federation)}")
    return federation


def prepare(configs: Sequence[Config], *, data_dir: Path | None = None) -> list[Prepared]:
    """Load the data and check every configuration against it: what cannot run is refused before anything is written.

    Raises:
        UserError: the first thing that is wrong, or more memory is needed than there is.
    """
    try:
        return _prepared(configs, data_dir)
    except MemoryError as error:
        raise DataError(f"the runs cannot be prepared in the memory that this process may use: {error}") from None


def _prepared(configs: Sequence[Config], data_dir: Path | None) -> list[Prepared]:
    prepared: list[Prepared] = []
    checked: set[Any] = set()
    trained: set[Any] = set()
    loaded: dict[Any, Federation] = {}
    shared: Attendances = {}
    known = Known()
    forget_models()
    for config in configs:
        key = _data_key(config.data, known)
        if key not in loaded:
            loaded[key] = load_federation(config, data_dir)
        one = prepare_one(config, loaded[key], shared, known)
        code, start = (one.identity.parts.get(part) for part in ("model", "model.start"))
        shape_key = (id(loaded[key]), type(one.config.model), repr(one.config.model), code, start)
        if shape_key not in checked:
            checked.add(shape_key)
            check_model(one.plan.work.model, loaded[key])
        work = one.plan.work
        work_key = (*shape_key, work.local_steps, work.batch_size, work.precision)
        if work_key not in trained:
            trained.add(work_key)
            check_training(work)
        prepared.append(one)
    return prepared


@dataclass(frozen=True)
class Known:
    """What the runs of a study ask for once: digests, and how models are built."""

    digester: Digester = field(default_factory=Digester)
    starts: dict[Any, tuple[Any, Digest]] = field(default_factory=dict)


def _data_key(data: Any, known: Known) -> Any:
    """Equal for configurations whose data are the same; a text of the settings can leave out the middle of an array."""
    if origin_of(type(data).__module__) == "fedgs":
        return type(data), id(getattr(data, "federation", None)), repr(data)
    found = known.digester.of(data)
    return type(data), id(data) if found.unknown else found.value


def prepare_one(
    config: Config, federation: Federation, shared: Attendances | None = None, known: Known | None = None
) -> Prepared:
    """One configuration, checked against its federation and this machine.

    Args:
        config: what to carry out.
        federation: the one that `config.data` stands for.
        shared: the attendances of the study's other runs: runs that meet the same clients draw them once.
        known: what the study's other runs have found out already.
    """
    known = Known() if known is None else known
    if len(federation.test) == 0:
        raise ConfigError(f"the server's test set must hold at least one example; {federation.name} has none")
    model = as_model(config.model) if config.model is not None else _default_model(config.data, federation)
    config = config.model_copy(update={"model": model})
    plan = make_plan(config, federation, shared)
    execution = config.execution
    engine = choose_engine(execution.engine, device=execution.device, work=plan.work)  # refuses what this machine cannot do
    identity = identity_of(
        config,
        data_fingerprint=federation.fingerprint,
        limit=plan.cohort_limit,
        numerics=numerics_by_rule(plan.work),
        start=_start_of(model, federation, known),
        digester=known.digester,
    )
    return Prepared(config, plan, identity, engine)


def make_plan(config: Config, federation: Federation, shared: Attendances | None = None) -> Plan:
    """What the loop needs for a configuration whose model is resolved."""
    training = config.training
    assert isinstance(config.model, Model)
    _check_kind("method", config.method, Sampler, "fedgs.Sampler")
    _check_kind("availability", config.availability, Availability, "fedgs.availability.Availability")
    work = Work(federation, config.model, training.mu, training.local_steps, training.batch_size, training.precision)
    return Plan(
        federation=federation,
        attendance=_attendance(config, federation, shared),
        sampler=config.method,  # type: ignore[arg-type]
        work=work,
        rounds=training.rounds,
        cohort_limit=cohort_limit(training, len(federation)),
        learning_rate=training.learning_rate,
        decay=training.decay,
        evaluate_every=config.evaluation.every,
        seed=config.seed,
        data_seed=getattr(config.data, "seed", 0),
    )


def _check_kind(family: str, value: object, base: type, title: str) -> None:
    if not isinstance(value, base):
        raise ConfigError(f"{family} must be a subclass of {title}, got {shown(value)}")


def _start_of(model: Model, federation: Federation, known: Known) -> Digest | None:
    """What a user's model builds for seed 0: structure, code and first parameters; None for the package's models."""
    function = getattr(model, "function", None)
    if origin_of(type(model).__module__) == "fedgs" and function is None:
        return None
    thing = model if function is None else function
    key = (id(thing), id(federation))
    if key not in known.starts:
        modules = [build_module(model, federation) for _ in range(2)]
        first, second = (Digester().of(module) for module in modules)
        if first.value != second.value:
            first = Digest(first.value, (*first.unknown, "a module that differs from build to build"))
        known.starts[key] = ((thing, federation), first)
    return known.starts[key][1]


def _attendance(config: Config, federation: Federation, shared: Attendances | None) -> Attendance:
    availability: Any = config.availability
    made = Attendance(availability, federation.clients)
    try:
        return made if shared is None else shared.setdefault((availability, federation.clients), made)
    except (TypeError, ValueError):  # settings that cannot be compared, such as a matrix
        return made


def _default_model(data: Any, federation: Federation) -> Model:
    name = data.defaults_for(federation).model
    if name is None:
        raise ConfigError(
            f"model must be given for examples of shape {federation.example_shape}; only vectors have a default (logistic)"
        )
    return as_model(name)


def run_tables(prepared: Prepared, *, engine: str, reason: str) -> dict[str, Any]:
    """What `config.toml` holds: the resolved configuration and a table `run` that says how it was carried out."""
    federation = prepared.plan.federation
    return {
        **prepared.config.tables(),
        "run": {
            "fingerprint": prepared.fingerprint,
            "identity": dict(prepared.identity.parts),
            "cohort_limit": prepared.plan.cohort_limit,
            "num_clients": len(federation),
            "num_labels": federation.num_labels,
            "data_title": federation.name,
            "data_fingerprint": federation.fingerprint,
            "engine": engine,
            "engine_reason": reason,
            "started": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "versions": {
                "fedgs": fedgs.__version__,
                "python": platform.python_version(),
                "numpy": np.__version__,
                "torch": version("torch"),
            },
        },
    }

"""Prepare runs: load data, check configurations against it, and resolve what a run needs."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fedgs.aggregation import BLOCK, tree
from fedgs.config import Config, Training
from fedgs.data.base import Data
from fedgs.data.federation import Federation
from fedgs.errors import ConfigError, DataError, shown, user_code
from fedgs.experiments.prepared import PreparedRun, SharedDraws, make_plan
from fedgs.fingerprint import identity_of
from fedgs.identity import Digest, Digester
from fedgs.identity.sources import origin_of
from fedgs.local.check import check_metrics, check_training
from fedgs.local.engines import choose_engine, numerics_by_rule, program_of
from fedgs.local.memory import check_batch_memory
from fedgs.local.model_facts import forget_models
from fedgs.local.parameters import build_module, count_parameters
from fedgs.losses import default_loss
from fedgs.models import Model, as_model, check_model
from fedgs.registry import Variant, build, seed_of
from fedgs.sampling import FedGS, landmarks
from fedgs.sampling.landmarks import has_landmarks
from fedgs.system import NUMERICS

__all__ = ["Known", "load_federation", "prepare", "prepare_one"]


def load_federation(config: Config, data_dir: Path | None = None) -> Federation:
    """The federation that a configuration names."""
    data = config.data
    if not isinstance(data, Data):
        raise ConfigError(
            f"data must be a data set, a subclass of fedgs.data.Data; got {shown(data)}"
        )
    if origin_of(type(data).__module__) == "fedgs":
        return data.load(data_dir)
    with user_code(f"data {data.name or type(data).__name__!r}"):
        federation = data.load(data_dir)
    if not isinstance(federation, Federation):
        raise DataError(
            f"data {data.name or type(data).__name__!r} must load a Federation, "
            f"got {shown(federation)}"
        )
    return federation


def prepare(configs: Sequence[Config], *, data_dir: Path | None = None) -> list[PreparedRun]:
    """Load the data and check every configuration against it.

    What cannot run is refused before anything is written.

    Raises:
        UserError: the first thing that is wrong, or more memory is needed than there is.
    """
    try:
        return _prepared(configs, data_dir)
    except MemoryError as error:
        raise DataError(
            f"the runs cannot be prepared in the memory that this process may use: {error}"
        ) from None


def _prepared(configs: Sequence[Config], data_dir: Path | None) -> list[PreparedRun]:
    prepared: list[PreparedRun] = []
    checked: set[Hashable] = set()
    trained: set[Hashable] = set()
    loaded: dict[Hashable, Federation] = {}
    shared: SharedDraws = {}
    known = Known()
    forget_models()
    for config in configs:
        key = _data_key(config.data, known)
        if key not in loaded:
            loaded[key] = load_federation(config, data_dir)
        run = prepare_one(config, loaded[key], shared, known)
        work, model = run.plan.work, run.config.model
        of_model = ("model", "model.start", "model.weights")
        parts = tuple(run.identity.parts.get(part) for part in of_model)
        shape_key = (id(loaded[key]), type(model), repr(model), parts)
        if shape_key not in checked:
            checked.add(shape_key)
            check_model(work.model, loaded[key])
        loss = run.identity.parts.get("training.loss")
        work_key = (
            *shape_key,
            work.local_steps,
            work.local_epochs,
            work.drop_last,
            work.batch_size,
            work.precision,
            repr(work.loss),
            loss,
        )
        if work_key not in trained:
            trained.add(work_key)
            check_training(work)
        check_metrics(work, run.plan.metrics)
        prepared.append(run)
    return prepared


@dataclass(frozen=True)
class Known:
    """What the runs of a study ask for once: digests, and how models are built."""

    digester: Digester = field(default_factory=Digester)
    starts: dict[tuple[int, int], tuple[object, Digest]] = field(default_factory=dict)


def _data_key(data: object, known: Known) -> Hashable:
    """A key that is equal for configurations whose data are the same.

    The text of a user's settings is no key: it can leave out the middle of an array.
    """
    if origin_of(type(data).__module__) == "fedgs":
        return type(data), id(getattr(data, "federation", None)), repr(data)
    digest = known.digester.of(data)
    return type(data), id(data) if digest.unknown else digest.value


def prepare_one(
    config: Config,
    federation: Federation,
    shared: SharedDraws | None = None,
    known: Known | None = None,
) -> PreparedRun:
    """One configuration, checked against its federation and this machine.

    Args:
        config: what to carry out.
        federation: the one that `config.data` stands for.
        shared: the availability draws of the study's other runs; runs with the same clients draw
            them once.
        known: what the study's other runs have found out already.
    """
    known = Known() if known is None else known
    if len(federation.test) == 0:
        raise ConfigError(
            f"the server's test set must hold at least one example; {federation.name} has none"
        )
    model = (
        as_model(config.model)
        if config.model is not None
        else _default_model(config.data, federation)
    )
    config = config.model_copy(
        update={"model": model, "training": _with_loss(config.training, federation)}
    )
    plan = make_plan(config, federation, shared)
    execution = config.execution
    # Refuses what this machine cannot do.
    engine = choose_engine(execution.engine, device=execution.device, work=plan.work)
    program = program_of(engine.name, device=execution.device, work=plan.work)
    check_batch_memory(
        plan.work, program=program, device=execution.device, cohort_limit=plan.cohort_limit
    )
    numerics = dict(numerics_by_rule(plan.work))
    if plan.time is not None:
        numerics["system"] = NUMERICS
        shape, num_labels = federation.example_shape, federation.num_labels
        plan.time.check_durations(count_parameters(model, shape, num_labels))
    aggregation, limit = plan.aggregation, plan.cohort_limit
    trainees = len(federation) if aggregation.trains_everyone else limit
    if trainees > BLOCK and not aggregation.keeps_models:
        numerics["tree"] = tree.NUMERICS
    sampler = plan.sampler
    if isinstance(sampler, FedGS) and has_landmarks(sampler.graph, federation.clients):
        numerics["landmarks"] = landmarks.NUMERICS
    identity = identity_of(
        config,
        data_fingerprint=federation.fingerprint,
        limit=limit,
        noise_seed=(
            seed_of(config.data) if any(wish.kind == "functional" for wish in plan.wishes) else None
        ),
        numerics=numerics,
        start=_start_of(model, federation, known),
        digester=known.digester,
        system_content=None if plan.time is None else plan.time.content_digest,
    )
    return PreparedRun(config, plan, identity, engine)


def _with_loss(training: Training, federation: Federation) -> Training:
    """The training settings; the loss is named where it is not that of a classifier."""
    default = build("loss", default_loss(federation.task))
    if training.loss is not None and training.loss != default:
        return training
    is_classifier = default.name == default_loss("classes")
    return training.model_copy(update={"loss": None if is_classifier else default})


def _start_of(model: Model, federation: Federation, known: Known) -> Digest | None:
    """What a user's model builds for seed 0: structure, code and first parameters.

    Returns:
        The digest of the module; None for the package's models.
    """
    function = getattr(model, "function", None)
    if origin_of(type(model).__module__) == "fedgs" and function is None:
        return None
    thing = model if function is None else function
    key = (id(thing), id(federation))
    if key not in known.starts:
        modules = [build_module(model, federation) for _ in range(2)]
        first, second = (Digester().of(module) for module in modules)
        if first.value != second.value:
            first = Digest(
                first.value, (*first.unknown, "a module that differs from build to build")
            )
        known.starts[key] = ((thing, federation), first)
    return known.starts[key][1]


def _default_model(data: Variant, federation: Federation) -> Model:
    assert isinstance(data, Data)  # see `load_federation`
    name = data.defaults_for(federation).model
    if name is None:
        raise ConfigError(
            f"model must be given for examples of shape {federation.example_shape}; "
            "only vectors have a default (logistic)"
        )
    return as_model(name)

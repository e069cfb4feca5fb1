"""A run between its configuration and its first round: checked against the data, ready to begin."""

import datetime
import platform
from collections.abc import Hashable
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import numpy as np

import fedgs
from fedgs.aggregation import Aggregation, Mean
from fedgs.availability import Availability, AvailabilityDraws
from fedgs.config import Config, cohort_limit
from fedgs.data.federation import Federation
from fedgs.errors import ConfigError, shown
from fedgs.fingerprint import Identity
from fedgs.local.engines import EngineChoice
from fedgs.losses import Loss
from fedgs.metrics import checked_metrics, directions, ranges_of
from fedgs.models import Model
from fedgs.optimizers import Optimizer
from fedgs.plan import Plan
from fedgs.records import RunFolder
from fedgs.registry import V, Variant, seed_of
from fedgs.requests import Work
from fedgs.sampling.base import Sampler
from fedgs.schedules import Schedule
from fedgs.system import SystemTime, examples_of_round

__all__ = ["SharedDraws", "PreparedRun", "make_plan"]

SharedDraws = dict[Hashable, AvailabilityDraws]


@dataclass(frozen=True)
class PreparedRun:
    """A run that has been checked and can begin.

    Attributes:
        config: resolved, the model included.
        plan: what the loop needs.
        identity: what makes it another run than others.
        engine: by which a new run is carried out, and why; a resumed run keeps the one it began
            with.
        folder: where it is stored, once its study has an output folder; None: nowhere.
    """

    config: Config
    plan: Plan
    identity: Identity
    engine: EngineChoice
    folder: RunFolder | None = None

    @property
    def fingerprint(self) -> str:
        """16 hexadecimal digits for the identity."""
        return self.identity.fingerprint

    @property
    def folder_name(self) -> str:
        """The run's folder: words for people, the fingerprint for truth."""
        config = self.config
        words = (
            config.data.name,
            config.availability.name,
            config.method.name,
            f"seed{config.seed}",
        )
        return "-".join([*(word or "custom" for word in words), self.fingerprint])

    def is_finished(self) -> bool:
        """Whether record T is stored: the last one, or that of a run with more rounds.

        A run that stopped early is finished, too.

        Raises:
            OutputError: the last record is damaged.
        """
        if self.folder is None or not self.folder.exists():
            return False
        last = self.folder.last_record()
        if last is None:
            return False
        return last.round >= self.plan.rounds or last.stopped is not None

    def tables(self, engine: str = "", reason: str = "") -> dict[str, Any]:
        """What `config.toml` holds: the resolved configuration, and how the run is carried out.

        Args:
            engine: that carries out the run, as registered.
            reason: one sentence that says which engine and why.
        """
        federation = self.plan.federation
        metrics: dict[str, object] = {}
        if self.plan.metrics:
            ranges = {name: list(ends) for name, ends in ranges_of(self.plan.metrics).items()}
            metrics = {"metrics": directions(self.plan.metrics), "metric_ranges": ranges}
        return {
            **self.config.tables(),
            "run": {
                "fingerprint": self.fingerprint,
                "identity": dict(self.identity.parts),
                "cohort_limit": self.plan.cohort_limit,
                "num_clients": len(federation),
                "num_labels": federation.num_labels,
                "data_title": federation.name,
                "data_fingerprint": federation.fingerprint,
                "engine": engine,
                "engine_reason": reason,
                **metrics,
                "started": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
                "versions": {
                    "fedgs": fedgs.__version__,
                    "python": platform.python_version(),
                    "numpy": np.__version__,
                    "torch": version("torch"),
                },
            },
        }


def make_plan(config: Config, federation: Federation, shared: SharedDraws | None = None) -> Plan:
    """What the loop needs for a configuration whose model is resolved."""
    training = config.training
    assert isinstance(config.model, Model)
    sampler = _checked("method", config.method, Sampler, "fedgs.Sampler")
    mode = _checked(
        "availability", config.availability, Availability, "fedgs.availability.Availability"
    )
    aggregation = Mean() if config.aggregation is None else config.aggregation
    work = Work(
        federation,
        config.model,
        training.mu,
        training.local_steps,
        training.batch_size,
        training.precision,
        training.objective,
        _optional("training.loss", training.loss, Loss, "fedgs.losses.Loss"),
        _optional(
            "training.optimizer", training.optimizer, Optimizer, "fedgs.optimizers.Optimizer"
        ),
        training.clip,
        training.local_epochs,
        training.drop_last,
        training.optimizer_state,
    )
    limit = cohort_limit(training, len(federation))
    examples = examples_of_round(training, federation.clients)
    return Plan(
        federation=federation,
        availability=_availability(mode, federation, shared),
        sampler=sampler,
        work=work,
        rounds=training.rounds,
        cohort_limit=limit,
        learning_rate=training.learning_rate,
        decay=training.decay,
        evaluate_every=config.evaluation.every,
        seed=config.seed,
        data_seed=seed_of(config.data) or 0,
        aggregation=_checked("aggregation", aggregation, Aggregation, "fedgs.Aggregation"),
        stopping=config.stopping,
        schedule=_optional(
            "training.schedule", training.schedule, Schedule, "fedgs.schedules.Schedule"
        ),
        warmup=training.warmup,
        per_client=config.evaluation.per_client,
        sample=config.evaluation.sample,
        metrics=checked_metrics(config.evaluation.metrics, federation),
        best=config.evaluation.best,
        time=None
        if config.system is None
        else SystemTime(config.system, federation.clients, mode, limit, examples),
    )


def _optional(setting: str, value: Variant | None, base: type[V], title: str) -> V | None:
    return None if value is None else _checked(setting, value, base, title)


def _checked(family: str, value: object, base: type[V], title: str) -> V:
    if not isinstance(value, base):
        raise ConfigError(f"{family} must be a subclass of {title}, got {shown(value)}")
    return value


def _availability(
    mode: Availability, federation: Federation, shared: SharedDraws | None
) -> AvailabilityDraws:
    draws = AvailabilityDraws(mode, federation.clients)
    if shared is None:
        return draws
    try:
        return shared.setdefault((mode, federation.clients), draws)
    except (TypeError, ValueError):  # settings that cannot be compared, such as a matrix
        return draws

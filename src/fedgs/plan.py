"""One run, everything in it resolved and checked."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np

from fedgs.aggregation import Aggregation, Mean
from fedgs.arrays import IntArray
from fedgs.availability import AvailabilityDraws, RoundAvailability
from fedgs.checkpoint import State
from fedgs.client_sample import client_sample
from fedgs.clients import View
from fedgs.data.federation import Federation
from fedgs.data.on_demand import FederationOnDemand
from fedgs.errors import ConfigError, DataError, user_code
from fedgs.evaluation_settings import ClientEvaluation
from fedgs.features import check_wish
from fedgs.local.descent import not_plain
from fedgs.losses import loss_of
from fedgs.metrics import Metric, directions, ranges_of
from fedgs.optimizer_states import check_memory
from fedgs.registry import Variant
from fedgs.requests import ReportName, Work, check_batch, check_reports
from fedgs.sampling.base import (
    AsksBatchLosses,
    AsksLosses,
    AsksReports,
    LearnsFromModels,
    Remembers,
    Sampler,
    Wish,
    checked_wish,
)
from fedgs.schedules import Schedule
from fedgs.stopping import Stopping, check_figure
from fedgs.system import SystemTime
from fedgs.weighting import Weighting, as_weighting

__all__ = ["Plan", "title_of"]

_FLOAT32_MIN, _FLOAT32_MAX = 7.01e-46, 3.4e38  # float32 rounds what is below to 0


@dataclass(frozen=True, eq=False)
class Plan:
    """One run, everything in it resolved and checked.

    Attributes:
        federation: the clients and their data.
        availability: which clients are available when; plans with the same clients may share it.
        sampler: the method that selects the cohorts.
        work: what clients do when they train.
        rounds: T.
        cohort_limit: M.
        learning_rate, decay: eta of round t is learning_rate * decay^t where there is no schedule.
        evaluate_every: rounds divisible by it, and T, are evaluated.
        seed: of theta^0, local batches and sampling.
        data_seed: of the federation, and of the noise batch of functional similarities.
        aggregation: makes the next parameters of the cohort's updates.
        stopping: when the run ends before round T.
        per_client: when the model is evaluated on the examples of each client; None: never.
        sample: so many clients stand for all in the validation loss and in `per_client`; None: all.
        metrics: of the test set that are recorded beside loss and accuracy.
        best: the figure by which the best model is kept; None: the validation loss, or the test
            loss where there are no validation parts.
        schedule: eta of round t is learning_rate * schedule.factor(t); None: see `decay`.
        warmup: eta is multiplied by (t + 1)/(warmup + 1) in the first `warmup` rounds.
        time: how rounds take time; None: the run has no clock, and every selected client answers.
    """

    federation: Federation
    availability: AvailabilityDraws
    sampler: Sampler
    work: Work
    rounds: int
    cohort_limit: int
    learning_rate: float
    decay: float
    evaluate_every: int
    seed: int
    data_seed: int = 0
    aggregation: Aggregation = field(default_factory=Mean)
    stopping: Stopping = field(default_factory=Stopping)
    per_client: ClientEvaluation | None = None
    sample: int | None = None
    metrics: tuple[Metric, ...] = ()
    best: str | None = None
    schedule: Schedule | None = None
    warmup: int = 0
    time: SystemTime | None = None

    def __post_init__(self) -> None:
        mode, sampler = self.availability.mode, self.sampler
        loss_of(self.work).check(self.federation)
        self._check_rates()
        check_memory(self.work)
        with user_code(f"availability {mode.name or type(mode).__name__!r}"):
            mode.check(self.federation.clients, self.rounds)
        _check_defined(sampler, Sampler, "select(view, rng)")
        _check_defined(self.weighting, Weighting, "weights(view, selection, memory)")
        _check_defined(self.aggregation, Aggregation, "folds(round)")
        _check_defined(self.aggregation, Aggregation, "step(round, results)")
        with user_code(f"check of method {sampler.name or type(sampler).__name__!r}"):
            sampler.check(self.federation.clients, self.selected)
        if self.time is None:
            _check_no_clock(sampler)
        with user_code(f"check of weighting {title_of(self.weighting)!r}"):
            self.weighting.check(self.federation.clients, self.cohort_limit, sampler)
        if self.weighting.reads_rates and not mode.has_rates():
            raise ConfigError(
                f"weighting {title_of(self.weighting)!r} needs the rates of availability, which "
                f"{title_of(mode)!r} does not define (weighting 'fedau' estimates them)"
            )
        if self.weighting.reads_rates and self.time is not None:
            raise ConfigError(
                f"weighting {title_of(self.weighting)!r} needs clients that always answer, got a "
                "table [system] (weighting 'fedau' estimates how often updates enter)"
            )
        if self.aggregation.objective not in (None, self.work.objective):
            raise ConfigError(
                f"aggregation {title_of(self.aggregation)!r} needs training.objective = "
                f"{self.aggregation.objective!r}, which alone it minimises; "
                f"got {self.work.objective!r} (aggregation 'mean' follows both)"
            )
        if self.aggregation.trains_everyone and (self.round_wish or self.reports):
            raise ConfigError(
                f"aggregation {title_of(self.aggregation)!r} trains clients outside of the cohort, "
                f"and method {title_of(sampler)!r} reads what the cohort's training gives; "
                "use a method such as 'uniform', or 'fedgs' with graph.start = 'all'"
            )
        proximal = self.aggregation.proximal
        if proximal not in (None, self.work.mu):
            raise ConfigError(
                f"aggregation {title_of(self.aggregation)!r} needs training.mu = {proximal:g}, the "
                f"weight of its quadratic term; got {self.work.mu:g}"
            )
        if self.aggregation.needs_plain_steps and (reason := not_plain(self.work)) is not None:
            raise ConfigError(
                f"aggregation {title_of(self.aggregation)!r} needs plain SGD steps, whose "
                f"gradients it reads off the updates; got {reason}"
            )
        with user_code(f"check of aggregation {title_of(self.aggregation)!r}"):
            self.aggregation.check(self.federation.clients, self.cohort_limit, self.weighting)
        self.stopping.check(
            has_validation=self.federation.validation is not None,
            has_accuracy=self.federation.task != "regression",
            metrics=list(directions(self.metrics)),
            ranges=ranges_of(self.metrics),
        )
        if self.best is not None:
            check_figure(
                self.best,
                "evaluation.best",
                has_validation=self.federation.validation is not None,
                has_accuracy=self.federation.task != "regression",
                metrics=list(directions(self.metrics)),
            )
        if self.per_client is not None:
            self._check_client_part(self.per_client)
        if self.sample is not None:
            self._check_sample(self.sample)
        if isinstance(self.federation, FederationOnDemand):
            self._check_room(self.federation)
        for wish in self.wishes:
            check_wish(wish, self.work)
        check_reports(self.reports)
        if self.asks_losses is not None:
            self._check_loss_on(self.asks_losses.loss_on)
            check_batch(self.loss_batch, "method.loss_batch")

    def _check_rates(self) -> None:
        """Refuse a schedule that has no positive learning rate in some round."""
        if self.schedule is None:
            return
        name = f"training.schedule {title_of(self.schedule)!r}"
        with user_code(name):
            rates = ((t, self.learning_rate_of(t)) for t in range(self.rounds))
            wrong = next(
                (pair for pair in rates if not _FLOAT32_MIN <= pair[1] <= _FLOAT32_MAX), None
            )
        if wrong is not None:
            raise ConfigError(
                f"{name} must give a learning rate > 0 within float32's range in all "
                f"{self.rounds} rounds, got {wrong[1]:g} in round {wrong[0]}"
            )

    def learning_rate_of(self, round: int) -> float:
        """eta_t of a round."""
        factor = self.decay**round if self.schedule is None else self.schedule.factor(round)
        rate = self.learning_rate * factor
        return rate if round >= self.warmup else rate * (round + 1) / (self.warmup + 1)

    def _check_client_part(self, settings: ClientEvaluation) -> None:
        has_test = self.federation.client_test is not None
        has_validation = self.federation.validation is not None
        if settings.part == "test" and not has_test:
            raise ConfigError(
                "evaluation.per_client.part = 'test' needs test examples with owners, "
                "and this federation has none"
            )
        if settings.part == "validation" and not has_validation:
            raise ConfigError(
                "evaluation.per_client.part = 'validation' needs validation parts, "
                "and this federation has none"
            )
        if not (has_test or has_validation):
            raise ConfigError(
                "evaluation.per_client needs test examples with owners or validation parts, "
                "and this federation has neither"
            )

    def _check_sample(self, sample: int) -> None:
        number, validation = len(self.federation), self.federation.validation
        if sample > number:
            raise ConfigError(
                f"evaluation.sample must be at most {number}, the number of clients, got {sample}"
            )
        if validation is None and self.per_client is None:
            raise ConfigError(
                "evaluation.sample has no effect without validation parts and without "
                "evaluation.per_client; leave it out"
            )
        drawn = client_sample(self.seed, number, sample)
        if validation is not None and not np.diff(validation.offsets)[drawn].any():
            raise ConfigError(
                f"evaluation.sample = {sample} draws no client with validation examples for seed "
                f"{self.seed}; give a larger number"
            )

    def _check_room(self, federation: FederationOnDemand) -> None:
        """Refuse a run that needs the examples of more clients at once than fit into memory."""
        advice = "with evaluation.sample = 10_000, so many clients stand for all"
        try:
            federation.check_room(self.evaluated, "validation")
            advice = "use a method and an aggregation that train the cohort alone"
            if self.aggregation.trains_everyone or self.wish("start") is not None:
                federation.check_room(None, "train")
        except DataError as error:
            raise ConfigError(f"{error}; {advice}") from None

    @cached_property
    def evaluated(self) -> IntArray | None:
        """(s,) ascending indices of the clients that stand for all; None: all clients."""
        if self.sample is None:
            return None
        return client_sample(self.seed, len(self.federation), self.sample)

    @cached_property
    def lower_metrics(self) -> frozenset[str]:
        """The recorded metrics of which lower values are better."""
        better = directions(self.metrics)
        return frozenset(name for name, direction in better.items() if direction == "lower")

    @property
    def client_split(self) -> Literal["test", "validation"]:
        """The examples on which the model is evaluated by client."""
        part = None if self.per_client is None else self.per_client.part
        if part is not None:
            return part
        return "validation" if self.federation.client_test is None else "test"

    def _check_loss_on(self, loss_on: str) -> None:
        if loss_on not in ("train", "validation"):
            raise ConfigError(f"method.loss_on must be 'train' or 'validation', got {loss_on!r}")
        if loss_on == "validation" and self.federation.validation is None:
            raise ConfigError(
                "method.loss_on = 'validation' needs validation parts, "
                "and this federation has none; use 'train'"
            )

    # The sampler's protocols are checked once, since a check can cost more than the rest of a
    # round.

    @cached_property
    def asks_losses(self) -> AsksLosses | None:
        """The sampler, if it asks for local losses."""
        return self.sampler if isinstance(self.sampler, AsksLosses) else None

    @cached_property
    def loss_batch(self) -> int | None:
        """Examples of the mini-batch that these losses are computed on; None: all of the part."""
        return self.sampler.loss_batch if isinstance(self.sampler, AsksBatchLosses) else None

    @cached_property
    def reports(self) -> tuple[ReportName, ...]:
        """The numbers of local training that the sampler asks for."""
        return self.sampler.wanted_reports if isinstance(self.sampler, AsksReports) else ()

    @cached_property
    def remembers(self) -> Remembers | None:
        """The sampler, if it has a memory."""
        return self.sampler if isinstance(self.sampler, Remembers) else None

    @cached_property
    def weighting(self) -> Weighting:
        """The weighting, which the sampler names."""
        return as_weighting(self.sampler.weighting, setting="method.weighting")

    @cached_property
    def weighting_observes(self) -> bool:
        """Whether the weighting has a memory that changes with the rounds."""
        return type(self.weighting).observe is not Weighting.observe

    @cached_property
    def wishes(self) -> list[Wish]:
        """The features of local models that the sampler wishes for, at the start or in rounds."""
        with user_code(f"wish of method {self.sampler.name or type(self.sampler).__name__!r}"):
            wishes = [self.wish("start"), self.wish("round")]
        return [wish for wish in wishes if wish is not None]

    @cached_property
    def round_wish(self) -> Wish | None:
        """The features of each round's local models that the sampler wishes for, if any."""
        return self.wish("round")

    @property
    def selected(self) -> int:
        """The largest cohort: M, or more where some clients are expected not to answer."""
        return self.cohort_limit if self.time is None else self.time.selected

    def available(self, state: State) -> RoundAvailability:
        """A_t, by the round or by the clock."""
        if self.time is None or state.time is None or not self.time.is_simulated:
            return self.availability.at(state.round)
        return self.availability.of(self.time.available(state.time.clock))

    def view(self, state: State, available: IntArray) -> View:
        """What the sampler and the weighting see of a round, without losses."""
        rates = self.availability.rates(state.round) if self.weighting.reads_rates else None
        return View(
            state.round,
            self.federation.clients,
            available,
            state.counts,
            self.selected,
            memory=state.memory,
            objective=self.work.objective,
            rates=rates,
            weighting_memory=state.weighting,
            **({} if state.time is None else vars(state.time)),
        )

    def evaluates(self, round: int) -> bool:
        """Whether theta^t of this round is evaluated."""
        return round % self.evaluate_every == 0 or round == self.rounds

    def wish(self, when: Literal["start", "round"]) -> Wish | None:
        """The features of local models that the sampler wishes for, if any."""
        if not isinstance(self.sampler, LearnsFromModels):
            return None
        return checked_wish(self.sampler.wish(when))


def _check_defined(variant: Variant, base: type[Variant], method: str) -> None:
    """Raise `ConfigError` unless the class of a variant defines a method of its base class."""
    name = method.partition("(")[0]
    if getattr(type(variant), name) is getattr(base, name):
        raise ConfigError(f"{base.family} {title_of(variant)!r} must define {method}")


def _check_no_clock(sampler: Sampler) -> None:
    """Refuse settings about durations, which a run without a clock does not have."""
    for name in sampler.of_durations:
        if getattr(sampler, name) != type(sampler).model_fields[name].default:
            raise ConfigError(
                f"method.{name} has no effect without [system], whose durations it is about; "
                "leave it out"
            )


def title_of(variant: Variant) -> str:
    """What messages call a variant: its name, or that of its class."""
    return variant.name or type(variant).__name__

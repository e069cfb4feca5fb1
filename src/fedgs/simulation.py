"""One round of federated learning, as a generator that yields requests.

`run_round` is Algorithm 1 of the paper. It yields requests (`fedgs.requests`) and receives the
replies, so it does not depend on engines, devices or processes; `fedgs.driver` answers the requests
of many runs together. A round is a transaction: it takes a state and returns (state, record). If it
fails, the run keeps the state from before the round.
"""

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, TypedDict

import numpy as np
import torch

from fedgs import rng
from fedgs.aggregation import Aggregation, Mean, Round, Vectors, checked_step, checked_vectors
from fedgs.arrays import FloatArray, IntArray, frozen
from fedgs.availability import AvailabilityDraws, RoundAvailability
from fedgs.checkpoint import State
from fedgs.clients import (
    Memory,
    Outcome,
    Selection,
    View,
    checked_candidates,
    checked_memory,
    checked_selection,
)
from fedgs.config import ClientEvaluation
from fedgs.data.federation import Federation
from fedgs.errors import ConfigError, user_code
from fedgs.features import check_wish, feature_fold, feature_request
from fedgs.local.descent import not_plain
from fedgs.local.parameters import initial_parameters
from fedgs.losses import loss_of
from fedgs.metrics import Metric, directions
from fedgs.records import Record
from fedgs.registry import Variant
from fedgs.requests import (
    ClientMetrics,
    Evaluate,
    Losses,
    Metrics,
    Reply,
    ReportName,
    Request,
    Train,
    Work,
    check_batch,
    check_reports,
)
from fedgs.sampling.base import (
    AsksBatchLosses,
    AsksLosses,
    AsksReports,
    LearnsFromModels,
    Remembers,
    Sampler,
    SharesMemory,
    Wish,
)
from fedgs.schedules import Schedule
from fedgs.stopping import Stopping
from fedgs.system import Played, SystemTime, TimeState
from fedgs.weighting import Weighting, as_weighting, checked_weights, weighting_of_selection

__all__ = [
    "Plan",
    "Requesting",
    "Shared",
    "final_record",
    "initial_state",
    "memory_key",
    "run_round",
    "start_run",
]

_FLOAT32_MAX = 3.4e38
# A round, or the start of a run: it yields requests and receives their replies.
Requesting = Generator[Request, Reply, Any]
# Returns the memory of a key, which another run may have made, or calls the function that makes it.
Shared = Callable[[str, Callable[[], Memory]], Memory]
# Metrics of the test set and of the validation parts, if there are any.
TestAndValidation = tuple[Metrics, Metrics | None]


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
        metrics: of the test set that are recorded beside loss and accuracy.
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
    metrics: tuple[Metric, ...] = ()
    schedule: Schedule | None = None
    warmup: int = 0
    time: SystemTime | None = None

    def __post_init__(self) -> None:
        mode, sampler = self.availability.mode, self.sampler
        loss_of(self.work).check(self.federation)
        self._check_rates()
        with user_code(f"availability {mode.name or type(mode).__name__!r}"):
            mode.check(self.federation.clients, self.rounds)
        _check_defined(sampler, Sampler, "select(view, rng)")
        _check_defined(self.weighting, Weighting, "weights(view, selection, memory)")
        _check_defined(self.aggregation, Aggregation, "folds(round)")
        _check_defined(self.aggregation, Aggregation, "step(round, results)")
        with user_code(f"check of method {sampler.name or type(sampler).__name__!r}"):
            sampler.check(self.federation.clients, self.selected)
        with user_code(f"check of weighting {_name(self.weighting)!r}"):
            self.weighting.check(self.federation.clients, self.cohort_limit, sampler)
        if self.weighting.reads_rates and not mode.has_rates():
            raise ConfigError(
                f"weighting {_name(self.weighting)!r} needs the rates of availability, which "
                f"{_name(mode)!r} does not define (weighting 'fedau' estimates them)"
            )
        if self.weighting.reads_rates and self.time is not None:
            raise ConfigError(
                f"weighting {_name(self.weighting)!r} needs clients that always answer, got a "
                "table [system] (weighting 'fedau' estimates how often updates enter)"
            )
        if self.aggregation.objective not in (None, self.work.objective):
            raise ConfigError(
                f"aggregation {_name(self.aggregation)!r} needs training.objective = "
                f"{self.aggregation.objective!r}, which alone it minimises; "
                f"got {self.work.objective!r} (aggregation 'mean' follows both)"
            )
        if self.aggregation.trains_everyone and (self.round_wish or self.reports):
            raise ConfigError(
                f"aggregation {_name(self.aggregation)!r} trains clients outside of the cohort, "
                f"and method {_name(sampler)!r} reads what the cohort's training gives; "
                "use a method such as 'uniform' or 'fedgs'"
            )
        proximal = self.aggregation.proximal
        if proximal not in (None, self.work.mu):
            raise ConfigError(
                f"aggregation {_name(self.aggregation)!r} needs training.mu = {proximal:g}, the "
                f"weight of its quadratic term; got {self.work.mu:g}"
            )
        if self.aggregation.needs_plain_steps and (reason := not_plain(self.work)) is not None:
            raise ConfigError(
                f"aggregation {_name(self.aggregation)!r} needs plain SGD steps, whose gradients "
                f"it reads off the updates; got {reason}"
            )
        with user_code(f"check of aggregation {_name(self.aggregation)!r}"):
            self.aggregation.check(self.federation.clients, self.cohort_limit, self.weighting)
        self.stopping.check(
            has_validation=self.federation.validation is not None,
            has_accuracy=self.federation.task != "regression",
            metrics=list(directions(self.metrics)),
        )
        if self.per_client is not None:
            self._check_client_part(self.per_client)
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
        name = f"training.schedule {_name(self.schedule)!r}"
        with user_code(name):
            rates = ((t, self.learning_rate_of(t)) for t in range(self.rounds))
            wrong = next((pair for pair in rates if not 0 < pair[1] < _FLOAT32_MAX), None)
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
        return self.sampler.wish(when) if isinstance(self.sampler, LearnsFromModels) else None


def _check_defined(variant: Variant, base: type[Variant], method: str) -> None:
    """Raise `ConfigError` unless the class of a variant defines a method of its base class."""
    name = method.partition("(")[0]
    if getattr(type(variant), name) is getattr(base, name):
        raise ConfigError(f"{base.family} {_name(variant)!r} must define {method}")


def _name(variant: Variant) -> str:
    return variant.name or type(variant).__name__


def initial_state(plan: Plan, memory: Memory) -> State:
    """The state before round 0 with this memory.

    theta^0 depends on model, federation and seed alone.
    """
    clients = plan.federation.clients
    parameters = initial_parameters(plan.work.model, plan.federation, plan.seed)
    with user_code(f"start of weighting {_name(plan.weighting)!r}"):
        weighting = checked_memory(plan.weighting.start(clients, plan.cohort_limit), "start")
    with user_code(f"start of aggregation {_name(plan.aggregation)!r}"):
        vectors = checked_vectors(plan.aggregation, plan.aggregation.start(parameters, clients))
    counts = np.zeros(len(clients), dtype=np.int64)
    time = None if plan.time is None else TimeState.before_round_0(len(clients))
    state = State(0, parameters, counts, memory, weighting, vectors, time=time)
    # A step that cannot do without a cohort is found here and not in the first such round.
    _empty_round(plan, state, plan.view(state, np.empty(0, dtype=np.int64)))
    return state


def start_run(plan: Plan, shared: Shared | None = None) -> Generator[Request, Reply, State]:
    """The state before round 0: theta^0, counts of zero and the sampler's memory.

    Where the sampler wishes for features of local models at the start, every client trains once
    from theta^0; the models are discarded and the counts stay 0.

    Args:
        plan: the run.
        shared: returns a memory that other runs may have made already, from its key and the
            function that makes it.
    """
    sampler, clients = plan.sampler, plan.federation.clients
    wish = plan.wish("start")
    if wish is None or not isinstance(sampler, LearnsFromModels):
        return initial_state(plan, _first_memory(plan, shared))
    state = initial_state(plan, {})
    replies = yield feature_request(
        [wish],
        plan.work,
        state.parameters,
        learning_rate=plan.learning_rate_of(0),
        seed=plan.seed,
        data_seed=plan.data_seed,
    )
    memory = checked_memory(sampler.start_from(clients, frozen(replies[0])), "start_from")
    return replace(state, memory=memory)


def memory_key(plan: Plan) -> str | None:
    """The key of the memory before round 0 that all runs with these clients and settings share.

    None where the memory is not shared.
    """
    sampler = plan.remembers
    if not isinstance(sampler, SharesMemory) or plan.wish("start") is not None:
        return None
    return sampler.memory_key(plan.federation.clients)


def _first_memory(plan: Plan, shared: Shared | None) -> Memory:
    remembers = plan.remembers
    if remembers is None:
        return {}
    clients, key = plan.federation.clients, None if shared is None else memory_key(plan)

    def make() -> Memory:
        return checked_memory(remembers.start(clients), "start")

    return make() if shared is None or key is None else shared(key, make)


def run_round(plan: Plan, state: State) -> Generator[Request, Reply, tuple[State, Record] | Record]:
    """One round (Algorithm 1): availability, evaluation, selection, local training, aggregation.

    With a clock, the answers of the cohort are known before any client trains, and those that do
    not arrive in time are not computed.

    Returns:
        The state after the round and its record; the last record where the run stops here.
    """
    # The metrics of theta^t before the update, and A_t.
    figures = _figures((yield from evaluate(plan, state)))
    if figures and plan.stopping.is_on:
        state = replace(state, watched=plan.stopping.extended(state.watched, figures))
        reason = plan.stopping.reason(state.watched, plan.lower_metrics)
        if reason is not None:
            figures |= yield from evaluate_clients(plan, state, is_last=True)
            return Record(round=state.round, stopped=reason, **figures, **_clock(state))
    figures |= yield from evaluate_clients(plan, state)
    if plan.time is not None and plan.time.is_simulated and state.time is not None:
        state = replace(state, time=plan.time.begun(state.time))
    available = plan.available(state)
    view = plan.view(state, available.clients)
    if not available.names:
        trained = yield from train_without_cohort(plan, state, view)
        record = round_record(plan, state, available, figures)
        return advance(plan, state, view, trained=trained), record

    # S_t. If it is empty, the model, the counts and the sampler's memory stay unchanged.
    view = yield from with_losses(plan, state, view)
    generator = rng.stream(plan.seed, "select", state.round)
    selection = checked_selection(plan.sampler.select(view, generator), view)
    if len(selection.clients) == 0:
        trained = yield from train_without_cohort(plan, state, view)
        record = round_record(plan, state, available, figures, selection=selection)
        return advance(plan, state, view, trained=trained), record

    # theta^{t+1} = theta^t + sum_k w_k (theta_k - theta^t), and v_k += 1 for k in S_t.
    cohort, outcome = selection.clients, None
    played = _played(plan, state, cohort)
    entering = selection if played is None else played.entering(selection)
    if len(entering.clients):
        trained, outcome = yield from train_selected(plan, state, view=view, selection=entering)
    else:
        trained = yield from train_without_cohort(plan, state, view)
    after = advance(
        plan, state, view, trained=trained, outcome=outcome, cohort=cohort, played=played
    )
    weights = np.zeros(len(cohort))
    if outcome is not None:
        weights[slice(None) if played is None else played.answered] = outcome.weights
    record = round_record(
        plan, state, available, figures, selection=selection, weights=weights, played=played
    )
    return after, record


def _played(plan: Plan, state: State, cohort: IntArray) -> Played | None:
    """What becomes of the cohort in time; None in a run without a clock."""
    if plan.time is None or state.time is None:
        return None
    return plan.time.play(state.round, state.time.clock, cohort, len(state.parameters))


def evaluate(plan: Plan, state: State) -> Generator[Request, Reply, TestAndValidation | None]:
    """Metrics of theta^t on the test set and the validation parts, if this round is evaluated."""
    if not plan.evaluates(state.round):
        return None
    key = (plan.seed, state.round)
    test: Metrics = yield Evaluate(plan.work, state.parameters, "test", key, plan.metrics)
    if plan.federation.validation is None:
        return test, None
    valid: Metrics = yield Evaluate(plan.work, state.parameters, "validation", key)
    return test, valid


def evaluate_clients(
    plan: Plan, state: State, *, is_last: bool = False
) -> Generator[Request, Reply, "_Figures"]:
    """The figures of theta^t on the examples of each client, if this round is evaluated by client.

    Args:
        plan: the run.
        state: has theta^t.
        is_last: whether theta^t is the last model, which is always evaluated.
    """
    settings = plan.per_client
    if settings is None or not (is_last or state.round % settings.every == 0):
        return {}
    key = (plan.seed, state.round)
    split = plan.client_split
    reply: ClientMetrics = yield Evaluate(plan.work, state.parameters, split, key, by_client=True)
    figures: dict[str, object] = {"part": split, "loss": _without_nan(reply.losses)}
    if reply.accuracies is not None:
        figures["accuracy"] = _without_nan(reply.accuracies)
    return {"per_client": figures}


def _without_nan(values: FloatArray) -> list[float | None]:
    return [None if np.isnan(value) else value for value in values.tolist()]


def with_losses(plan: Plan, state: State, view: View) -> Generator[Request, Reply, View]:
    """The view with local losses of theta^t, if the sampler asks for them."""
    sampler = plan.asks_losses
    if sampler is None:
        return view
    generator = rng.stream(plan.seed, "candidates", state.round)
    candidates = checked_candidates(sampler.loss_candidates(view, generator), view)
    key = (plan.seed, state.round)
    losses = np.full(len(view.clients), np.nan)
    losses[candidates] = yield Losses(
        plan.work, state.parameters, candidates, sampler.loss_on, key, plan.loss_batch
    )
    return replace(view, losses=frozen(losses))


def train_selected(
    plan: Plan, state: State, *, view: View, selection: Selection
) -> Generator[Request, Reply, tuple[tuple[torch.Tensor, Vectors], Outcome]]:
    """The local training of the cohort and its aggregation.

    Returns:
        theta^{t+1} with the vectors of the aggregation, and the outcome.
    """
    cohort, aggregation = selection.clients, plan.aggregation
    weighting, memory = plan.weighting, state.weighting
    if selection.weighting is not None:
        weighting, memory = weighting_of_selection(selection.weighting), {}
    weights = checked_weights(weighting, view, selection, memory)
    round = aggregation_round(plan, state, view, selected=(cohort, weights), weighting=weighting)
    corrections, folds = aggregation.corrections(round), aggregation.folds(round)
    wish, features = plan.round_wish, None  # there is none where everyone trains
    own_folds = len(folds)
    if wish is not None:
        starts = state.parameters if corrections.starts is None else corrections.starts
        folds += (feature_fold(wish, plan.work, starts, seed=plan.data_seed),)
    replies = yield Train(
        plan.work,
        state.parameters,
        round.trainees,
        round.learning_rate,
        (plan.seed, state.round),
        folds,
        starts=corrections.starts,
        offsets=corrections.offsets,
        reports=plan.reports,
    )
    if wish is not None:
        features = frozen(replies[own_folds])
    reports = {} if not plan.reports else {n: frozen(v) for n, v in replies[-1].items()}
    outcome = Outcome(frozen(cohort), frozen(weights), features, reports)
    return checked_step(aggregation, round, replies[:own_folds]), outcome


def train_without_cohort(
    plan: Plan, state: State, view: View
) -> Generator[Request, Reply, tuple[torch.Tensor, Vectors] | None]:
    """The training of all clients in a round without a cohort, where the aggregation has it.

    Returns:
        theta^{t+1} with the vectors of the aggregation; None where no client trains.
    """
    aggregation = plan.aggregation
    if not aggregation.trains_everyone:
        return None
    nobody = (np.empty(0, dtype=np.int64), np.empty(0))
    round = aggregation_round(plan, state, view, selected=nobody, weighting=plan.weighting)
    corrections = aggregation.corrections(round)
    replies = yield Train(
        plan.work,
        state.parameters,
        round.trainees,
        round.learning_rate,
        (plan.seed, state.round),
        aggregation.folds(round),
        starts=corrections.starts,
        offsets=corrections.offsets,
    )
    return checked_step(aggregation, round, replies)


def aggregation_round(
    plan: Plan,
    state: State,
    view: View,
    *,
    selected: tuple[IntArray, FloatArray],
    weighting: Weighting,
) -> Round:
    """What the aggregation sees of a round in which these clients have these weights."""
    cohort, weights = selected
    return Round(
        state.round,
        view.clients,
        cohort,
        weights,
        weighting.is_normalised,
        view.shares,
        state.parameters,
        state.vectors,
        plan.learning_rate_of(state.round),
        plan.work.local_steps,
        plan.aggregation.trains_everyone,
    )


def advance(
    plan: Plan,
    state: State,
    view: View,
    *,
    trained: tuple[torch.Tensor, Vectors] | None = None,
    outcome: Outcome | None = None,
    cohort: IntArray | None = None,
    played: Played | None = None,
) -> State:
    """The state of the next round.

    Args:
        plan: the run.
        state: of this round.
        view: what the sampler saw.
        trained: theta^{t+1} and the vectors of the aggregation; None: no client trained.
        outcome: of the local training; None: no client trained.
        cohort: (m,) the selected clients; None: none was selected.
        played: the round in time; None: without a clock, or without a cohort.
    """
    counts, memory, weighting, time = state.counts, state.memory, state.weighting, state.time
    if cohort is not None:
        counts = counts.copy()
        counts[cohort] += 1
        if time is not None and played is not None:
            time = time.after(cohort, played)
    if outcome is not None and plan.remembers:
        memory = checked_memory(plan.remembers.observe(memory, view, outcome), "observe")
    if plan.weighting_observes:
        weighting = checked_memory(plan.weighting.observe(weighting, view, outcome), "observe")
    if trained is None:
        trained = _empty_round(plan, state, view)
    parameters, vectors = trained
    arrays = (memory, weighting, vectors, state.watched, time)
    return State(state.round + 1, parameters, counts, *arrays)


def _empty_round(plan: Plan, state: State, view: View) -> tuple[torch.Tensor, Vectors]:
    """Parameters and vectors after a round without a cohort."""
    nobody = (np.empty(0, dtype=np.int64), np.empty(0))
    round = aggregation_round(plan, state, view, selected=nobody, weighting=plan.weighting)
    with user_code(f"step of aggregation {_name(plan.aggregation)!r} in a round without a cohort"):
        return checked_step(plan.aggregation, round, ())


def round_record(
    plan: Plan,
    state: State,
    available: RoundAvailability,
    figures: "_Figures",
    *,
    selection: Selection | None = None,
    weights: FloatArray | None = None,
    played: Played | None = None,
) -> Record:
    """The record of a round; clients appear under their own keys."""
    names = plan.federation.clients.names
    status = available.status if selection is None else selection.status
    if selection is None:
        selection = Selection(np.empty(0, dtype=np.int64))
    return Record(
        round=state.round,
        available=list(available.names) if isinstance(available.names, list) else available.names,
        num_available=len(available.names),
        cohort=[names[k] for k in selection.clients.tolist()],
        draws=None if selection.draws is None else selection.draws.tolist(),
        weights=[] if weights is None else weights.tolist(),
        selection_status=status,
        selection_objective=selection.objective,
        selection_upper_bound=selection.upper_bound,
        **figures,
        **_time(state, played),
    )


def final_record(plan: Plan, state: State) -> Generator[Request, Reply, Record]:
    """Record T: the metrics of the final model."""
    figures = _figures((yield from evaluate(plan, state)))
    figures |= yield from evaluate_clients(plan, state, is_last=True)
    return Record(round=state.round, **figures, **_clock(state))


class _Figures(TypedDict, total=False):
    """The fields of a record that hold metrics."""

    test_loss: float
    test_accuracy: float | None
    valid_loss: float | None
    test_metrics: Mapping[str, float] | None
    per_client: Mapping[str, object] | None


def _figures(metrics: TestAndValidation | None) -> _Figures:
    if metrics is None:
        return {}
    test, valid = metrics
    return {
        "test_loss": test.loss,
        "test_accuracy": test.accuracy,
        "valid_loss": None if valid is None else valid.loss,
        "test_metrics": test.others,
    }


class _Time(TypedDict, total=False):
    """The fields of a record that hold its time."""

    clock: float
    seconds: float
    fates: list[str]
    worked: list[float]
    traffic: int
    ended: str | None


def _clock(state: State) -> _Time:
    """The clock alone, for a record of a model without a round."""
    return {} if state.time is None else {"clock": state.time.clock}


def _time(state: State, played: Played | None) -> _Time:
    """The time of a round; empty without a clock. A round without a cohort takes no time."""
    if state.time is None:
        return {}
    clock = state.time.clock
    if played is None:
        return _Time(clock=clock, seconds=0.0, fates=[], worked=[], traffic=0, ended=None)
    return {
        "clock": clock,
        "seconds": played.seconds,
        "fates": played.words,
        "worked": played.worked.tolist(),
        "traffic": played.traffic,
        "ended": played.ended,
    }

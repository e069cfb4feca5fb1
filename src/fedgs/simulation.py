"""One round of federated learning, as a generator that yields requests.

`run_round` is Algorithm 1 of the paper. It yields requests (`fedgs.requests`) and receives the
replies, so it does not depend on engines, devices or processes; `fedgs.driver` answers the requests
of many runs together. A round is a transaction: it takes a state and returns (state, record). If it
fails, the run keeps the state from before the round.
"""

from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch

from fedgs import rng
from fedgs.aggregation import Round, Vectors, checked_step, checked_vectors
from fedgs.arrays import FloatArray, IntArray, frozen
from fedgs.checkpoint import State
from fedgs.clients import Memory, Outcome, Selection, View
from fedgs.errors import user_code
from fedgs.features import feature_fold, feature_request
from fedgs.local.parameters import initial_parameters
from fedgs.optimizer_states import kept_states, start_states, states_of
from fedgs.plan import Plan, title_of
from fedgs.record import Record
from fedgs.requests import ClientMetrics, Evaluate, Losses, Metrics, Reply, Request, Train
from fedgs.round_records import Figures, TestAndValidation, clock_of, figures_of, round_record
from fedgs.sampler_answers import checked_candidates, checked_memory, checked_selection
from fedgs.sampling.base import LearnsFromModels, SharesMemory
from fedgs.system import Played, TimeState
from fedgs.weighting import Weighting, checked_weights, weighting_of_selection

__all__ = [
    "Requesting",
    "Shared",
    "final_record",
    "initial_state",
    "memory_key",
    "run_round",
    "start_run",
]

# A round, or the start of a run: it yields requests and receives their replies.
Requesting = Generator[Request, Reply, Any]
# Returns the memory of a key, which another run may have made, or calls the function that makes it.
Shared = Callable[[str, Callable[[], Memory]], Memory]


class _Trained(NamedTuple):
    """theta^{t+1}, the vectors of the aggregation, and the states of the clients' optimisers."""

    parameters: torch.Tensor
    vectors: Vectors
    optimizer: Vectors


def initial_state(plan: Plan, memory: Memory) -> State:
    """The state before round 0 with this memory.

    theta^0 depends on model, federation and seed alone.
    """
    clients = plan.federation.clients
    parameters = initial_parameters(plan.work.model, plan.federation, plan.seed)
    with user_code(f"start of weighting {title_of(plan.weighting)!r}"):
        weighting = checked_memory(plan.weighting.start(clients, plan.cohort_limit), "start")
    with user_code(f"start of aggregation {title_of(plan.aggregation)!r}"):
        vectors = checked_vectors(plan.aggregation, plan.aggregation.start(parameters, clients))
    counts = np.zeros(len(clients), dtype=np.int64)
    time = None if plan.time is None else TimeState.before_round_0(len(clients))
    optimizer = start_states(plan.work)
    state = State(0, parameters, counts, memory, weighting, vectors, time=time, optimizer=optimizer)
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
    figures = figures_of((yield from evaluate(plan, state)))
    if figures and plan.stopping.is_on:
        state = replace(state, watched=plan.stopping.extended(state.watched, figures))
        reason = plan.stopping.reason(state.watched, plan.lower_metrics)
        if reason is not None:
            figures |= yield from evaluate_clients(plan, state, is_last=True)
            return Record(round=state.round, stopped=reason, **figures, **clock_of(state))
    figures |= yield from evaluate_clients(plan, state)
    if plan.time is not None and plan.time.is_simulated and state.time is not None:
        begun = plan.time.begun(state.time)
        if begun is not state.time:
            state = replace(state, time=begun)
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
    if outcome is not None and len(outcome.weights) == len(cohort):
        weights = outcome.weights
    elif outcome is not None and played is not None:
        weights[played.in_time] = outcome.weights
    record = round_record(
        plan, state, available, figures, selection=selection, weights=weights, played=played
    )
    return after, record


def _played(plan: Plan, state: State, cohort: IntArray) -> Played | None:
    """What becomes of the cohort in time; None in a run without a clock."""
    if plan.time is None or state.time is None:
        return None
    return plan.time.play(state.round, state.time.clock, cohort, state.parameters.numel())


def evaluate(plan: Plan, state: State) -> Generator[Request, Reply, TestAndValidation | None]:
    """Metrics of theta^t on the test set and the validation parts, if this round is evaluated."""
    if not plan.evaluates(state.round):
        return None
    key = (plan.seed, state.round)
    test: Metrics = yield Evaluate(plan.work, state.parameters, "test", key, plan.metrics)
    if plan.federation.validation is None:
        return test, None
    valid: Metrics = yield Evaluate(
        plan.work,
        state.parameters,
        "validation",
        key,
        plan.metrics,
        clients=plan.evaluated,
    )
    return test, valid


def evaluate_clients(
    plan: Plan, state: State, *, is_last: bool = False
) -> Generator[Request, Reply, Figures]:
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
    reply: ClientMetrics = yield Evaluate(
        plan.work, state.parameters, split, key, by_client=True, clients=plan.evaluated
    )
    figures: dict[str, object] = {"part": split, "loss": _without_nan(reply.losses)}
    if plan.sample is not None:
        figures["sample"] = plan.sample
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
) -> Generator[Request, Reply, tuple[_Trained, Outcome]]:
    """The local training of the cohort and its aggregation."""
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
        states=states_of(state.optimizer, round.trainees),
    )
    replies, optimizer = kept_states(state.optimizer, round.trainees, replies)
    if wish is not None:
        features = frozen(replies[own_folds])
    reports = {} if not plan.reports else {n: frozen(v) for n, v in replies[-1].items()}
    outcome = Outcome(frozen(cohort), frozen(weights), features, reports)
    return _Trained(*checked_step(aggregation, round, replies[:own_folds]), optimizer), outcome


def train_without_cohort(
    plan: Plan, state: State, view: View
) -> Generator[Request, Reply, _Trained | None]:
    """The training of all clients in a round without a cohort, where the aggregation has it.

    Returns:
        None where no client trains.
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
        states=states_of(state.optimizer, round.trainees),
    )
    replies, optimizer = kept_states(state.optimizer, round.trainees, replies)
    return _Trained(*checked_step(aggregation, round, replies), optimizer)


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
    trained: _Trained | None = None,
    outcome: Outcome | None = None,
    cohort: IntArray | None = None,
    played: Played | None = None,
) -> State:
    """The state of the next round.

    Args:
        plan: the run.
        state: of this round.
        view: what the sampler saw.
        trained: what follows from the local training; None: no client trained.
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
    parameters, vectors, optimizer = trained
    arrays = (memory, weighting, vectors, state.watched, time, optimizer)
    return State(state.round + 1, parameters, counts, *arrays)


def _empty_round(plan: Plan, state: State, view: View) -> _Trained:
    """What follows from a round without a cohort."""
    nobody = (np.empty(0, dtype=np.int64), np.empty(0))
    round = aggregation_round(plan, state, view, selected=nobody, weighting=plan.weighting)
    with user_code(
        f"step of aggregation {title_of(plan.aggregation)!r} in a round without a cohort"
    ):
        return _Trained(*checked_step(plan.aggregation, round, ()), state.optimizer)


def final_record(plan: Plan, state: State) -> Generator[Request, Reply, Record]:
    """Record T: the metrics of the final model."""
    figures = figures_of((yield from evaluate(plan, state)))
    figures |= yield from evaluate_clients(plan, state, is_last=True)
    return Record(round=state.round, **figures, **clock_of(state))

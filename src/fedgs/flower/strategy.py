"""A Flower strategy that selects clients with a sampler.

Another strategy configures the requests and aggregates the replies.
"""

import dataclasses
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy

from fedgs.arrays import FloatArray
from fedgs.clients import Clients, Outcome, Selection
from fedgs.errors import ConfigError, OutputError, RunError
from fedgs.flower.arrivals import connected
from fedgs.flower.directory import Directory
from fedgs.flower.evaluation import ClientEvaluation
from fedgs.flower.exchange import CohortGrid, DeadlineGrid, exchange, resend
from fedgs.flower.features import Parameters, Responses
from fedgs.flower.flight import InFlight, ModelMetrics
from fedgs.flower.inner import Inner, restored_arrays, saved_arrays
from fedgs.flower.journal import Journal, Request, listed
from fedgs.flower.records import DeploymentRecords
from fedgs.flower.replies import (
    ACCURACIES,
    LOSSES,
    Reply,
    arrays_of,
    finite,
    first_metric,
    refuse_unlike,
)
from fedgs.flower.reports import reports_of
from fedgs.flower.roster import Key
from fedgs.flower.selector import Selector
from fedgs.flower.settings import Settings
from fedgs.flower.state import read_state, refuse_foreign_state, write_state
from fedgs.flower.sums import scale_updates
from fedgs.records import Record
from fedgs.registry import build, table
from fedgs.sampling.base import Sampler

__all__ = ["SampledStrategy"]

EvaluateFn = Callable[[int, ArrayRecord], MetricRecord | None]

_logger = logging.getLogger(__name__)


class SampledStrategy(Strategy):  # type: ignore[misc, unused-ignore]
    """Select clients with a sampler; configure and aggregate with another Flower strategy.

    A round maps the available nodes to client keys and lets the sampler select the cohort, which
    `inner` configures. It waits for replies until a deadline and refuses invalid ones; `inner`
    averages the others with the sampler's weights. A round without a cohort keeps the model.
    Nothing here trains or needs torch.

    Args:
        inner: FedAvg, FedAvgM, FedProx, FedAdagrad, FedAdam, FedYogi or a strategy derived from
            them. Its fractions and minima are read, then switched off in a copy.
        sampler: a sampler or its class, a decorated function, a name, or a table with `name`.
        clients: a federation that is known in advance: keys, data sizes and, for the graph, label
            counts or features. Its order is the order of the rows. None: clients are met as they
            connect.
        responses: for `graph.similarity = "functional"`: local model by name -> (d,) its mean
            response to a noise batch.
        parameters: for `graph.similarity = "update"`: which arrays of the model are parameters, as
            names or a function of a name. None: the floating-point arrays except running_mean,
            running_var and num_batches_tracked.
        settings: see `fedgs.flower.settings.Settings`: cohort_limit, min_connected,
            sufficient_replies, connect_timeout, describe, describe_timeout, reply_timeout,
            evaluate_timeout, max_idle_rounds, newcomer_count, seed, records, state.

    Raises:
        ConfigError: a strategy that ignores weights or chooses by itself, a sampler that cannot
            work here, a bad setting.

    >>> from flwr.serverapp.strategy import FedAvg
    >>> SampledStrategy(FedAvg(fraction_train=0.5), sampler="uniform").round
    0
    """

    def __init__(
        self,
        inner: Strategy,
        sampler: Sampler | Callable[..., Sampler | Selection] | str | Mapping[str, object],
        *,
        clients: Clients | None = None,
        responses: Responses | None = None,
        parameters: Parameters | None = None,
        **settings: Any,  # each is checked by `Settings`
    ) -> None:
        self._inner = Inner.of(inner)
        built = build("method", sampler)
        if not isinstance(built, Sampler):
            raise ConfigError(f"sampler must be a sampler, got {built!r}")
        self._settings = checked = Settings(**settings)
        self._selector = Selector(
            built,
            seed=checked.seed,
            newcomer=checked.newcomer_count,
            clients=clients,
            responses=responses,
            parameters=parameters,
        )
        describe_timeout = min(checked.describe_timeout, checked.connect_timeout)
        self._directory = Directory(timeout=describe_timeout, asks=checked.describe)
        size: dict[str, object] = {"cohort_limit": checked.cohort_limit}
        if checked.cohort_limit is None:
            size = {"proportion": float(self._inner.fraction_train)}
        aggregation = {
            "strategy": type(inner).__name__,
            "fraction_evaluate": float(self._inner.fraction_evaluate),
        }
        training = {**size, **checked.limits(), **aggregation}
        self._records = DeploymentRecords(
            checked.records, built, training=training, seed=checked.seed
        )
        self._metrics: dict[int, ModelMetrics] = {}
        self._now = InFlight()
        self._idle = 0  # aborted rounds in a row
        self._journal = Journal()
        self._reply_timeout = checked.reply_timeout
        evaluate_timeout = min(checked.evaluate_timeout, checked.reply_timeout)
        self._evaluation = ClientEvaluation(
            self._inner, self._selector, self._journal, timeout=evaluate_timeout
        )

    @property
    def round(self) -> int:
        """Rounds done, those before a restart included: the index t of the next one."""
        return self._selector.state.round

    @property
    def counts(self) -> dict[Key, int]:
        """How often each client has been selected."""
        roster = self._selector.roster
        return dict(zip(roster.keys, roster.counts.tolist(), strict=True))

    @property
    def answers(self) -> dict[Key, int]:
        """How many replies of each client have entered an average."""
        roster = self._selector.roster
        return dict(zip(roster.keys, roster.answers.tolist(), strict=True))

    def summary(self) -> None:
        """Log the sampler and the settings, then the inner strategy's own summary.

        The inner strategy's choice of nodes, which is not made, is left out.
        """
        settings = table(self._selector.sampler)
        described = ", ".join(f"{key}={value}" for key, value in settings.items() if key != "name")
        _logger.info("sampler %s (%s), %s", self._sampler_name(), described, self._settings)
        with self._inner.undisturbed() as inner:
            inner.summary()

    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord,
        num_rounds: int = 3,
        timeout: float = 3600,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: EvaluateFn | None = None,
    ) -> Result:
        """Run `num_rounds` more rounds.

        Arguments and result are those of Flower's strategies, and so is their order.

        Args:
            grid: connects to the nodes.
            initial_arrays: the global model of the first round.
            num_rounds: how many rounds.
            timeout: the most seconds to wait for replies; `reply_timeout` may be shorter.
            train_config: of the training requests.
            evaluate_config: of the evaluation requests.
            evaluate_fn: number of rounds done, those before a restart included, and global model
                -> metrics on a test set.

        Raises:
            OutputError: `records` or `state` holds content of something else; nothing has been
                written.
            RunError: `max_idle_rounds` rounds in a row were aborted, or two live nodes have one
                client key; records and state have been written.
        """
        before, settings = self.round, self._settings
        self._reply_timeout = min(timeout, settings.reply_timeout)
        self._evaluation.timeout = min(settings.evaluate_timeout, self._reply_timeout)
        self._idle, self._journal.last = 0, before + num_rounds
        with self._journal.heard():
            self._open(initial_arrays, rounds=before + num_rounds)
            if before:
                _logger.info(
                    "continuing after %d rounds: Flower's ROUND 1/%d is round %d",
                    before,
                    num_rounds,
                    before + 1,
                )
            try:
                result = super().start(
                    DeadlineGrid(grid, self._exchange),
                    initial_arrays,
                    num_rounds,
                    self._reply_timeout,
                    train_config,
                    evaluate_config,
                    None if evaluate_fn is None else self._noting(evaluate_fn, before),
                )
            except Exception as error:
                self._records.add_events(self._journal.taken())
                self._write_clients(last=True)
                self._records.fail(self.round, error)
                raise
            if self._idle:
                text = "rounds aborted at the end: %d; the model is that of round %d"
                _logger.warning(text, self._idle, self.round - self._idle)
        if not result.arrays:
            result.arrays = initial_arrays
        metrics = dataclasses.asdict(self._metrics_of(self.round))
        self._records.add(Record(round=self.round, **metrics), None, self._journal.taken())
        self._write_clients(last=True)
        return result

    def _noting(self, evaluate_fn: EvaluateFn, before: int) -> EvaluateFn:
        """The function, with its metrics noted and the rounds before a restart counted."""

        def evaluate(server_round: int, arrays: ArrayRecord) -> MetricRecord | None:
            done = before + server_round
            metrics = evaluate_fn(done, arrays)
            self._metrics[done] = dataclasses.replace(
                self._metrics_of(done),
                test_loss=first_metric(metrics, LOSSES),
                test_accuracy=first_metric(metrics, ACCURACIES),
            )
            return metrics

        return evaluate

    def _open(self, initial_arrays: ArrayRecord, *, rounds: int) -> None:
        """Check the model and the output files, then begin the files."""
        state = self._selector.state
        self._selector.check_model(arrays_of(initial_arrays))
        path = None if self._settings.state is None else Path(self._settings.state)
        if path is not None:
            refuse_foreign_state(path, state.run_id)
        self._records.check(self.round, state.run_id, beside=path)
        try:
            # The state comes before the records: a restart finds the run id that marks them.
            if path is not None and not path.exists():
                self.save_state(path)
            valid_loss = self._records.begin(self.round, state.run_id, rounds=rounds)
        except OSError as error:
            raise OutputError(
                f"records and state must be places that can be written, got {error}"
            ) from None
        if valid_loss is not None:
            self._note_valid_loss(valid_loss)

    # One round of training.

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Requests to the selected clients, as `inner` configures them.

        There are none if the round is aborted or the cohort is empty.
        """
        self._now = now = InFlight(sent=arrays_of(arrays))
        nodes = self._connected(grid)
        now.available = sorted(nodes)
        if now.aborted:
            return []
        view = self._selector.view(np.array(now.available, dtype=np.int64), self._cohort_limit())
        now.limit = view.cohort_limit
        view = self._evaluation.with_losses(grid, view, nodes, arrays)
        if len(view.available) == 0:
            self._abort("no client told its loss", clients=self._names(now.available))
            return []
        now.view, now.selection = view, self._selector.select(view)
        rows = now.selection.clients.tolist()
        self._journal.line(
            self.round,
            "%s selects %d of %d available clients: %s",
            self._sampler_name(),
            len(rows),
            len(now.available),
            listed(self._names(rows)),
        )
        if not rows:
            none = f"the sampler selected none of {len(view.available)} available clients"
            self._event("empty", None, f"{none}; the model stays")
            now.lap("select")
            return []
        row_of = {nodes[row]: row for row in rows}
        cohort = CohortGrid(grid, list(row_of))
        with self._inner.undisturbed() as inner:
            messages = list(inner.configure_train(self.round + 1, arrays, config, cohort))
        now.messages = self._addressed(messages, row_of)
        now.lap("select")
        return list(now.messages.values())

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Check the replies and let `inner` average them with the sampler's weights.

        There is no result if too few replies are valid.
        """
        now = self._now
        now.lap("train")
        good = self._good_replies(replies)
        arrays, metrics = None, None
        cohort_size = 0 if now.selection is None else len(now.selection.clients)
        weights: FloatArray = np.zeros(cohort_size)
        if cohort_size:
            every = self._settings.sufficient_replies is None
            needed = 1 if every else self._enough(len(now.messages))
            if len(good) < needed:
                missing = self._names(row for row in now.messages if row not in good)
                counts = f"{len(good)} came, {needed} needed"
                self._abort(f"good replies: {counts}; missing: {missing}", clients=missing)
            else:
                arrays, metrics, weights = self._average(good)
            text = "%d of %d selected clients replied usefully"
            self._journal.line(self.round, text, len(good), cohort_size)
        self._idle = 0 if arrays is not None else self._idle + now.aborted
        self._finish_round(arrays, weights)
        if self._idle and self._idle == self._settings.max_idle_rounds:
            advice = "load_state continues after them"
            if self._settings.state is None:
                advice = "save_state keeps the model"
            raise RunError(
                f"the last {self._idle} rounds were aborted (max_idle_rounds = {self._idle}), the "
                f"last of them: {now.why}; {self.round} rounds are done, and {advice}"
            )
        return arrays, metrics

    def _connected(self, grid: Grid) -> dict[int, int]:
        """Row -> node id of the available clients, once enough are; aborts at the deadline."""
        needed, timeout = self._settings.min_connected, self._settings.connect_timeout
        if needed is None:
            needed = max(1, self._inner.min_available_nodes)
        node_of, why = connected(
            grid, self._directory, self._selector, self._journal, needed=needed, timeout=timeout
        )
        if why is not None:
            self._abort(why, clients=list(node_of))
        return {self._selector.roster.admit(key): node for key, node in node_of.items()}

    def _cohort_limit(self) -> int:
        """M of this round."""
        if self._settings.cohort_limit is not None:
            return self._settings.cohort_limit
        share = int(self._inner.fraction_train * len(self._selector.roster) + 1e-9)
        return max(1, share, self._inner.min_train_nodes)

    def _addressed(
        self, messages: Sequence[Message], row_of: Mapping[int, int]
    ) -> dict[int, Message]:
        """The messages by row, with a lifetime that fits the deadline."""
        timeout, group = self._reply_timeout, str(self.round + 1)
        by_row = {row_of[message.metadata.dst_node_id]: message for message in messages}
        return {row: resend(by_row[row], timeout=timeout, group=group) for row in sorted(by_row)}

    def _exchange(
        self, grid: Grid, messages: Iterable[Message], timeout: float | None
    ) -> list[Message]:
        """Send and wait: for training until enough valid replies have arrived, else for all."""
        sent = list(messages)
        training = bool(sent) and sent[0].metadata.message_type.startswith(MessageType.TRAIN)
        limit = self._reply_timeout if timeout is None else min(timeout, self._reply_timeout)
        if not training:
            return self._evaluation.exchange(grid, sent)
        accept = partial(self._now.accepts, weighted_by_key=self._inner.strategy.weighted_by_key)
        return exchange(grid, sent, timeout=limit, enough=self._enough(len(sent)), accept=accept)

    def _enough(self, cohort_size: int) -> int:
        wanted = self._settings.sufficient_replies
        return cohort_size if wanted is None else min(wanted, cohort_size)

    def _good_replies(self, replies: Iterable[Message]) -> dict[int, Reply]:
        """Row -> reply that may enter the average, in the order of the rows.

        Each other client of the cohort is an event.
        """
        now = self._now
        for message in replies:
            now.accepts(message, weighted_by_key=self._inner.strategy.weighted_by_key)
        ordered = [(row, now.replies[row]) for row in sorted(now.replies)]
        refuse_unlike([reply for _, reply in ordered if reply.refused is None])
        silent = f"no reply within {self._reply_timeout:g} s or before enough others had come"
        for row in now.messages:
            key, reply = self._selector.roster.keys[row], now.replies.get(row)
            if reply is None:
                self._event("silent", key, silent)
            elif reply.refused is not None:
                kind = "failed" if reply.message.has_error() else "refused"
                self._event(kind, key, reply.refused)
        return {row: reply for row, reply in ordered if reply.refused is None}

    def _average(
        self, good: Mapping[int, Reply]
    ) -> tuple[ArrayRecord | None, MetricRecord | None, FloatArray]:
        """The inner strategy's average of the valid replies, and the cohort's weights."""
        now, key = self._now, self._inner.strategy.weighted_by_key
        assert now.view is not None
        assert now.selection is not None
        sizes = {row: reply.examples for row, reply in good.items()}
        weights = self._selector.weights(now.view, now.selection, sizes)
        for row, weight in zip(now.selection.clients.tolist(), weights.tolist(), strict=True):
            if row in good:
                good[row].metrics[key] = weight
                why = self._selector.learn(
                    row, size=good[row].examples, sent=now.sent, local=good[row].arrays
                )
                if why is not None:
                    self._event("feature", self._selector.roster.keys[row], why)
        messages = [reply.message for reply in good.values()]
        if not self._selector.sums_to_one(now.selection):
            self._apply_as_sum(good, float(weights.sum()))
        with self._inner.undisturbed() as inner:
            arrays, metrics = inner.aggregate_train(self.round + 1, messages)
        if arrays is not None and not all(finite(array) for array in arrays_of(arrays).values()):
            self._abort("the average is not finite (NaN or inf)", clients=self._names(good))
            return None, None, np.zeros_like(weights)
        rows = np.array(sorted(good), dtype=np.int64)
        reports, problems = reports_of(self._selector.sampler, good)
        for row, why in problems.items():
            self._event("report", self._selector.roster.keys[row], why)
        applied = weights[np.isin(now.selection.clients, rows)]
        now.outcome = Outcome(rows, applied, reports=reports)
        self._selector.observe(now.view, now.outcome)
        return arrays, metrics, weights

    def _apply_as_sum(self, good: Mapping[int, Reply], total: float) -> None:
        """Let the average of the replies be theta plus the weighted sum of their updates."""
        scale_updates((reply.message for reply in good.values()), sent=self._now.sent, total=total)
        if total == 0:  # no update counts; the inner strategy cannot divide by zero
            for reply in good.values():
                reply.metrics[self._inner.strategy.weighted_by_key] = 1.0

    def _finish_round(self, arrays: ArrayRecord | None, weights: FloatArray) -> None:
        """Write the record and the state; the next round begins."""
        now, state, keys = self._now, self._selector.state, self._selector.roster.keys
        metrics = self._metrics_of(state.round)
        record = now.record(state.round, keys, weights=weights, metrics=metrics)
        state.model = now.sent if arrays is None else arrays_of(arrays)
        self._selector.observe_weights(
            now.view,
            None if arrays is None else now.outcome,
            available=np.array(now.available, dtype=np.int64),
            cohort_limit=self._cohort_limit() if now.limit is None else now.limit,
        )
        state.round += 1
        self._write_clients()
        now.lap("aggregate")
        self._records.add(record, now.seconds, self._journal.taken())
        if self._settings.state is not None:
            self.save_state(self._settings.state)

    # Evaluation by clients.

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Requests to as many connected clients as `inner` was set to evaluate with.

        They are drawn by the seed. This never waits for clients.
        """
        node_of = self._directory.listed(grid.get_node_ids())
        return self._evaluation.configure(node_of, arrays, config, grid)

    def aggregate_evaluate(
        self, server_round: int, replies: Iterable[Message]
    ) -> MetricRecord | None:
        """The inner strategy's average of the valid replies, without clients without examples."""
        metrics = self._evaluation.aggregate(replies)
        if metrics is not None:
            self._note_valid_loss(first_metric(metrics, LOSSES))
        self._records.add_events(self._journal.taken())
        return metrics

    # State.

    def save_state(self, path: str | Path) -> None:
        """Write the state that a restarted ServerApp continues from.

        It holds keys, counts, answers, sizes, features, round, seed and the model.
        """
        state = self._selector.state
        memory, carried = self._selector.saved_memory(), saved_arrays(self._inner.strategy)
        saved = dataclasses.replace(state, memory=memory, optimizer=carried)
        write_state(Path(path), saved, sampler=table(self._selector.sampler))

    def load_state(self, path: str | Path) -> ArrayRecord | None:
        """Continue where `save_state` was called.

        Returns:
            The model of that time for `start`, or None before round 0.

        Raises:
            OutputError: no such file, not a state, or the state of another sampler or seed.
        """
        state = read_state(
            Path(path), sampler=table(self._selector.sampler), seed=self._settings.seed
        )
        self._selector.resume(state)
        restored_arrays(self._inner.strategy, dict(state.optimizer))
        if not state.model:
            return None
        return ArrayRecord({name: Array(array) for name, array in state.model.items()})

    # Small things.

    def _write_clients(self, *, last: bool = False) -> None:
        if len(self._selector.roster):
            clients, memory = self._selector.clients(), self._selector.state.memory
            self._records.write_clients(clients, memory, cohort_limit=self._now.limit, last=last)

    def _abort(self, why: str, clients: Sequence[Key]) -> None:
        self._now.aborted, self._now.why = True, why
        self._journal.aborted(self.round, why, clients)

    def _event(
        self,
        kind: str,
        client: Key | None,
        detail: str,
        *,
        request: Request = "train",
        **more: object,
    ) -> None:
        self._journal.event(self.round, kind, client, detail, request=request, **more)

    def _sampler_name(self) -> str:
        return self._selector.sampler.name or type(self._selector.sampler).__name__

    def _names(self, rows: Iterable[int]) -> list[Key]:
        return [self._selector.roster.keys[row] for row in rows]

    def _metrics_of(self, round: int) -> ModelMetrics:
        return self._metrics.get(round, ModelMetrics())

    def _note_valid_loss(self, loss: float | None) -> None:
        known = self._metrics_of(self.round)
        self._metrics[self.round] = dataclasses.replace(known, valid_loss=loss)

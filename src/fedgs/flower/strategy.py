"""A Flower strategy that selects clients with a sampler and leaves configuring and aggregating to another strategy."""

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
from fedgs.clients import Clients
from fedgs.errors import ConfigError, OutputError, RunError
from fedgs.flower.arrivals import connected
from fedgs.flower.directory import Directory
from fedgs.flower.evaluation import ClientEvaluation
from fedgs.flower.exchange import CohortGrid, DeadlineGrid, exchange, resend
from fedgs.flower.features import Parameters, Responses
from fedgs.flower.flight import InFlight
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
from fedgs.flower.roster import Key
from fedgs.flower.selector import Selector
from fedgs.flower.settings import Settings
from fedgs.flower.state import read_state, refuse_foreign_state, write_state
from fedgs.records import Record
from fedgs.registry import build, table
from fedgs.sampling.base import Sampler

__all__ = ["SampledStrategy"]

_logger = logging.getLogger(__name__)


class SampledStrategy(Strategy):  # type: ignore[misc, unused-ignore]
    """Select clients with a sampler; configure and aggregate with another Flower strategy.

    A round takes the nodes that are on line, maps them to client keys, lets the sampler select, has
    `inner` configure exactly the cohort, waits for replies until a deadline, refuses those that do
    not fit, and has `inner` average the others with the sampler's weights. An empty round keeps the
    model. Nothing here trains or needs torch.

    Args:
        inner: FedAvg, FedAvgM, FedProx, FedAdagrad, FedAdam, FedYogi or a strategy derived from
            them. Its fractions and minima are read, then switched off in a copy.
        sampler: a sampler, its name, or a table with `name`.
        clients: a federation that is known beforehand: keys, data sizes and, for the graph, label
            counts or features. Its order is the order of the rows. None: clients are met as they
            come.
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
        sampler: Any,
        *,
        clients: Clients | None = None,
        responses: Responses | None = None,
        parameters: Parameters | None = None,
        **settings: Any,
    ) -> None:
        self._inner = Inner.of(inner)
        chosen = build("method", sampler)
        if not isinstance(chosen, Sampler):
            raise ConfigError(f"sampler must be a sampler, got {chosen!r}")
        self._settings = Settings(**settings)
        self._selector = Selector(
            chosen,
            seed=self._settings.seed,
            newcomer=self._settings.newcomer_count,
            clients=clients,
            responses=responses,
            parameters=parameters,
        )
        own = self._settings
        self._directory = Directory(
            timeout=min(own.describe_timeout, own.connect_timeout), asks=own.describe
        )
        limit = own.cohort_limit
        size = (
            {"proportion": float(self._inner.fraction_train)}
            if limit is None
            else {"cohort_limit": limit}
        )
        aggregation = {
            "strategy": type(inner).__name__,
            "fraction_evaluate": float(self._inner.fraction_evaluate),
        }
        self._records = DeploymentRecords(
            own.records, chosen, training={**size, **own.limits(), **aggregation}, seed=own.seed
        )
        self._metrics: dict[int, dict[str, Any]] = {}
        self._now = InFlight()
        self._idle = 0  # aborted rounds in a row
        self._journal = Journal()
        self._evaluation = ClientEvaluation(
            self._inner,
            self._selector,
            self._journal,
            timeout=min(own.evaluate_timeout, own.reply_timeout),
        )
        self._reply_timeout = own.reply_timeout

    @property
    def round(self) -> int:
        """Rounds done, those before a restart included: the index t of the next one."""
        return self._selector.state.round

    @property
    def counts(self) -> dict[Key, int]:
        """How often each client has been selected."""
        return dict(
            zip(self._selector.roster.keys, self._selector.roster.counts.tolist(), strict=True)
        )

    @property
    def answers(self) -> dict[Key, int]:
        """How many replies of each client have entered an average."""
        return dict(
            zip(self._selector.roster.keys, self._selector.roster.answers.tolist(), strict=True)
        )

    def summary(self) -> None:
        """Log what is selected how, then the inner strategy's own summary without its choice of nodes."""
        told = ", ".join(
            f"{name}={value}"
            for name, value in table(self._selector.sampler).items()
            if name != "name"
        )
        _logger.info("sampler %s (%s), %s", self._sampler_name(), told, self._settings)
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
        evaluate_fn: Callable[[int, ArrayRecord], MetricRecord | None] | None = None,
    ) -> Result:
        """Run `num_rounds` more rounds; arguments and result are those of Flower's strategies.

        `evaluate_fn` is called with the number of rounds done, those before a restart included.

        Raises:
            OutputError: `records` or `state` holds something that is not of this deployment;
                nothing has been written.
            RunError: `max_idle_rounds` rounds in a row were aborted, or two live nodes have one
                client key; records and state have been written.
        """
        before, own = self.round, self._settings
        self._reply_timeout = min(timeout, own.reply_timeout)
        self._evaluation.timeout = min(own.evaluate_timeout, self._reply_timeout)
        self._idle, self._journal.last = 0, before + num_rounds

        def evaluate(server_round: int, arrays: ArrayRecord) -> MetricRecord | None:
            assert evaluate_fn is not None
            done = before + server_round
            metrics = evaluate_fn(done, arrays)
            self._note(
                done,
                test_loss=first_metric(metrics, LOSSES),
                test_accuracy=first_metric(metrics, ACCURACIES),
            )
            return metrics

        asking, observed = (
            DeadlineGrid(grid, self._exchange),
            None if evaluate_fn is None else evaluate,
        )
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
                    asking,
                    initial_arrays,
                    num_rounds,
                    self._reply_timeout,
                    train_config,
                    evaluate_config,
                    observed,
                )
            except Exception as error:
                self._records.add_events(self._journal.taken())
                self._describe(last=True)
                self._records.fail(self.round, error)
                raise
            if self._idle:
                useful = self.round - self._idle
                _logger.warning(
                    "rounds aborted at the end: %d; the model is that of round %d",
                    self._idle,
                    useful,
                )
        if not result.arrays:
            result.arrays = initial_arrays
        self._records.add(
            Record(round=self.round, **self._metrics.get(self.round, {})),
            None,
            self._journal.taken(),
        )
        self._describe(last=True)
        return result

    def _open(self, initial_arrays: ArrayRecord, *, rounds: int) -> None:
        """Check what was given and where it goes, then begin the files."""
        own, state = self._settings, self._selector.state
        self._selector.check_model(arrays_of(initial_arrays))
        kept = None if own.state is None else Path(own.state)
        if kept is not None:
            refuse_foreign_state(kept, state.run_id)
        self._records.check(self.round, state.run_id, beside=kept)
        try:
            if kept is not None and not kept.exists():
                self.save_state(
                    kept
                )  # before the records: a restart finds the run id that they are marked with
            valid_loss = self._records.begin(self.round, state.run_id, rounds=rounds)
        except OSError as error:
            raise OutputError(
                f"records and state must be places that can be written, got {error}"
            ) from None
        if valid_loss is not None:
            self._note(self.round, valid_loss=valid_loss)

    # --- one round of training
    # -------------------------------------------------------------------------------------------------

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Requests to the selected clients, as `inner` configures them; none if the round is aborted or the cohort is empty."""
        self._now = now = InFlight(sent=arrays_of(arrays))
        nodes = self._connected(grid)
        now.available = sorted(nodes)
        if now.gave_up:
            return []
        view = self._selector.view(np.array(now.available, dtype=np.int64), self._cohort_limit())
        now.limit = view.cohort_limit
        view = self._evaluation.with_losses(grid, view, nodes, arrays)
        if len(view.available) == 0:
            self._give_up("no client told its loss", clients=self._names(now.available))
            return []
        now.view, now.selection = view, self._selector.select(view)
        cohort = [nodes[row] for row in now.selection.clients.tolist()]
        self._journal.line(
            self.round,
            "%s selects %d of %d available clients: %s",
            self._sampler_name(),
            len(cohort),
            len(now.available),
            listed(self._names(now.selection.clients.tolist())),
        )
        if not cohort:
            self._event(
                "empty",
                None,
                f"the sampler selected none of {len(view.available)} available clients; the model stays",
            )
            now.lap("select")
            return []
        with self._inner.undisturbed() as inner:
            made = list(
                inner.configure_train(self.round + 1, arrays, config, CohortGrid(grid, cohort))
            )
        now.messages = self._addressed(
            made, {nodes[row]: row for row in now.selection.clients.tolist()}
        )
        now.lap("select")
        return list(now.messages.values())

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Check the replies, give them the sampler's weights and have `inner` average them; nothing if too few are good."""
        now = self._now
        now.lap("train")
        good = self._good_replies(replies)
        arrays, metrics, weights = (
            None,
            None,
            np.zeros(0 if now.selection is None else len(now.selection.clients)),
        )
        needed = (
            self._enough(len(now.messages)) if self._settings.sufficient_replies is not None else 1
        )
        chosen = now.selection is not None and len(now.selection.clients) > 0
        if chosen and len(good) < needed:
            silent = self._names(row for row in now.messages if row not in good)
            self._give_up(
                f"good replies: {len(good)} came, {needed} needed; missing: {silent}",
                clients=silent,
            )
        elif chosen:
            arrays, metrics, weights = self._average(good)
        if chosen:
            self._journal.line(
                self.round, "%d of %d selected clients replied usefully", len(good), len(weights)
            )
        self._idle = 0 if arrays is not None else self._idle + now.gave_up
        self._finish_round(arrays, weights)
        if self._idle and self._idle == self._settings.max_idle_rounds:
            kept = (
                "save_state keeps the model"
                if self._settings.state is None
                else "load_state continues after them"
            )
            raise RunError(
                f"the last {self._idle} rounds were aborted (max_idle_rounds = {self._settings.max_idle_rounds}), the "
                f"last of them: {now.why}; {self.round} rounds are done, and {kept}"
            )
        return arrays, metrics

    def _connected(self, grid: Grid) -> dict[int, int]:
        """Row -> node id of the clients on line, once enough are; gives up at the deadline."""
        settings = self._settings
        needed = (
            settings.min_connected
            if settings.min_connected is not None
            else max(1, self._inner.min_available_nodes)
        )
        timeout = settings.connect_timeout
        found, why = connected(
            grid, self._directory, self._selector, self._journal, needed=needed, timeout=timeout
        )
        if why is not None:
            self._give_up(why, clients=list(found))
        return {self._selector.roster.admit(key): node for key, node in found.items()}

    def _cohort_limit(self) -> int:
        """M of this round."""
        if self._settings.cohort_limit is not None:
            return self._settings.cohort_limit
        share = int(self._inner.fraction_train * len(self._selector.roster) + 1e-9)
        return max(1, share, self._inner.min_train_nodes)

    def _addressed(self, made: Sequence[Message], row_of: Mapping[int, int]) -> dict[int, Message]:
        """The messages by row, with a life that fits the deadline."""
        ordered = sorted(made, key=lambda message: row_of[message.metadata.dst_node_id])
        return {
            row_of[message.metadata.dst_node_id]: resend(
                message, timeout=self._reply_timeout, group=str(self.round + 1)
            )
            for message in ordered
        }

    def _exchange(
        self, grid: Grid, messages: Iterable[Message], timeout: float | None
    ) -> list[Message]:
        """Send and wait: for training until enough good replies have come, else for all."""
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
        """Row -> reply that may enter the average, in the order of the rows; the others are reported by client."""
        now = self._now
        for message in replies:
            now.accepts(message, weighted_by_key=self._inner.strategy.weighted_by_key)
        refuse_unlike(
            [now.replies[row] for row in sorted(now.replies) if now.replies[row].refused is None]
        )
        for row in now.messages:
            key, reply = self._selector.roster.keys[row], now.replies.get(row)
            if reply is None:
                self._event(
                    "silent",
                    key,
                    f"no reply within {self._reply_timeout:g} s or before enough others had come",
                )
            elif reply.refused is not None:
                self._event(
                    "failed" if reply.message.has_error() else "refused", key, reply.refused
                )
        return {
            row: now.replies[row] for row in sorted(now.replies) if now.replies[row].refused is None
        }

    def _average(
        self, good: Mapping[int, Reply]
    ) -> tuple[ArrayRecord | None, MetricRecord | None, FloatArray]:
        """The inner strategy's answer for the good replies under the sampler's weights, and the cohort's weights."""
        now, key = self._now, self._inner.strategy.weighted_by_key
        assert now.view is not None
        assert now.selection is not None
        weights = self._selector.weights(
            now.view, now.selection, {row: reply.examples for row, reply in good.items()}
        )
        for row, weight in zip(now.selection.clients.tolist(), weights.tolist(), strict=True):
            if row in good:
                good[row].metrics[key] = weight
                why = self._selector.learn(
                    row, size=good[row].examples, sent=now.sent, local=good[row].arrays
                )
                if why is not None:
                    self._event("feature", self._selector.roster.keys[row], why)
        with self._inner.undisturbed() as inner:
            arrays, metrics = inner.aggregate_train(
                self.round + 1, [reply.message for reply in good.values()]
            )
        if arrays is not None and not all(finite(array) for array in arrays_of(arrays).values()):
            self._give_up("the average is not finite (NaN or inf)", clients=self._names(good))
            return None, None, np.zeros_like(weights)
        self._selector.observe(
            now.view, np.array(sorted(good), dtype=np.int64), weights[weights > 0]
        )
        return arrays, metrics, weights

    def _finish_round(self, arrays: ArrayRecord | None, weights: FloatArray) -> None:
        """Write the record and the state; the next round begins."""
        now, state, keys = self._now, self._selector.state, self._selector.roster.keys
        record = now.record(state.round, keys, weights, self._metrics.get(state.round, {}))
        state.model = now.sent if arrays is None else arrays_of(arrays)
        state.round += 1
        self._describe()
        now.lap("aggregate")
        self._records.add(record, now.seconds, self._journal.taken())
        if self._settings.state is not None:
            self.save_state(self._settings.state)

    # --- evaluation by clients
    # -------------------------------------------------------------------------------------------------

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """As many of the connected clients as `inner` was set to evaluate with, drawn by the seed; never waits."""
        return self._evaluation.configure(
            self._directory.listed(grid.get_node_ids()), arrays, config, grid
        )

    def aggregate_evaluate(
        self, server_round: int, replies: Iterable[Message]
    ) -> MetricRecord | None:
        """The inner strategy's answer for the replies that fit; a client without examples is left out."""
        metrics = self._evaluation.aggregate(replies)
        if metrics is not None:
            self._note(self.round, valid_loss=first_metric(metrics, LOSSES))
        self._records.add_events(self._journal.taken())
        return metrics

    # --- state
    # -----------------------------------------------------------------------------------------------------------------

    def save_state(self, path: str | Path) -> None:
        """Write what a restarted ServerApp needs: counts, answers, features, keys, sizes, round, seed, and the model."""
        state = self._selector.state
        memory, carried = self._selector.saved_memory(), saved_arrays(self._inner.strategy)
        saved = dataclasses.replace(state, memory=memory, optimizer=carried)
        write_state(Path(path), saved, sampler=table(self._selector.sampler))

    def load_state(self, path: str | Path) -> ArrayRecord | None:
        """Continue where `save_state` was called; returns the model of that time for `start`, or None before round 0.

        Raises:
            OutputError: no such file, not a state, or the state of another sampler or seed.
        """
        state = read_state(
            Path(path), sampler=table(self._selector.sampler), seed=self._settings.seed
        )
        self._selector.resume(state)
        restored_arrays(self._inner.strategy, dict(state.optimizer))
        return (
            ArrayRecord({name: Array(array) for name, array in state.model.items()})
            if state.model
            else None
        )

    # --- small things
    # ----------------------------------------------------------------------------------------------------------

    def _describe(self, *, last: bool = False) -> None:
        if len(self._selector.roster):
            limit = self._now.limit
            self._records.describe(
                self._selector.clients(), self._selector.state.memory, cohort_limit=limit, last=last
            )

    def _give_up(self, why: str, clients: Sequence[Key]) -> None:
        self._now.gave_up, self._now.why = True, why
        self._journal.gave_up(self.round, why, clients)

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

    def _note(self, round: int, **metrics: float | None) -> None:
        self._metrics.setdefault(round, {}).update(metrics)

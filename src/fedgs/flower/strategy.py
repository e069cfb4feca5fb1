"""A Flower strategy that selects clients with a sampler and leaves configuring and aggregating to another strategy."""

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy

from fedgs import rng
from fedgs.arrays import FloatArray
from fedgs.clients import Clients, View
from fedgs.errors import ConfigError
from fedgs.flower.directory import Directory
from fedgs.flower.exchange import CohortGrid, DeadlineGrid, exchange, pauses, resend
from fedgs.flower.features import Responses
from fedgs.flower.flight import InFlight, asked_losses
from fedgs.flower.inner import Inner, restored_arrays, saved_arrays
from fedgs.flower.records import DeploymentRecords
from fedgs.flower.replies import ACCURACIES, LOSSES, Reply, arrays_of, examined, finite, first_metric, refuse_unlike
from fedgs.flower.roster import Key
from fedgs.flower.selector import Selector
from fedgs.flower.settings import Settings
from fedgs.flower.state import read_state, write_state
from fedgs.records import Record
from fedgs.registry import build, table
from fedgs.sampling.base import Sampler

__all__ = ["SampledStrategy"]

_logger = logging.getLogger(__name__)
_DESCRIBE_SECONDS = 60.0  # how long a round waits for nodes it meets for the first time, at most `connect_timeout`


class SampledStrategy(Strategy):  # type: ignore[misc, unused-ignore]
    """Select clients with a sampler; configure and aggregate with another Flower strategy.

    A round takes the nodes that are on line, maps them to client keys, lets the sampler select, has `inner` configure exactly the
    cohort, waits for replies until a deadline, refuses those that do not fit, and has `inner` average the others with the
    sampler's weights. An empty round keeps the model. Nothing here trains or needs torch.

    Args:
        inner: FedAvg, FedAvgM, FedProx, FedAdagrad, FedAdam, FedYogi or a strategy derived from them. Its fractions and minima
            are read, then switched off in a copy.
        sampler: a sampler, its name, or a table with `name`.
        clients: a federation that is known beforehand: keys, data sizes and, for the graph, label counts or features. Its order
            is the order of the rows. None: clients are met as they come.
        responses: for `graph.similarity = "functional"`: local model by name -> (d,) its mean response to a noise batch.
        settings: see `fedgs.flower.settings.Settings`: cohort_limit, min_connected, sufficient_replies, connect_timeout,
            reply_timeout, newcomer_count, seed, records, state.

    Raises:
        ConfigError: a strategy that ignores weights or chooses by itself, a sampler that cannot work here, a bad setting.

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
        )
        self._directory = Directory()
        limit = self._settings.cohort_limit
        training = {"proportion": float(self._inner.fraction_train)} if limit is None else {"cohort_limit": limit}
        self._records = DeploymentRecords(self._settings.records, chosen, training=training, seed=self._settings.seed)
        self._metrics: dict[int, dict[str, Any]] = {}
        self._now = InFlight()
        self._evaluating = InFlight()
        self._reply_timeout = self._settings.reply_timeout

    @property
    def round(self) -> int:
        """Rounds done, those before a restart included: the index t of the next one."""
        return self._selector.state.round

    @property
    def counts(self) -> dict[Key, int]:
        """How often each client has been selected."""
        return dict(zip(self._selector.roster.keys, self._selector.roster.counts.tolist(), strict=True))

    @property
    def answers(self) -> dict[Key, int]:
        """How many replies of each client have entered an average."""
        return dict(zip(self._selector.roster.keys, self._selector.roster.answers.tolist(), strict=True))

    def summary(self) -> None:
        """Log what is selected how, then the inner strategy's own summary."""
        told = ", ".join(f"{name}={value}" for name, value in table(self._selector.sampler).items() if name != "name")
        _logger.info("sampler %s (%s), %s", self._selector.sampler.name, told, self._settings)
        self._inner.strategy.summary()

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
        """
        self._reply_timeout = min(timeout, self._settings.reply_timeout)
        self._records.begin(self.round)
        before = self.round

        def evaluate(server_round: int, arrays: ArrayRecord) -> MetricRecord | None:
            assert evaluate_fn is not None
            metrics = evaluate_fn(before + server_round, arrays)
            self._note(
                before + server_round, test_loss=first_metric(metrics, LOSSES), test_accuracy=first_metric(metrics, ACCURACIES)
            )
            return metrics

        asking = DeadlineGrid(grid, self._exchange)
        observed = evaluate if evaluate_fn is not None else None
        result = super().start(asking, initial_arrays, num_rounds, self._reply_timeout, train_config, evaluate_config, observed)
        if not result.arrays:
            result.arrays = initial_arrays
        self._records.add(Record(round=self.round, **self._metrics.get(self.round, {})), None, [])
        if len(self._selector.roster):
            self._records.describe(self._selector.clients(), self._selector.state.memory, last=True)
        return result

    # --- one round of training -------------------------------------------------------------------------------------------------

    def configure_train(self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid) -> Iterable[Message]:
        """Who is there, who is selected, and what `inner` tells them; nobody if the round is given up."""
        self._now = now = InFlight(sent=arrays_of(arrays))
        nodes = self._connected(grid)
        now.available = sorted(nodes)
        if now.gave_up:
            return []
        view = self._selector.view(np.array(now.available, dtype=np.int64), self._cohort_limit())
        view = self._with_losses(grid, view, nodes, arrays)
        if now.gave_up:
            return []
        now.view, now.selection = view, self._selector.select(view)
        cohort = [nodes[row] for row in now.selection.clients.tolist()]
        with self._inner.undisturbed() as inner:
            made = list(inner.configure_train(self.round + 1, arrays, config, CohortGrid(grid, cohort)))
        now.messages = self._addressed(made, {nodes[row]: row for row in now.selection.clients.tolist()})
        now.lap("select")
        return list(now.messages.values())

    def aggregate_train(self, server_round: int, replies: Iterable[Message]) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Check the replies, give them the sampler's weights and have `inner` average them; nothing if too few are good."""
        now = self._now
        now.lap("train")
        good = self._good_replies(replies)
        arrays, metrics, weights = None, None, np.zeros(0 if now.selection is None else len(now.selection.clients))
        needed = self._enough(len(now.messages)) if self._settings.sufficient_replies is not None else 1
        if now.selection is not None and len(good) < needed:
            silent = self._names(row for row in now.messages if row not in good)
            self._give_up(f"{needed} good replies are needed, {len(good)} came; missing: {silent}", clients=silent)
        elif now.selection is not None:
            arrays, metrics, weights = self._average(good)
        self._finish_round(arrays, weights)
        return arrays, metrics

    def _connected(self, grid: Grid) -> dict[int, int]:
        """Row -> node id of the clients on line, once enough are; gives up at the deadline."""
        settings = self._settings
        needed = settings.min_connected if settings.min_connected is not None else max(1, self._inner.min_available_nodes)
        begun = time.monotonic()
        found: dict[Key, int] = {}
        for _ in pauses(begun + settings.connect_timeout):
            describe_by = min(begun + settings.connect_timeout, time.monotonic() + _DESCRIBE_SECONDS)
            found, descriptions = self._directory.resolve(grid, grid.get_node_ids(), deadline=describe_by)
            for told in descriptions:
                why = self._selector.meet(told.key, size=told.data_size, feature=told.feature)
                if why is not None:
                    self._event("feature", told.key, why)
            if len(found) >= needed:
                break
        else:
            names = ", ".join(repr(key) for key in found) or "none"
            why = f"after {settings.connect_timeout:g} s: {needed} clients must be connected, {len(found)} are ({names})"
            self._give_up(why, clients=list(found))
        return {self._selector.roster.admit(key): node for key, node in found.items()}

    def _cohort_limit(self) -> int:
        """M of this round."""
        if self._settings.cohort_limit is not None:
            return self._settings.cohort_limit
        share = int(self._inner.fraction_train * len(self._selector.roster) + 1e-9)
        return max(1, share, self._inner.min_train_nodes)

    def _with_losses(self, grid: Grid, view: View, nodes: Mapping[int, int], arrays: ArrayRecord) -> View:
        """The view with the losses of the clients that the sampler asks for; those that do not tell are not selectable."""
        asked = self._selector.loss_candidates(view)
        if asked is None:
            return view
        loss_on = str(getattr(self._selector.sampler, "loss_on", ""))
        told = asked_losses(
            grid,
            self._inner.strategy,
            arrays=arrays,
            nodes=nodes,
            rows=asked.tolist(),
            config=ConfigRecord({"server-round": self.round + 1, "loss-on": loss_on}),
            timeout=self._reply_timeout,
        )
        losses = np.full(len(view.clients), np.nan)
        losses[list(told)] = list(told.values())
        silent = asked[np.isnan(losses[asked])]
        for row in silent.tolist():
            self._event("silent", self._selector.roster.keys[row], "it was asked for its loss and told none")
        available = view.available[~np.isin(view.available, silent)]
        if len(available) == 0:
            self._give_up("no client told its loss", clients=self._names(silent.tolist()))
        return View(view.round, view.clients, available, view.counts, view.cohort_limit, losses, view.memory)

    def _addressed(self, made: Sequence[Message], row_of: Mapping[int, int]) -> dict[int, Message]:
        """The messages by row, with a life that fits the deadline."""
        ordered = sorted(made, key=lambda message: row_of[message.metadata.dst_node_id])
        return {
            row_of[message.metadata.dst_node_id]: resend(message, timeout=self._reply_timeout, group=str(self.round + 1))
            for message in ordered
        }

    def _exchange(self, grid: Grid, messages: Iterable[Message], timeout: float | None) -> list[Message]:
        """Send and wait: for training until enough good replies have come, else for all."""
        sent = list(messages)
        training = bool(sent) and sent[0].metadata.message_type.startswith(MessageType.TRAIN)
        limit = self._reply_timeout if timeout is None else min(timeout, self._reply_timeout)
        if not training:
            return exchange(grid, sent, timeout=limit)
        return exchange(grid, sent, timeout=limit, enough=self._enough(len(sent)), accept=self._accepts)

    def _enough(self, cohort_size: int) -> int:
        wanted = self._settings.sufficient_replies
        return cohort_size if wanted is None else min(wanted, cohort_size)

    def _accepts(self, message: Message) -> bool:
        """Whether a training reply is good on its own; the verdict is kept."""
        row = self._now.row_of(message)
        if row is None:
            return False
        if row not in self._now.replies:
            self._now.replies[row] = examined(message, weighted_by_key=self._inner.strategy.weighted_by_key, sent=self._now.sent)
        return self._now.replies[row].refused is None

    def _good_replies(self, replies: Iterable[Message]) -> dict[int, Reply]:
        """Row -> reply that may enter the average, in the order of the rows; the others are reported by client."""
        now = self._now
        for message in replies:
            self._accepts(message)
        refuse_unlike([now.replies[row] for row in sorted(now.replies) if now.replies[row].refused is None])
        for row in now.messages:
            key, reply = self._selector.roster.keys[row], now.replies.get(row)
            if reply is None:
                self._event("silent", key, f"no reply within {self._reply_timeout:g} s or before enough others had come")
            elif reply.refused is not None:
                self._event("failed" if reply.message.has_error() else "refused", key, reply.refused)
        return {row: now.replies[row] for row in sorted(now.replies) if now.replies[row].refused is None}

    def _average(self, good: Mapping[int, Reply]) -> tuple[ArrayRecord | None, MetricRecord | None, FloatArray]:
        """The inner strategy's answer for the good replies under the sampler's weights, and the cohort's weights."""
        now, key = self._now, self._inner.strategy.weighted_by_key
        assert now.view is not None
        assert now.selection is not None
        weights = self._selector.weights(now.view, now.selection, {row: reply.examples for row, reply in good.items()})
        for row, weight in zip(now.selection.clients.tolist(), weights.tolist(), strict=True):
            if row in good:
                good[row].metrics[key] = weight
                why = self._selector.learn(row, size=good[row].examples, sent=now.sent, local=good[row].arrays)
                if why is not None:
                    self._event("feature", self._selector.roster.keys[row], why)
        with self._inner.undisturbed() as inner:
            arrays, metrics = inner.aggregate_train(self.round + 1, [reply.message for reply in good.values()])
        if arrays is not None and not all(finite(array) for array in arrays_of(arrays).values()):
            self._give_up("the average is not finite (NaN or inf)", clients=self._names(good))
            return None, None, np.zeros_like(weights)
        self._selector.observe(now.view, np.array(sorted(good), dtype=np.int64), weights[weights > 0])
        return arrays, metrics, weights

    def _finish_round(self, arrays: ArrayRecord | None, weights: FloatArray) -> None:
        """Write the record and the state; the next round begins."""
        now, state, keys = self._now, self._selector.state, self._selector.roster.keys
        selection = now.selection
        record = Record(
            round=state.round,
            available=[keys[row] for row in now.available],
            num_available=len(now.available),
            cohort=[] if selection is None else self._names(selection.clients.tolist()),
            draws=None if selection is None or selection.draws is None else selection.draws.tolist(),
            weights=weights.tolist(),
            selection_status="skipped" if selection is None else selection.status,
            selection_objective=None if selection is None else selection.objective,
            selection_upper_bound=None if selection is None else selection.upper_bound,
            **self._metrics.get(state.round, {}),
        )
        state.model = now.sent if arrays is None else arrays_of(arrays)
        state.round += 1
        if keys:
            self._records.describe(self._selector.clients(), state.memory)
        now.lap("aggregate")
        self._records.add(record, now.seconds, now.events)
        if self._settings.state is not None:
            self.save_state(self._settings.state)

    # --- evaluation by clients -------------------------------------------------------------------------------------------------

    def configure_evaluate(self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid) -> Iterable[Message]:
        """As many of the connected clients as `inner` was set to evaluate with, drawn by the seed; never waits."""
        nodes = self._directory.listed(grid.get_node_ids())
        wanted = max(int(len(nodes) * self._inner.fraction_evaluate), self._inner.min_evaluate_nodes)
        if self._inner.fraction_evaluate == 0.0 or not nodes:
            return []
        rows = np.array(sorted(self._selector.roster.admit(key) for key in nodes), dtype=np.int64)
        if wanted < len(rows):
            generator = rng.stream(self._settings.seed, "flower-evaluate", self.round)
            rows = np.sort(generator.choice(rows, size=wanted, replace=False))
        chosen = {nodes[self._selector.roster.keys[row]]: row for row in rows.tolist()}
        with self._inner.undisturbed() as inner:
            made = list(inner.configure_evaluate(self.round, arrays, config, CohortGrid(grid, list(chosen))))
        self._evaluating = InFlight(messages=self._addressed(made, chosen))
        return list(self._evaluating.messages.values())

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """The inner strategy's answer for the replies that fit; a client without examples is left out."""
        key = self._inner.strategy.weighted_by_key
        checked = [examined(reply, weighted_by_key=key, sent=None) for reply in replies]
        refuse_unlike([reply for reply in checked if reply.refused is None])
        good = [reply.message for reply in checked if reply.refused is None]
        if not good:
            return None
        with self._inner.undisturbed() as inner:
            metrics: MetricRecord | None = inner.aggregate_evaluate(self.round, good)
        self._note(self.round, valid_loss=first_metric(metrics, LOSSES))
        return metrics

    # --- state -----------------------------------------------------------------------------------------------------------------

    def save_state(self, path: str | Path) -> None:
        """Write what a restarted ServerApp needs: counts, answers, features, keys, sizes, round, seed, and the model."""
        state = self._selector.state
        saved = type(state)(
            state.seed, state.round, state.roster, self._selector.saved_memory(), state.model, saved_arrays(self._inner.strategy)
        )
        write_state(Path(path), saved, sampler=table(self._selector.sampler))

    def load_state(self, path: str | Path) -> ArrayRecord | None:
        """Go on where `save_state` was called; returns the model of that time for `start`, or None before round 0.

        Raises:
            OutputError: no such file, not a state, or the state of another sampler or seed.
        """
        state = read_state(Path(path), sampler=table(self._selector.sampler), seed=self._settings.seed)
        self._selector.resume(state)
        restored_arrays(self._inner.strategy, dict(state.optimizer))
        return ArrayRecord({name: Array(array) for name, array in state.model.items()}) if state.model else None

    # --- small things ----------------------------------------------------------------------------------------------------------

    def _give_up(self, why: str, clients: Sequence[Key]) -> None:
        self._now.gave_up = True
        _logger.warning("round %d: gave up, the model stays: %s", self.round, why)
        gave_up = {"round": self.round, "client": None, "event": "gave_up", "detail": why, "clients": list(clients)}
        self._now.events.append(gave_up)

    def _event(self, kind: str, client: Key, detail: str) -> None:
        _logger.warning("round %d: client %r %s: %s", self.round, client, kind, detail)
        self._now.events.append({"round": self.round, "client": client, "event": kind, "detail": detail})

    def _names(self, rows: Iterable[int]) -> list[Key]:
        return [self._selector.roster.keys[row] for row in rows]

    def _note(self, round: int, **metrics: float | None) -> None:
        self._metrics.setdefault(round, {}).update(metrics)

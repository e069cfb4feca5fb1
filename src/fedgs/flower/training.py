"""Training by clients: the requests of a round, the wait for replies, and their average."""

import time
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid

from fedgs.arrays import AnyArray, FloatArray
from fedgs.clients import Outcome
from fedgs.flower.arrivals import Arrivals
from fedgs.flower.directory import Directory
from fedgs.flower.evaluation import ClientEvaluation
from fedgs.flower.exchange import CohortGrid, exchange, resend
from fedgs.flower.flight import InFlight
from fedgs.flower.inner import Inner
from fedgs.flower.journal import Journal, listed
from fedgs.flower.private.graph import PrivateGraph
from fedgs.flower.replies import Reply, arrays_of, examined, finite, refuse_unlike
from fedgs.flower.reports import reports_of
from fedgs.flower.roster import Key
from fedgs.flower.selector import Selector
from fedgs.flower.server import Server, whole
from fedgs.flower.settings import Settings
from fedgs.flower.spool import LIMIT, Spool
from fedgs.flower.stateful import ClientStates
from fedgs.flower.sums import scale_update

__all__ = ["ClientTraining"]


class ClientTraining:
    """Training by clients; a client that is selected and gives no valid reply is an event.

    Args:
        inner: configures the requests and averages the replies.
        selector: knows the clients, the round and the weights.
        server: moves the model by the average.
        directory: knows which client is at which node.
        evaluation: asks for losses that the sampler needs.
        journal: receives the events.
        settings: cohort sizes and deadlines.
    """

    def __init__(
        self,
        inner: Inner,
        selector: Selector,
        *,
        server: Server,
        directory: Directory,
        evaluation: ClientEvaluation,
        journal: Journal,
        settings: Settings,
    ) -> None:
        self._inner, self._selector, self._server = inner, selector, server
        self._evaluation, self._journal, self._settings = evaluation, journal, settings
        rule = server.rule
        self._states = None if rule is None else ClientStates(rule, server, selector, journal)
        self._grid: Grid | None = None  # of the round
        self._nodes: dict[int, int] = {}  # row -> node id, of the round
        self.timeout = settings.reply_timeout  # seconds to wait for replies
        self.arrivals = Arrivals(directory, selector, journal, settings)
        self._private = PrivateGraph(journal, settings.graph_timeout)
        self.now = InFlight()

    @property
    def cohort_limit(self) -> int:
        """M of a round that begins now."""
        if self._settings.cohort_limit is not None:
            return self._settings.cohort_limit
        share = int(self._inner.fraction_train * len(self._selector.roster) + 1e-9)
        return max(1, share, self._inner.min_train_nodes)

    def configure(self, arrays: ArrayRecord, config: ConfigRecord, grid: Grid) -> list[Message]:
        """Requests to the selected clients, as `inner` configures them.

        There are none if the round is aborted or the cohort is empty.

        Args:
            arrays: the global model.
            config: of the request.
            grid: connects to the nodes.
        """
        spool = Spool(LIMIT)
        self.now = now = InFlight(sent=arrays_of(arrays), examine=self._examined, spool=spool)
        now.clock = self._selector.state.clock.read()
        self._grid, self._nodes = grid, self.connected(grid)
        nodes = self._nodes
        now.available = sorted(nodes)
        if not nodes:
            self._abort("no client is connected", clients=[])
            return []
        view = self._selector.view(np.array(now.available, dtype=np.int64), self.cohort_limit)
        now.limit = view.cohort_limit
        view = self._evaluation.with_losses(grid, view, nodes, arrays)
        if len(view.available) == 0:
            self._abort("no client told its loss", clients=self._names(now.available))
            return []
        now.view, now.selection = view, self._selector.select(view)
        rows = now.selection.clients.tolist()
        self._journal.line(
            self._round,
            "%s selects %d of %d available clients: %s",
            self._selector.sampler_name,
            len(rows),
            len(now.available),
            listed(self._names(rows)),
        )
        self._journal.tell(
            self._round,
            "selected",
            sampler=self._selector.sampler_name,
            available=len(now.available),
            cohort=self._names(rows),
            status=now.selection.status,
        )
        if not rows:
            none = f"the sampler selected none of {len(view.available)} available clients"
            self._journal.event(self._round, "empty", None, f"{none}; the model stays")
            now.lap("select")
            return []
        row_of = {nodes[row]: row for row in rows}
        cohort = CohortGrid(grid, list(row_of))
        with self._inner.undisturbed() as inner:
            messages = list(inner.configure_train(self._round + 1, arrays, config, cohort))
        now.messages = self._addressed(messages, row_of)
        now.lap("select")
        return list(now.messages.values())

    def connected(self, grid: Grid) -> dict[int, int]:
        """Row -> node id of the available clients, once enough are connected.

        Raises:
            RunError: `max_idle_rounds` waits of `connect_timeout` seconds have passed.
        """
        needed = self._settings.min_connected
        if needed is None:
            needed = max(1, self._inner.min_available_nodes)
        node_of = self.arrivals.wait(grid, needed=needed)
        nodes = {self._selector.roster.admit(key): node for key, node in node_of.items()}
        if self._selector.products is not None:
            self._private.complete(
                grid,
                nodes,
                products=self._selector.products,
                roster=self._selector.roster,
                round=self._round,
            )
        return nodes

    def exchange(self, grid: Grid, messages: Sequence[Message], timeout: float) -> list[Message]:
        """Send the requests and wait until enough valid replies have arrived."""
        now, enough = self.now, self._enough(len(messages))
        now.sending()
        size = max(1, sum(array.nbytes for array in now.sent.values()))
        replies = exchange(
            grid,
            messages,
            timeout=timeout,
            enough=enough,
            accept=now.accepts,
            at_once=max(1, LIMIT // size),
        )
        now.ended_at = time.perf_counter()
        answered = sum(reply.refused is None for reply in now.replies.values())
        now.ended = "target" if answered >= enough else "nobody"
        if now.ended == "nobody" and len(now.replies) < len(messages):
            now.ended = "deadline"
        for row, reply in now.replies.items():
            if reply.refused is None:
                self._selector.roster.seconds[row] = now.took[row]
        return replies

    def aggregate(
        self, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None, FloatArray]:
        """The model after the round, the inner strategy's metrics, and the cohort's weights.

        The model is None where it stays. There is no average if too few replies are valid; the
        weights are 0 then.
        """
        now = self.now
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
            assert now.selection is not None
            self._selector.count_answers(
                now.selection.clients, np.array(sorted(good), dtype=np.int64), averaged=now.averaged
            )
            text = "%d of %d selected clients replied usefully"
            self._journal.line(self._round, text, len(good), cohort_size)
            self._journal.tell(
                self._round,
                "trained",
                sampler=self._selector.sampler_name,
                cohort=self._names(now.messages),
                answered=self._names(good),
                averaged=now.averaged,
            )
        if not now.averaged:
            arrays = self._stepped(None)
        return arrays, metrics, weights

    def _addressed(
        self, messages: Sequence[Message], row_of: Mapping[int, int]
    ) -> dict[int, Message]:
        """The messages by row, with a lifetime that fits the deadline."""
        timeout, group = self.timeout, str(self._round + 1)
        by_row = {row_of[message.metadata.dst_node_id]: message for message in messages}
        contents = {row: message.content for row, message in by_row.items()}
        if self._states is not None:
            key = self._inner.strategy.arrayrecord_key
            contents = self._states.contents(by_row, self.now.sent, key)
        return {
            row: resend(by_row[row], timeout=timeout, group=group, content=contents[row])
            for row in sorted(by_row)
        }

    def _examined(self, message: Message) -> Reply:
        """A training reply, checked on its own."""
        states, sent = self._states, self.now.sent
        key = self._inner.strategy.weighted_by_key
        if states is None or message.has_error():
            return examined(message, weighted_by_key=key, sent=sent)
        own = states.taken(message)
        reply = examined(message, weighted_by_key=key, sent=sent)
        if reply.refused is None:
            states.read(reply, *own, sent=sent)
        return reply

    def _enough(self, cohort_size: int) -> int:
        wanted = self._settings.sufficient_replies
        return cohort_size if wanted is None else min(wanted, cohort_size)

    def _good_replies(self, replies: Iterable[Message]) -> dict[int, Reply]:
        """Row -> reply that may enter the average, in the order of the rows.

        Each other client of the cohort is an event.
        """
        now = self.now
        for message in replies:
            now.accepts(message)
        ordered = [(row, now.replies[row]) for row in sorted(now.replies)]
        refuse_unlike([reply for _, reply in ordered if reply.refused is None])
        silent = f"no reply within {self.timeout:g} s or before enough others had come"
        for row in now.messages:
            key, reply = self._selector.roster.keys[row], now.replies.get(row)
            if reply is None:
                self._journal.event(self._round, "silent", key, silent)
            elif reply.refused is not None:
                kind = "failed" if reply.message.has_error() else "refused"
                self._journal.event(self._round, kind, key, reply.refused)
        return {row: reply for row, reply in ordered if reply.refused is None}

    def _average(
        self, good: Mapping[int, Reply]
    ) -> tuple[ArrayRecord | None, MetricRecord | None, FloatArray]:
        """The model after the valid replies, the inner metrics, and the cohort's weights."""
        now, key = self.now, self._inner.strategy.weighted_by_key
        assert now.view is not None
        assert now.selection is not None
        sizes = {row: reply.examples for row, reply in good.items()}
        weights = self._selector.weights(now.view, now.selection, sizes)
        for row, weight in zip(now.selection.clients.tolist(), weights.tolist(), strict=True):
            if row in good:
                good[row].metrics[key] = weight
                models = partial(self._models, row, good[row])
                why = self._selector.learn(row, size=good[row].examples, models=models)
                if why is not None:
                    self._journal.event(
                        self._round, "feature", self._selector.roster.keys[row], why
                    )
        sums = self._sums(good, weights)
        messages = [reply.message for reply in good.values()]
        if not self._selector.sums_to_one(now.selection):
            self._apply_as_sum(good, float(weights.sum()))
        with self._inner.undisturbed() as inner:
            arrays, metrics = inner.aggregate_train(self._round + 1, messages)
        if arrays is None:
            return None, metrics, np.zeros_like(weights)
        arrays = self._stepped(arrays, clients=self._names(good), sums=sums)
        if arrays is None:
            return None, None, np.zeros_like(weights)
        now.averaged = True
        rows = np.array(sorted(good), dtype=np.int64)
        reports, problems = reports_of(self._selector.sampler, good)
        for row, why in problems.items():
            self._journal.event(self._round, "report", self._selector.roster.keys[row], why)
        applied = weights[np.isin(now.selection.clients, rows)]
        now.outcome = Outcome(rows, applied, reports=reports)
        self._selector.observe(now.view, now.outcome)
        if self._states is not None:
            self._states.entered(good)
            if self._grid is not None:
                limit = self._evaluation.timeout
                self._states.deliver(self._grid, rows.tolist(), self._nodes, arrays, timeout=limit)
        return arrays, metrics, weights

    def _models(
        self, row: int, reply: Reply
    ) -> tuple[Mapping[str, AnyArray], Mapping[str, AnyArray]] | None:
        """The model that a client started from and the one after training, by name."""
        if self._states is None:
            return self.now.sent, reply.arrays()
        return self._states.models(row, reply, self.now.sent)

    def _sums(self, good: Mapping[int, Reply], weights: FloatArray) -> dict[str, FloatArray]:
        """What the replies add to the vectors of the aggregation, in the order of the rows."""
        now, sums = self.now, dict[str, FloatArray]()
        if self._states is None or now.view is None or now.selection is None:
            return sums
        shares = now.view.shares
        for row, weight in zip(now.selection.clients.tolist(), weights.tolist(), strict=True):
            if row in good:
                share = float(shares[row])
                terms = self._states.answer(good[row], now.sent, share=share, weight=weight)
                for name, term in terms.items():
                    sums[name] = sums[name] + term if name in sums else term
        return sums

    def _stepped(
        self,
        average: ArrayRecord | None,
        *,
        clients: Sequence[Key] = (),
        sums: Mapping[str, FloatArray] | None = None,
    ) -> ArrayRecord | None:
        """The model after the server step; None: it stays, since it or the average is not finite.

        Args:
            average: theta^t + U, or None in a round without one; then the model may stay too.
            clients: whose updates are averaged.
            sums: of the aggregation's terms.
        """
        if average is not None and not _all_finite(average):
            self._abort("the average is not finite (NaN or inf)", clients)
            return None
        state, sent = self._selector.state, self.now.sent
        average = None if average is None else _with_whole_numbers(average, sent)
        if self._server.is_plain:
            return average
        target = None if average is None else arrays_of(average)
        model, moments = self._server.moved(state.round, sent, target, state.moments, sums)
        record = None
        if model is not None:
            record = ArrayRecord({name: Array(array) for name, array in model.items()})
            if not _all_finite(record):
                why = "the model after the server step is not finite (NaN or inf)"
                self._abort(why, clients)
                return None
        state.moments = moments
        return record

    def _apply_as_sum(self, good: Mapping[int, Reply], total: float) -> None:
        """Let the average of the replies be theta plus the weighted sum of their updates."""
        for reply in good.values():
            scale_update(reply.message, sent=self.now.sent, total=total)
            reply.replace_arrays(self.now.spool.kept)
        if total == 0:  # no update counts; the inner strategy cannot divide by zero
            for reply in good.values():
                reply.metrics[self._inner.strategy.weighted_by_key] = 1.0

    def _abort(self, why: str, clients: Sequence[Key]) -> None:
        self.now.aborted, self.now.why = True, why
        self._journal.aborted(self._round, why, clients)

    def _names(self, rows: Iterable[int]) -> list[Key]:
        return [self._selector.roster.keys[row] for row in rows]

    @property
    def _round(self) -> int:
        return self._selector.state.round


def _with_whole_numbers(average: ArrayRecord, sent: Mapping[str, AnyArray]) -> ArrayRecord:
    """The average with the integer arrays of theta^t in their types, since averages are real."""
    restored = {
        name: Array(whole(average[name].numpy(), array.dtype))
        for name, array in sent.items()
        if array.dtype.kind in "biu" and name in average
    }
    return ArrayRecord({**average, **restored}) if restored else average


def _all_finite(arrays: ArrayRecord) -> bool:
    return all(finite(array) for array in arrays_of(arrays).values())

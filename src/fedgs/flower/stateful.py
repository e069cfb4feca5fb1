"""Requests and replies of an aggregation with a state for each client."""

from collections.abc import Mapping, Sequence

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.serverapp import Grid

from fedgs.arrays import AnyArray, FloatArray
from fedgs.flower.aggregations import Answer, Rule, positive
from fedgs.flower.client import DESCRIBE
from fedgs.flower.client_mod import LOST, SHARED, STORED
from fedgs.flower.exchange import exchange, resend
from fedgs.flower.journal import Journal
from fedgs.flower.kept import fits
from fedgs.flower.names import RECORD
from fedgs.flower.replies import Reply, arrays_of, finite, values_of
from fedgs.flower.selector import Selector
from fedgs.flower.server import Server, flat
from fedgs.flower.task import Task

__all__ = ["ClientStates"]

Own = tuple[ConfigRecord | None, ArrayRecord | None]


class ClientStates:
    """Tells clients which version of their state counts, and reads what they send of it.

    Args:
        rule: the aggregation.
        server: has its vectors.
        selector: knows clients and rounds.
        journal: receives the events.
    """

    def __init__(self, rule: Rule, server: Server, selector: Selector, journal: Journal) -> None:
        self.rule, self._server = rule, server
        self._selector, self._journal = selector, journal

    def contents(
        self, messages: Mapping[int, Message], sent: Mapping[str, AnyArray], arrays_key: str
    ) -> dict[int, RecordDict]:
        """Row -> content of a training request: that of the inner strategy, and ours.

        Args:
            messages: row -> request of the inner strategy.
            sent: theta^t by name.
            arrays_key: name of the model's record.
        """
        state = self._selector.state
        state.moments = self._server.begun(sent, state.moments)
        more: dict[str, ArrayRecord] = {}
        if self.rule.is_held:
            more[arrays_key] = _record(self._server.start_model(state.moments))
        shared = self._server.shared(sent, state.moments)
        if shared is not None:
            more[SHARED] = _record(shared)
        return {
            row: RecordDict({**message.content, **more, RECORD: self._config(row, sent)})
            for row, message in messages.items()
        }

    def models(
        self, row: int, reply: Reply, sent: Mapping[str, AnyArray]
    ) -> tuple[Mapping[str, AnyArray], Mapping[str, AnyArray]] | None:
        """The model that a client started from and the one after training, by name.

        None if the client trains from a model of its own and its reply does not tell it.

        Args:
            row: of the client.
            reply: a valid one, as it arrived.
            sent: theta^t by name.
        """
        local = reply.arrays()
        if not self.rule.is_held:
            return sent, local
        if reply.stored is None:
            return None
        start = arrays_of(reply.stored)
        state, roster = self._selector.state, self._selector.roster
        last = -1 if reply.lost else int(roster.entered[row])
        echo = self.rule.echo(state.round - last)
        trained = dict(local)
        for name, array in start.items():
            change = (local[name].astype(np.float64) - array) / echo
            trained[name] = (array + change).astype(local[name].dtype)
        return {**sent, **start}, trained

    @staticmethod
    def taken(message: Message) -> Own:
        """Our records of a reply, which are taken out of it."""
        content = message.content
        own = content.config_records.get(RECORD), content.array_records.get(STORED)
        for name in (RECORD, STORED):
            if name in content:
                del content[name]
        return own

    def read(
        self,
        reply: Reply,
        record: ConfigRecord | None,
        stored: ArrayRecord | None,
        *,
        sent: Mapping[str, AnyArray],
    ) -> None:
        """Refuse a reply whose records of ours are missing or wrong.

        Args:
            reply: is changed.
            record: see `taken`.
            stored: likewise.
            sent: theta^t by name.
        """
        name = str(self.rule.settings.name)
        if record is None or record.get("aggregation") != name:
            reply.refused = (
                f"its ClientApp does not keep the state of aggregation {name!r}: "
                "ClientApp(mods=[fedgs.flower.client_state]) is needed"
            )
            return
        for metric in self.rule.needed:
            if positive(reply.metrics, metric) is None:
                reply.refused = f"its metrics have no number {metric!r} > 0"
        reply.lost = bool(record.get(LOST, False))
        if self.rule.is_stored or (self.rule.is_held and stored is not None):
            names = self._server.names(sent)
            arrays = {} if stored is None else _readable(stored, sent)
            if not fits(arrays, sent, names) or not all(map(_is_finite, arrays.values())):
                what = "stored update" if self.rule.is_stored else "start of its training"
                reply.refused = f"the {what} that it sent is not finite or not of this model"
                return
            reply.stored = stored

    def answer(
        self, reply: Reply, sent: Mapping[str, AnyArray], *, share: float, weight: float
    ) -> dict[str, FloatArray]:
        """What a valid reply adds to the sums of the round.

        Args:
            reply: as it arrived, before it is scaled.
            sent: theta^t by name.
            share: p_k.
            weight: w_k.
        """
        if self.rule.is_held:
            return {}
        names, local = self._server.names(sent), reply.arrays()
        update = flat(local, names).astype(np.float64) - flat(sent, names)
        with np.errstate(over="ignore"):  # the model is checked afterwards
            stored = None if reply.stored is None else flat(arrays_of(reply.stored), names)
        numbers = {name: positive(reply.metrics, name) or 1.0 for name in self.rule.needed}
        answer = Answer(
            update,
            share=share,
            weight=weight,
            stored=None if stored is None else stored.astype(np.float64),
            numbers=numbers,
        )
        return self.rule.term(answer, self._selector.state.moments)

    def entered(self, replies: Mapping[int, Reply]) -> None:
        """Note that these replies are in the model; tell of clients that had lost their state."""
        roster, round = self._selector.roster, self._selector.state.round
        for row, reply in replies.items():
            if reply.lost:
                detail = (
                    f"it had lost its state of aggregation {self.rule.settings.name!r} and "
                    "started from the first one"
                )
                self._journal.event(round, "state_lost", roster.keys[row], detail)
            if not self.rule.is_held:
                roster.entered[row] = round

    def deliver(
        self,
        grid: Grid,
        rows: Sequence[int],
        nodes: Mapping[int, int],
        model: ArrayRecord,
        *,
        timeout: float,
    ) -> None:
        """Send the model of a round to its cohort, where clients keep it.

        A client that does not confirm it continues from the model that it had.

        Args:
            grid: connects to the nodes.
            rows: of the clients whose replies are in the model.
            nodes: row -> node id.
            model: theta^{t+1}.
            timeout: seconds to wait for the confirmations.
        """
        if not self.rule.is_held:
            return
        state, roster = self._selector.state, self._selector.roster
        messages: dict[int, Message] = {}
        for row in rows:
            task = Task(state.run_id, state.round, int(roster.entered[row]))
            content = RecordDict({"arrays": model, RECORD: task.record()})
            message = Message(content, nodes[row], DESCRIBE)
            messages[row] = resend(message, timeout=timeout, group=str(state.round + 1))
        replies = exchange(grid, list(messages.values()), timeout=timeout)
        by_id = {reply.metadata.reply_to_message_id: reply for reply in replies}
        for row, message in messages.items():
            reply = by_id.get(message.metadata.message_id)
            if reply is not None and reply.has_content() and RECORD in reply.content:
                roster.entered[row] = state.round
                continue
            kind, why = "silent", f"no confirmation within {timeout:g} s"
            if reply is not None:
                kind, why = "failed", "it cannot keep the model"
                if reply.has_error():
                    why = (reply.error.reason or "no reason given").strip().splitlines()[-1]
            self._journal.event(state.round, kind, roster.keys[row], why, request="deliver")

    def _config(self, row: int, sent: Mapping[str, AnyArray]) -> ConfigRecord:
        state, roster = self._selector.state, self._selector.roster
        return Task(
            state.run_id,
            state.round,
            int(roster.entered[row]),
            str(self.rule.settings.name),
            tuple(self._server.names(sent)),
            self.rule.needed,
            self.rule.numbers(),
            self.rule.is_held and self._selector.wants_feature(row),
        ).record()


def _readable(record: ArrayRecord, sent: Mapping[str, AnyArray]) -> dict[str, AnyArray]:
    """The arrays of a record with the names of the model; none if one cannot be read."""
    try:
        return {name: values_of(array, sent[name]) for name, array in record.items()}
    except (KeyError, ValueError):
        return {}


def _is_finite(array: AnyArray) -> bool:
    return np.issubdtype(array.dtype, np.floating) and finite(array)


def _record(arrays: Mapping[str, AnyArray]) -> ArrayRecord:
    return ArrayRecord({name: Array(np.asarray(array)) for name, array in arrays.items()})

"""What clients are asked to evaluate: the validation loss of the global model, and the losses that a sampler selects on."""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.serverapp import Grid

from fedgs import rng
from fedgs.clients import View
from fedgs.flower.exchange import CohortGrid, Patience, resend
from fedgs.flower.flight import InFlight
from fedgs.flower.inner import Inner
from fedgs.flower.journal import Journal, listed
from fedgs.flower.replies import LOSSES, Reply, examined, first_metric, loss_problem, refuse_unlike
from fedgs.flower.roster import Key
from fedgs.flower.selector import Selector

__all__ = ["ClientEvaluation"]

Problem = tuple[str, str]  # event, detail


class ClientEvaluation:
    """Evaluation by clients: every client that is asked and does not answer usefully is an event.

    Args:
        inner: configures and averages.
        selector: knows the clients and the round.
        journal: takes the events.
        timeout: seconds to wait.
    """

    def __init__(
        self, inner: Inner, selector: Selector, journal: Journal, *, timeout: float
    ) -> None:
        self._inner, self._selector, self._journal = inner, selector, journal
        self._patience = Patience()
        self._doubted: set[int] = (
            set()
        )  # rows of the last request that were waited for only shortly
        self._flight = InFlight()
        self.timeout = timeout

    def exchange(self, grid: Grid, messages: Iterable[Message]) -> list[Message]:
        """Send requests and wait for the replies, shortly for clients that did not answer the last time."""
        return self._patience.exchange(grid, messages, timeout=self.timeout)

    # --- the global model
    # ------------------------------------------------------------------------------------------------------

    def configure(
        self, nodes: Mapping[Key, int], arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> list[Message]:
        """Requests to as many of the connected clients as `inner` was set to evaluate with, drawn by the seed; never waits."""
        self._flight = InFlight()
        wanted = max(
            int(len(nodes) * self._inner.fraction_evaluate), self._inner.min_evaluate_nodes
        )
        if self._inner.fraction_evaluate == 0.0 or not nodes:
            return []
        state = self._selector.state
        rows = np.array(sorted(self._selector.roster.admit(key) for key in nodes), dtype=np.int64)
        if wanted < len(rows):
            generator = rng.stream(state.seed, "flower-evaluate", state.round)
            rows = np.sort(generator.choice(rows, size=wanted, replace=False))
        chosen = {nodes[self._selector.roster.keys[row]]: row for row in rows.tolist()}
        with self._inner.undisturbed() as inner:
            made = list(
                inner.configure_evaluate(
                    state.round, arrays, config, CohortGrid(grid, list(chosen))
                )
            )
        made.sort(key=lambda message: chosen[message.metadata.dst_node_id])
        self._flight.messages = {
            chosen[message.metadata.dst_node_id]: resend(
                message, timeout=self.timeout, group=str(state.round)
            )
            for message in made
        }
        self._doubted = self._doubtful(self._flight.messages)
        return list(self._flight.messages.values())

    def aggregate(self, replies: Iterable[Message]) -> MetricRecord | None:
        """The inner strategy's answer for the replies that fit; the others are events, and so is a loss of fewer than asked."""
        flight, key, record = (
            self._flight,
            self._inner.strategy.weighted_by_key,
            self._selector.state.round,
        )
        checked: dict[int, Reply] = {}
        for message in replies:
            row = flight.row_of(message)
            if row is not None:
                checked[row] = examined(message, weighted_by_key=key, sent=None)
        without = {
            row
            for row, reply in checked.items()
            if not reply.message.has_error() and reply.metrics.get(key) == 0
        }
        refuse_unlike([checked[row] for row in sorted(checked) if checked[row].refused is None])
        for reply in checked.values():
            if reply.refused is None:
                reply.refused = loss_problem(reply.metrics)
        problems = {
            row: problem
            for row in flight.messages
            if row not in without and (problem := self._problem(row, checked))
        }
        for row, (kind, detail) in problems.items():
            self._journal.event(
                record, kind, self._selector.roster.keys[row], detail, request="evaluate"
            )
        good = {row: checked[row] for row in sorted(checked) if checked[row].refused is None}
        if problems:
            missing = [self._selector.roster.keys[row] for row in problems]
            detail = f"the validation loss is of {len(good)} of {len(flight.messages)} clients; missing: {listed(missing)}"
            self._journal.event(
                record, "incomplete", None, detail, request="evaluate", clients=missing
            )
        if not good:
            return None
        with self._inner.undisturbed() as inner:
            metrics: MetricRecord | None = inner.aggregate_evaluate(
                record, [reply.message for reply in good.values()]
            )
        loss = first_metric(metrics, LOSSES)
        told = "no loss among their metrics" if loss is None else f"validation loss {loss:.4g}"
        self._journal.line(
            record,
            "%d of %d clients evaluated, %s",
            len(good),
            len(flight.messages),
            told,
            request="evaluate",
        )
        return metrics

    # --- losses for a sampler
    # --------------------------------------------------------------------------------------------------

    def with_losses(
        self, grid: Grid, view: View, nodes: Mapping[int, int], arrays: ArrayRecord
    ) -> View:
        """The view with the losses of the clients that the sampler asks for; those that do not tell are not selectable.

        The clients are asked through their own `evaluate` handler; the configuration says under
        "loss-on" which part is meant.
        """
        asked = self._selector.loss_candidates(view)
        if asked is None:
            return view
        inner, number = self._inner.strategy, view.round + 1
        loss_on = str(getattr(self._selector.sampler, "loss_on", ""))
        config = ConfigRecord({"server-round": number, "loss-on": loss_on})
        content = RecordDict({inner.arrayrecord_key: arrays, inner.configrecord_key: config})
        made = {row: Message(content, nodes[row], MessageType.EVALUATE) for row in asked.tolist()}
        flight = InFlight()
        flight.messages = {
            row: resend(message, timeout=self.timeout, group=str(number))
            for row, message in made.items()
        }
        self._doubted = self._doubtful(flight.messages)
        checked: dict[int, Reply] = {}
        for message in self.exchange(grid, flight.messages.values()):
            row = flight.row_of(message)
            if row is not None:
                checked[row] = examined(message, weighted_by_key=inner.weighted_by_key, sent=None)
        told = {row: first_metric(reply.metrics, LOSSES) for row, reply in checked.items()}
        losses = np.full(len(view.clients), np.nan)
        for row in flight.messages:
            loss = told.get(row)
            if loss is not None:
                losses[row] = loss
                continue
            kind, detail = self._problem(row, checked) or ("refused", "its metrics hold no loss")
            self._journal.event(
                view.round, kind, self._selector.roster.keys[row], detail, request="losses"
            )
        available = view.available[~np.isin(view.available, asked[np.isnan(losses[asked])])]
        return dataclasses.replace(view, available=available, losses=losses)

    # --- small things
    # ----------------------------------------------------------------------------------------------------------

    def _doubtful(self, messages: Mapping[int, Message]) -> set[int]:
        return {
            row
            for row, message in messages.items()
            if message.metadata.dst_node_id in self._patience.silent
        }

    def _problem(self, row: int, checked: Mapping[int, Reply]) -> Problem | None:
        """What is wrong with a client's answer, or None."""
        reply: Any = checked.get(row)
        if reply is None:
            again = "no reply, as the last time, so that it was waited for only shortly"
            return (
                "silent",
                again if row in self._doubted else f"no reply within {self.timeout:g} s",
            )
        if reply.refused is None:
            return None
        return "failed" if reply.message.has_error() else "refused", reply.refused

"""Evaluation by clients: the validation loss of the global model, and losses for a sampler."""

import dataclasses
from collections.abc import Iterable, Mapping

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
from fedgs.sampling import AsksBatchLosses

__all__ = ["ClientEvaluation"]

Problem = tuple[str, str]  # event, detail


class ClientEvaluation:
    """Evaluation by clients; a client that is asked and gives no valid answer is an event.

    Args:
        inner: configures the requests and averages the replies.
        selector: knows the clients and the round.
        journal: receives the events.
        timeout: seconds to wait.
    """

    def __init__(
        self, inner: Inner, selector: Selector, journal: Journal, *, timeout: float
    ) -> None:
        self._inner, self._selector, self._journal = inner, selector, journal
        self._patience = Patience()
        # Rows of the last request that were waited for only briefly.
        self._doubted: set[int] = set()
        self._flight = InFlight()
        self.timeout = timeout

    def exchange(self, grid: Grid, messages: Iterable[Message]) -> list[Message]:
        """Send requests and wait for replies; only briefly for clients that were silent before."""
        return self._patience.exchange(grid, messages, timeout=self.timeout)

    # The global model.

    def configure(
        self, nodes: Mapping[Key, int], arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> list[Message]:
        """Requests to as many connected clients as `inner` was set to evaluate with.

        They are drawn by the seed. This never waits for clients.

        Args:
            nodes: client key -> node id of the available clients.
            arrays: the global model.
            config: of the request.
            grid: connects to the nodes.
        """
        self._flight = InFlight()
        share = int(len(nodes) * self._inner.fraction_evaluate)
        wanted = max(share, self._inner.min_evaluate_nodes)
        if self._inner.fraction_evaluate == 0.0 or not nodes:
            return []
        state = self._selector.state
        rows = np.array(sorted(self._selector.roster.admit(key) for key in nodes), dtype=np.int64)
        if wanted < len(rows):
            generator = rng.stream(state.seed, "flower-evaluate", state.round)
            rows = np.sort(generator.choice(rows, size=wanted, replace=False))
        row_of = {nodes[self._selector.roster.keys[row]]: row for row in rows.tolist()}
        cohort = CohortGrid(grid, list(row_of))
        with self._inner.undisturbed() as inner:
            messages = list(inner.configure_evaluate(state.round, arrays, config, cohort))
        messages.sort(key=lambda message: row_of[message.metadata.dst_node_id])
        group = str(state.round)
        self._flight.messages = {
            row_of[message.metadata.dst_node_id]: resend(message, timeout=self.timeout, group=group)
            for message in messages
        }
        self._doubted = self._doubtful(self._flight.messages)
        return list(self._flight.messages.values())

    def aggregate(self, replies: Iterable[Message]) -> MetricRecord | None:
        """The inner strategy's answer for the valid replies, or None if there is none.

        The inner strategy weights the replies by their numbers of examples; for the objective
        "equal" these are replaced by 1. Each other reply is an event, and so is a loss over fewer
        clients than were asked.
        """
        flight, record = self._flight, self._selector.state.round
        key = self._inner.strategy.weighted_by_key
        checked = self._examined(flight, replies)
        without = {
            row
            for row, reply in checked.items()
            if not reply.message.has_error() and reply.metrics.get(key) == 0
        }
        refuse_unlike([checked[row] for row in sorted(checked) if checked[row].refused is None])
        for reply in checked.values():
            if reply.refused is None:
                reply.refused = loss_problem(reply.metrics)
        keys = self._selector.roster.keys
        missing = []
        for row in flight.messages:
            problem = None if row in without else self._problem(row, checked)
            if problem is not None:
                missing.append(keys[row])
                kind, detail = problem
                self._journal.event(record, kind, keys[row], detail, request="evaluate")
        if self._selector.objective == "equal":  # each client counts once in the mean
            for reply in checked.values():
                if reply.refused is None:
                    reply.metrics[key] = 1
        good = [checked[row].message for row in sorted(checked) if checked[row].refused is None]
        counts = (len(good), len(flight.messages))
        if missing:
            done, asked = counts
            detail = (
                f"the validation loss is of {done} of {asked} clients; missing: {listed(missing)}"
            )
            self._journal.event(
                record, "incomplete", None, detail, request="evaluate", clients=missing
            )
        if not good:
            return None
        with self._inner.undisturbed() as inner:
            metrics: MetricRecord | None = inner.aggregate_evaluate(record, good)
        loss = first_metric(metrics, LOSSES)
        result = "no loss among their metrics" if loss is None else f"validation loss {loss:.4g}"
        text = "%d of %d clients evaluated, %s"
        self._journal.line(record, text, *counts, result, request="evaluate")
        self._journal.tell(record, "evaluated", answered=counts[0], asked=counts[1], loss=loss)
        return metrics

    # Losses for a sampler.

    def with_losses(
        self, grid: Grid, view: View, nodes: Mapping[int, int], arrays: ArrayRecord
    ) -> View:
        """The view with the losses of the clients that the sampler asks for.

        Clients that report no loss cannot be selected. They are asked through their own `evaluate`
        handler; the configuration says under "loss-on" which part of the data is meant, and under
        "loss-batch", where the sampler has one, how many examples a mini-batch has.

        Args:
            grid: connects to the nodes.
            view: what the sampler sees, without losses.
            nodes: row -> node id.
            arrays: the global model.
        """
        asked = self._selector.loss_candidates(view)
        if asked is None:
            return view
        inner, number = self._inner.strategy, view.round + 1
        loss_on = str(getattr(self._selector.sampler, "loss_on", ""))
        config = ConfigRecord({"server-round": number, "loss-on": loss_on})
        sampler = self._selector.sampler
        if isinstance(sampler, AsksBatchLosses) and sampler.loss_batch is not None:
            config["loss-batch"] = int(sampler.loss_batch)
        content = RecordDict({inner.arrayrecord_key: arrays, inner.configrecord_key: config})
        flight = InFlight()
        for row in asked.tolist():
            message = Message(content, nodes[row], MessageType.EVALUATE)
            flight.messages[row] = resend(message, timeout=self.timeout, group=str(number))
        self._doubted = self._doubtful(flight.messages)
        checked = self._examined(flight, self.exchange(grid, flight.messages.values()))
        losses = np.full(len(view.clients), np.nan)
        for row in flight.messages:
            reply = checked.get(row)
            loss = None if reply is None else first_metric(reply.metrics, LOSSES)
            if loss is not None:
                losses[row] = loss
                continue
            kind, detail = self._problem(row, checked) or ("refused", "its metrics hold no loss")
            self._journal.event(
                view.round, kind, self._selector.roster.keys[row], detail, request="losses"
            )
        available = view.available[~np.isin(view.available, asked[np.isnan(losses[asked])])]
        return dataclasses.replace(view, available=available, losses=losses)

    # Small things.

    def _examined(self, flight: InFlight, replies: Iterable[Message]) -> dict[int, Reply]:
        """Row -> checked reply; replies to other requests are left out."""
        key = self._inner.strategy.weighted_by_key
        checked: dict[int, Reply] = {}
        for message in replies:
            row = flight.row_of(message)
            if row is not None:
                checked[row] = examined(message, weighted_by_key=key, sent=None)
        return checked

    def _doubtful(self, messages: Mapping[int, Message]) -> set[int]:
        return {
            row
            for row, message in messages.items()
            if message.metadata.dst_node_id in self._patience.silent
        }

    def _problem(self, row: int, checked: Mapping[int, Reply]) -> Problem | None:
        """Why a client's answer is not valid, or None."""
        reply = checked.get(row)
        if reply is None:
            if row in self._doubted:
                return (
                    "silent",
                    "no reply, as the last time, so that it was waited for only shortly",
                )
            return "silent", f"no reply within {self.timeout:g} s"
        if reply.refused is None:
            return None
        return "failed" if reply.message.has_error() else "refused", reply.refused

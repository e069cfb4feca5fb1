"""What a deployment writes: records, the metrics in them, and the state."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from flwr.app import Array, ArrayRecord, MetricRecord

from fedgs.arrays import FloatArray
from fedgs.errors import OutputError
from fedgs.flower.flight import InFlight, ModelMetrics, round_time
from fedgs.flower.inner import Inner, restored_arrays, saved_arrays
from fedgs.flower.journal import Event
from fedgs.flower.records import DeploymentRecords
from fedgs.flower.replies import ACCURACIES, LOSSES, first_metric
from fedgs.flower.selector import Selector
from fedgs.flower.state import read_state, refuse_foreign_state, write_state
from fedgs.records import Record
from fedgs.registry import table

__all__ = ["EvaluateFn", "Outputs"]

EvaluateFn = Callable[[int, ArrayRecord], MetricRecord | None]


class Outputs:
    """Writes the records and the state of a deployment.

    Args:
        inner: whose server optimiser is saved with the state.
        selector: has the state.
        records: the folder of the records.
        server: the table of the server step or the aggregation; None: the average is the next
            model.
        state: the file that the state is saved to after every round, or None.
    """

    def __init__(
        self,
        inner: Inner,
        selector: Selector,
        records: DeploymentRecords,
        *,
        server: Mapping[str, object] | None,
        state: str | Path | None,
    ) -> None:
        self._inner, self._selector, self.records = inner, selector, records
        self._server = server
        self._state = None if state is None else Path(state)
        self._metrics: dict[int, ModelMetrics] = {}

    def begin(self, *, rounds: int) -> None:
        """Check the folder and the file, then begin them.

        Args:
            rounds: T, the number of rounds at the end of this start.

        Raises:
            OutputError: one of them holds content of something else, or cannot be written.
        """
        state, path = self._selector.state, self._state
        if path is not None:
            refuse_foreign_state(path, state.run_id)
        self.records.check(state.round, state.run_id, beside=path)
        try:
            # The state comes before the records: a restart finds the run id that marks them.
            if path is not None and not path.exists():
                self.save(path)
            valid_loss = self.records.begin(state.round, state.run_id, rounds=rounds)
        except OSError as error:
            raise OutputError(
                f"records and state must be places that can be written, got {error}"
            ) from None
        if valid_loss is not None:
            self.note_valid_loss(valid_loss)

    def add_round(
        self, round: int, now: InFlight, *, weights: FloatArray, events: Sequence[Event]
    ) -> None:
        """Write the record of a round that is over, and the state after it."""
        self.write_clients(now)
        metrics = self._metrics_of(round)
        record = now.record(round, self._selector.roster.keys, weights=weights, metrics=metrics)
        now.lap("aggregate")
        self.records.add(record, now.seconds, events)
        if self._state is not None:
            self.save(self._state)

    def end(self, now: InFlight, events: Sequence[Event]) -> None:
        """Write record T: the metrics of the final model."""
        round = self._selector.state.round
        metrics = dataclasses.asdict(self._metrics_of(round))
        clock = round_time(self._selector.state.clock.read())
        self.records.add(Record(round=round, clock=clock, **metrics), None, events)
        self.write_clients(now, last=True)

    def fail(self, now: InFlight, events: Sequence[Event], error: Exception) -> None:
        """Write why the deployment ended early."""
        self.records.add_events(events)
        self.write_clients(now, last=True)
        self.records.fail(self._selector.state.round, error)

    def write_clients(self, now: InFlight, *, last: bool = False) -> None:
        """Write the clients that were met, if there is something new or at the end."""
        if len(self._selector.roster):
            clients, memory = self._selector.clients(), self._selector.state.memory
            self.records.write_clients(clients, memory, cohort_limit=now.limit, last=last)

    # Metrics.

    def noting(self, evaluate_fn: EvaluateFn, before: int) -> EvaluateFn:
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

    def note_valid_loss(self, loss: float | None) -> None:
        """Note the validation loss of the present model."""
        round = self._selector.state.round
        self._metrics[round] = dataclasses.replace(self._metrics_of(round), valid_loss=loss)

    def _metrics_of(self, round: int) -> ModelMetrics:
        return self._metrics.get(round, ModelMetrics())

    # The state.

    def save(self, path: Path) -> None:
        """Write the state, see `SampledStrategy.save_state`."""
        state = self._selector.state
        memory, carried = self._selector.saved_memory(), saved_arrays(self._inner.strategy)
        saved = dataclasses.replace(state, memory=memory, optimizer=carried)
        write_state(path, saved, sampler=table(self._selector.sampler), server=self._server)

    def load(self, path: Path) -> ArrayRecord | None:
        """Continue from a state, see `SampledStrategy.load_state`."""
        sampler, seed = table(self._selector.sampler), self._selector.state.seed
        state = read_state(path, sampler=sampler, server=self._server, seed=seed)
        self._selector.resume(state)
        restored_arrays(self._inner.strategy, dict(state.optimizer))
        if not state.model:
            return None
        return ArrayRecord({name: Array(array) for name, array in state.model.items()})

"""A Flower strategy that selects clients with a sampler.

Another strategy configures the requests and aggregates the replies.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy

from fedgs.arrays import FloatArray
from fedgs.clients import Clients, Selection
from fedgs.errors import ConfigError
from fedgs.flower.directory import Directory
from fedgs.flower.evaluation import ClientEvaluation
from fedgs.flower.exchange import DeadlineGrid
from fedgs.flower.features import Parameters, Responses
from fedgs.flower.inner import Inner
from fedgs.flower.journal import Journal
from fedgs.flower.outputs import EvaluateFn, Outputs
from fedgs.flower.records import DeploymentRecords
from fedgs.flower.replies import LOSSES, arrays_of, first_metric
from fedgs.flower.roster import Key
from fedgs.flower.selector import Selector
from fedgs.flower.server import Server
from fedgs.flower.settings import Settings
from fedgs.flower.training import ClientTraining
from fedgs.registry import Variant, build, table
from fedgs.sampling.base import Sampler
from fedgs.server_steps import ServerStep

__all__ = ["SampledStrategy"]

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
        server: the server step (`fedgs.aggregation.ServerStep`), its name, or a table with `name`:
            how the average of a round moves the model. By default the average is the next model.
        aggregation: an aggregation whose clients keep a state ("scaffold", "feddyn", "stale",
            "gossip", "postponed"), as an object, its name or a table with `name`; the table holds
            the server step. It needs PyTorch, and `client_state` in the ClientApp. None: the mean.
        clients: a federation that is known in advance: keys, data sizes and, for the graph, label
            counts or features. Its order is the order of the rows. None: clients are met as they
            connect.
        responses: for functional features, as of `graph.similarity = "functional"`: local model by
            name -> (d,) its mean response to a noise batch.
        parameters: which arrays of the model are parameters, for model updates and the server
            step, as names or a function of a name. None: the floating-point arrays
            except running_mean, running_var and num_batches_tracked.
        settings: see `fedgs.flower.settings.Settings`: cohort_limit, min_connected,
            sufficient_replies, connect_timeout, describe, describe_timeout, reply_timeout,
            evaluate_timeout, max_idle_rounds, filters, newcomer_count, durations, seed, records,
            state.

    Raises:
        ConfigError: a strategy that ignores weights or chooses by itself, a sampler that cannot
            work here, a server step or an aggregation beside a strategy with its own, an
            aggregation that cannot be deployed, a bad setting.

    >>> from flwr.serverapp.strategy import FedAvg
    >>> SampledStrategy(FedAvg(fraction_train=0.5), sampler="uniform").round
    0
    """

    def __init__(
        self,
        inner: Strategy,
        sampler: Sampler | Callable[..., Sampler | Selection] | str | Mapping[str, object],
        *,
        server: ServerStep | str | Mapping[str, object] = "sgd",
        aggregation: Variant | str | Mapping[str, object] | None = None,
        clients: Clients | None = None,
        responses: Responses | None = None,
        parameters: Parameters | None = None,
        **settings: Any,  # each is checked by `Settings`
    ) -> None:
        self._inner = Inner.of(inner)
        built = build("method", sampler)
        if not isinstance(built, Sampler):
            raise ConfigError(f"sampler must be a sampler, got {built!r}")
        self._server = Server.of(server, inner, parameters, aggregation)
        self._settings = checked = Settings(**settings)
        self._selector = Selector(
            built,
            seed=checked.seed,
            newcomer=checked.newcomer_count,
            objective=checked.objective,
            clients=clients,
            responses=responses,
            parameters=parameters,
            durations=checked.durations,
        )
        self._server.check(
            self._selector.weighting,
            checked.objective,
            reads_training=self._selector.sampler_name if self._selector.reads_training else None,
        )
        describe_timeout = min(checked.describe_timeout, checked.connect_timeout)
        self._directory = Directory(
            timeout=describe_timeout,
            asks=checked.describe,
            max_age=checked.filters.max_age if checked.filters.asks else None,
        )
        size: dict[str, object] = {"cohort_limit": checked.cohort_limit}
        if checked.cohort_limit is None:
            size = {"proportion": float(self._inner.fraction_train)}
        aggregation = {
            "strategy": type(inner).__name__,
            "fraction_evaluate": float(self._inner.fraction_evaluate),
        }
        training = {**size, **checked.limits(), **aggregation}
        records = DeploymentRecords(
            checked.records,
            built,
            training=training,
            aggregation=self._server.aggregation_table,
            seed=checked.seed,
        )
        self._outputs = Outputs(
            self._inner,
            self._selector,
            records,
            server=self._server.table,
            state=checked.state,
        )
        self._idle = 0  # aborted rounds in a row
        self._journal = Journal()
        evaluate_timeout = min(checked.evaluate_timeout, checked.reply_timeout)
        self._evaluation = ClientEvaluation(
            self._inner, self._selector, self._journal, timeout=evaluate_timeout
        )
        self._training = ClientTraining(
            self._inner,
            self._selector,
            server=self._server,
            directory=self._directory,
            evaluation=self._evaluation,
            journal=self._journal,
            settings=checked,
        )
        self._training.arrivals.waited = lambda: records.add_events(self._journal.taken())

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
        _logger.info("sampler %s (%s), %s", self._selector.sampler_name, described, self._settings)
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
            RunError: `max_idle_rounds` rounds in a row were aborted, or so many waits for clients
                have passed, or two live nodes have one client key; records and state have been
                written.
        """
        before, settings = self.round, self._settings
        self._training.timeout = min(timeout, settings.reply_timeout)
        self._evaluation.timeout = min(settings.evaluate_timeout, self._training.timeout)
        self._idle, self._journal.last = 0, before + num_rounds
        self._selector.state.clock.start()
        with self._journal.heard():
            self._selector.check_model(arrays_of(initial_arrays))
            self._outputs.begin(rounds=before + num_rounds)
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
                    self._training.timeout,
                    train_config,
                    evaluate_config,
                    None if evaluate_fn is None else self._outputs.noting(evaluate_fn, before),
                )
            except Exception as error:
                self._outputs.fail(self._training.now, self._journal.taken(), error)
                raise
            if self._idle:
                text = "rounds aborted at the end: %d; the model is that of round %d"
                _logger.warning(text, self._idle, self.round - self._idle)
        if not result.arrays:
            result.arrays = initial_arrays
        self._outputs.end(self._training.now, self._journal.taken())
        return result

    # One round of training.

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Requests to the selected clients, as `inner` configures them.

        There are none if the round is aborted or the cohort is empty.
        """
        return self._training.configure(arrays, config, grid)

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Check the replies and let `inner` average them with the sampler's weights.

        There is no result if too few replies are valid.
        """
        now = self._training.now
        now.lap("train")
        arrays, metrics, weights = self._training.aggregate(replies)
        self._idle = 0 if now.averaged else self._idle + now.aborted
        self._finish_round(arrays, weights)
        if self._idle and self._idle == self._settings.max_idle_rounds:
            raise self._settings.ended(
                self.round,
                f"the last {self._idle} rounds were aborted (max_idle_rounds = {self._idle}), the "
                f"last of them: {now.why}",
            )
        return arrays, metrics

    def _exchange(
        self, grid: Grid, messages: Iterable[Message], timeout: float | None
    ) -> list[Message]:
        """Send and wait: for training until enough valid replies have arrived, else for all."""
        sent = list(messages)
        if not sent or not sent[0].metadata.message_type.startswith(MessageType.TRAIN):
            return self._evaluation.exchange(grid, sent)
        most = self._training.timeout
        limit = most if timeout is None else min(timeout, most)
        return self._training.exchange(grid, sent, limit)

    def _finish_round(self, arrays: ArrayRecord | None, weights: FloatArray) -> None:
        """Write the record and the state; the next round begins."""
        now, state = self._training.now, self._selector.state
        now.spool.close()
        state.model = now.sent if arrays is None else arrays_of(arrays)
        self._selector.observe_weights(
            now.view,
            now.outcome if now.averaged else None,
            available=np.array(now.available, dtype=np.int64),
            cohort_limit=self._training.cohort_limit if now.limit is None else now.limit,
        )
        state.round += 1
        events = self._journal.taken()
        self._outputs.add_round(state.round - 1, now, weights=weights, events=events)

    # Evaluation by clients.

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Requests to as many connected clients as `inner` was set to evaluate with.

        They are drawn by the seed. This never waits for clients.
        """
        node_of = self._directory.listed(grid.get_node_ids())
        node_of = self._training.arrivals.gate.passed(self.round, node_of)
        return self._evaluation.configure(node_of, arrays, config, grid)

    def aggregate_evaluate(
        self, server_round: int, replies: Iterable[Message]
    ) -> MetricRecord | None:
        """The inner strategy's average of the valid replies, without clients without examples."""
        metrics = self._evaluation.aggregate(replies)
        if metrics is not None:
            self._outputs.note_valid_loss(first_metric(metrics, LOSSES))
        self._outputs.records.add_events(self._journal.taken())
        return metrics

    # State.

    def save_state(self, path: str | Path) -> None:
        """Write the state that a restarted ServerApp continues from.

        It holds keys, counts, answers, sizes, features, round, seed, the model, and the moments of
        the server step.
        """
        self._outputs.save(Path(path))

    def load_state(self, path: str | Path) -> ArrayRecord | None:
        """Continue where `save_state` was called.

        Returns:
            The model of that time for `start`, or None before round 0.

        Raises:
            OutputError: no such file, not a state, or the state of another sampler, server step or
                seed.
        """
        return self._outputs.load(Path(path))

"""The settings of a deployment, checked when the strategy is made."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from fedgs.clients import Objective
from fedgs.errors import ConfigError, RunError
from fedgs.flower.filters import Filters
from fedgs.registry import Variant

__all__ = ["Settings"]

Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


def _as_filters(value: object) -> object:
    return Filters(**value) if isinstance(value, Mapping) else value


class Settings(Variant):
    """Settings of `SampledStrategy`: cohort sizes, the deadlines of all waits, and output files.

    Attributes:
        cohort_limit: M, the most clients that a round selects. None: the inner strategy's
            `fraction_train` of the clients met so far, at least its `min_train_nodes`.
        min_connected: clients that must be connected before a round begins. None: the inner
            strategy's `min_available_nodes`. 0: no round waits, and one without clients is aborted.
        sufficient_replies: a round ends as soon as this many valid replies have arrived (those of
            the whole cohort, if it is smaller), and is aborted if fewer arrive in time. None: it
            waits for the whole cohort and averages the replies that arrive in time.
        connect_timeout: seconds of a wait for `min_connected`; then an event is written and the
            next wait begins. Waits use up no round.
        describe: whether every node is asked once for its client key. False: no node is asked, and
            a client is known by its node's public key or its node id.
        describe_timeout: seconds that a round waits for nodes that are asked for the first time, at
            most `connect_timeout`. A node that does not answer is asked again, at growing
            intervals, and no later round waits for it.
        reply_timeout: seconds to wait for replies (`start(timeout=...)` may shorten it).
        evaluate_timeout: seconds to wait for the clients' evaluation, and for the losses that a
            sampler asks for, at most `reply_timeout`. A client that did not answer is waited for
            only briefly until it answers again.
        graph_timeout: seconds that each of the four phases of a private graph waits for replies.
        max_idle_rounds: the deployment ends with an error after this many rounds in a row were
            aborted because valid replies were missing, and after this many waits of
            `connect_timeout` in a row. None: never.
        filters: rules that a connected client has to meet, see `fedgs.flower.filters.Filters`, or
            a table of them.
        newcomer_count: the count that a newcomer starts with: the "mean" of the others, rounded, or
            "zero".
        seed: of the selection, >= 0: the same seed and the same availability give the same cohorts
            as the simulator.
        objective: the weights p_k of the clients in the objective: "data_size", n_k / n; "equal",
            1/N. Weightings follow it, and so does the mean of the clients' evaluations.
        durations: whether samplers see how long replies took (`oort` and `rbcs_f` read that).
            False: cohorts depend on seed and availability alone, as in a simulation without a
            clock.
        records: folder for records that `fedgs table` and `fedgs report` read, or None. It must be
            new or empty, or hold the records of the deployment that `load_state` continues.
        state: file that the state is saved to after every round, or None. It must be new, or hold
            the state of this deployment.

    >>> Settings(cohort_limit=5).connect_timeout
    600.0
    """

    family = "SampledStrategy"
    cohort_limit: int | None = Field(default=None, ge=1)
    min_connected: int | None = Field(default=None, ge=0)
    sufficient_replies: int | None = Field(default=None, ge=1)
    connect_timeout: Seconds = 600.0
    describe: bool = True
    describe_timeout: Seconds = 60.0
    reply_timeout: Seconds = 3600.0
    evaluate_timeout: Seconds = 120.0
    graph_timeout: Seconds = 120.0
    max_idle_rounds: int | None = Field(default=10, ge=1)
    filters: Annotated[Filters, BeforeValidator(_as_filters)] = Filters()
    newcomer_count: Literal["mean", "zero"] = "mean"
    seed: int = Field(default=0, ge=0)
    objective: Objective = "data_size"
    durations: bool = True
    records: str | Path | None = None
    state: str | Path | None = None

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        if self.filters.asks and not self.describe:
            raise ConfigError(
                "filters of battery and network need describe = True, since clients report both "
                "when they are asked; got describe = False"
            )

    def ended(self, rounds: int, why: str) -> RunError:
        """The error that ends a deployment after so many rounds, with what is left of it."""
        advice = "load_state continues after them"
        if self.state is None:
            advice = "save_state keeps the model"
        return RunError(f"{why}; {rounds} rounds are done, and {advice}")

    def limits(self) -> dict[str, object]:
        """The settings that the records of the deployment name: all but M, the seed and the files.

        The default objective is not named, as in the simulator, nor are the defaults of
        `graph_timeout` and `durations`.

        >>> "reply_timeout" in Settings().limits(), "state" in Settings().limits()
        (True, False)
        """
        excluded = {"cohort_limit", "seed", "records", "state", "filters"}
        if self.objective == "data_size":
            excluded.add("objective")
        if self.graph_timeout == type(self).model_fields["graph_timeout"].default:
            excluded.add("graph_timeout")
        if self.durations:
            excluded.add("durations")
        settings = self.model_dump(exclude=excluded)
        if self.filters != Filters():
            settings["filters"] = self.filters.model_dump(exclude_none=True)
        return {name: value for name, value in settings.items() if value is not None}

"""What a deployment can be told, checked when the strategy is made."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from fedgs.registry import Variant

__all__ = ["Settings"]

Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Settings(Variant):
    """Settings of `SampledStrategy`: three knobs, the deadlines of every wait, and where things are kept.

    Attributes:
        cohort_limit: M, the most clients that a round selects. None: the inner strategy's `fraction_train` of the clients met so
            far, at least its `min_train_nodes`.
        min_connected: clients that must be connected before a round selects. None: the inner strategy's `min_available_nodes`.
        sufficient_replies: a round is over as soon as so many good replies have come (the whole cohort's, if it is smaller), and
            given up if fewer come in time. None: it waits for the whole cohort and makes do with what came in time.
        connect_timeout: seconds to wait for `min_connected`; then the round is given up and the model kept.
        reply_timeout: seconds to wait for replies (`start(timeout=...)` may shorten it).
        newcomer_count: the count a newcomer starts with: the "mean" of the others, rounded, or "zero".
        seed: of the selection, >= 0: the same seed and the same availability give the same cohorts as the simulator.
        records: folder for records that `fedgs table` and `fedgs report` read, or None.
        state: file that the state is saved to after every round, or None.

    >>> Settings(cohort_limit=5).connect_timeout
    600.0
    """

    family = "SampledStrategy"
    cohort_limit: int | None = Field(default=None, ge=1)
    min_connected: int | None = Field(default=None, ge=1)
    sufficient_replies: int | None = Field(default=None, ge=1)
    connect_timeout: Seconds = 600.0
    reply_timeout: Seconds = 3600.0
    newcomer_count: Literal["mean", "zero"] = "mean"
    seed: int = Field(default=0, ge=0)
    records: str | Path | None = None
    state: str | Path | None = None

"""The table `[system]` of a configuration: how long clients take, and when a round ends."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field

from fedgs.registry import Variant

__all__ = ["AssignProfile", "Away", "Clock", "System"]

Away = Literal["lost", "pause", "at_end"]
Clock = Literal["rounds", "simulated"]
AssignProfile = Literal["random", "order", "name"]
_LOGNORMAL = (
    "example_seconds", "example_seconds_spread", "down", "down_spread", "up", "up_spread",
    "correlation",
)  # fmt: skip


class System(Variant):
    """How long clients take, which of them answer, and when a round ends.

    Client k needs

        8·down_bytes/down_k + work·example_seconds_k·E·min(B, n_k) + 8·up_bytes/up_k

    seconds, times exp(noise·e - noise²/2) with e standard normal in each round. The three numbers
    of a client are lognormal, or those of a device in `profile`. The sampler selects
    ceil(over_selection·M) clients, and the round ends with the M-th answer, at the deadline, or
    when no client is working any more. Only clients that answer train.

    Attributes:
        example_seconds: median over the clients of the seconds of training on one example, > 0.
        example_seconds_spread: standard deviation of its logarithm, >= 0.
        down: median bit/s from the server, > 0.
        down_spread: standard deviation of its logarithm, >= 0.
        up: median bit/s to the server, > 0.
        up_spread: standard deviation of its logarithm, >= 0.
        correlation: of the logarithms of both speeds, in [-1, 1].
        profile: CSV file `device,example_seconds,down,up` with the numbers of real devices, which
            replace the lognormal ones.
        assign: "random": clients have the devices of the profile in a random order of the seed.
            "order": client k has device k. Where there are more clients than devices, devices are
            used again. "name": each client has the device of its name.
        noise: standard deviation of the logarithm of a client's durations, >= 0.
        update_bytes: bytes of a model in either direction, >= 0; None: 4 a parameter.
        work: factor of the training time, > 0; the clients then pretend to train a larger model.
        over_selection: factor of the cohort limit for the selection, >= 1.
        deadline: seconds after which a round ends, >= 0; None: never.
        least: answers that a round needs, >= 1; with fewer, the model stays as it is.
        drop_out: probability that a client fails at a uniform moment of its work, in [0, 1].
        away: what happens to the work of a client that leaves, for modes in seconds such as
            `trace`. "lost": it has no answer. "pause": training continues when the client is back,
            and an interrupted transfer has no answer. "at_end": it has an answer if the client is
            available at the end of its work.
        couple_speed: rho in [-1, 1] of a Gaussian copula on the ranks of n_k and of
            `example_seconds`; at 1 the clients with the most data are the slowest.
        clock: what A_t is read at, for modes in seconds. "rounds": round t is at a fixed second,
            which is the same for all methods. "simulated": it begins when the round before has
            ended, or when the first client becomes available.
        max_wait_hours: for "simulated": after so many hours without an available client, the run
            fails, > 0.
        seed: of the clients' numbers, noise and failures, >= 0; None: the run's seed.

    >>> System(deadline=60).over_selection
    1.3
    """

    family: ClassVar[str] = "system"
    example_seconds: float = Field(default=0.0136, gt=0, allow_inf_nan=False)
    example_seconds_spread: float = Field(default=0.6, ge=0, le=10)
    down: float = Field(default=5e6, gt=0, allow_inf_nan=False)
    down_spread: float = Field(default=0.5, ge=0, le=10)
    up: float = Field(default=3.5e6, gt=0, allow_inf_nan=False)
    up_spread: float = Field(default=0.7, ge=0, le=10)
    correlation: float = Field(default=0.45, ge=-1, le=1)
    profile: Annotated[
        str | None, BeforeValidator(lambda path: str(path) if isinstance(path, Path) else path)
    ] = None
    assign: AssignProfile = "random"
    noise: float = Field(default=0, ge=0, le=10)
    update_bytes: int | None = Field(default=None, ge=0, le=10**15)
    work: float = Field(default=1, gt=0, allow_inf_nan=False)
    over_selection: float = Field(default=1.3, ge=1, le=1e6, allow_inf_nan=False)
    deadline: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    least: int = Field(default=1, ge=1)
    drop_out: float = Field(default=0, ge=0, le=1)
    away: Away = "lost"
    couple_speed: float = Field(default=0, ge=-1, le=1)
    clock: Clock = "rounds"
    max_wait_hours: float = Field(default=168, gt=0, le=1e6)
    seed: int | None = Field(default=None, ge=0)

    @classmethod
    def without_effect(cls, settings: Mapping[str, object]) -> dict[str, str]:
        """Numbers that a profile replaces, and what belongs to a profile or to the other clock."""

        def given(key: str) -> bool:
            default: object = cls.model_fields[key].default
            return settings.get(key, default) != default

        refused = {}
        if settings.get("profile") is None:
            if given("assign"):
                refused["assign"] = (
                    "system.assign has no effect without system.profile, whose devices it assigns"
                )
        else:
            for key in _LOGNORMAL:
                if given(key):
                    refused[key] = (
                        f"system.{key} has no effect beside system.profile, whose numbers replace "
                        "it; leave one out"
                    )
        if given("max_wait_hours") and settings.get("clock", "rounds") == "rounds":
            refused["max_wait_hours"] = (
                "system.max_wait_hours has no effect without system.clock = 'simulated'; with "
                "'rounds' no round waits for clients"
            )
        return refused

"""The clock of a run: what it carries from round to round, and how a round takes time."""

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from fedgs.arrays import BoolArray, FloatArray, IntArray, frozen
from fedgs.availability import Availability, InSeconds
from fedgs.clients import Clients
from fedgs.config import Training
from fedgs.errors import ConfigError, RunError
from fedgs.system.devices import Devices
from fedgs.system.play import Played, play
from fedgs.system.profile import read_profile
from fedgs.system.tasks import YEAR
from fedgs.system.work import ClientWork
from fedgs.system_settings import System

__all__ = [
    "MOST_SECONDS",
    "NUMERICS",
    "SystemTime",
    "TimeState",
    "available_at",
    "examples_of_round",
]

NUMERICS = 1
"""The version of the durations and of the rule that ends a round."""

MOST_SECONDS = 100 * YEAR
"""What a client may need for its download, its training or its upload in a round."""


@dataclass(frozen=True, eq=False)
class TimeState:
    """What a run with a clock carries from round to round; the arrays are read-only.

    Attributes:
        clock: seconds since the beginning of the run, at the beginning of the round to come.
        answers: (N,) in how many rounds an update of each client entered the model.
        failures: (N,) how many of each client's last selections had no answer.
        seconds: (N,) duration of each client's last answered work, NaN before the first.

    >>> TimeState.before_round_0(2).seconds
    array([nan, nan])
    """

    clock: float
    answers: IntArray
    failures: IntArray
    seconds: FloatArray

    def __post_init__(self) -> None:
        for name in ("answers", "failures", "seconds"):
            object.__setattr__(self, name, frozen(getattr(self, name)))

    @staticmethod
    def before_round_0(num_clients: int) -> "TimeState":
        """The state at second 0, without answers."""
        zeros = np.zeros(num_clients, dtype=np.int64)
        return TimeState(0.0, zeros, zeros.copy(), np.full(num_clients, np.nan))

    def after(self, cohort: IntArray, played: Played) -> "TimeState":
        """The state after a round; answers of a round with too few of them do not enter.

        Args:
            cohort: (m,) indices of the selected clients.
            played: the round.
        """
        answers, failures, good = self.answers, self.failures, cohort
        durations, seconds = played.durations, self.seconds.copy()
        if not played.all_answered:
            good, durations = cohort[played.in_time], durations[played.in_time]
            failures = failures.copy()
            failures[cohort] += 1
            failures[good] = 0
        elif np.count_nonzero(failures[good]):
            failures = failures.copy()
            failures[good] = 0
        seconds[good] = durations
        if played.entered:
            answers = answers.copy()
            answers[good] += 1
        return TimeState(self.clock + played.seconds, answers, failures, seconds)


@dataclass(frozen=True, eq=False)
class SystemTime:
    """How rounds take time, for one federation.

    Attributes:
        settings: the table `[system]`.
        clients: all N clients.
        mode: the availability mode.
        cohort_limit: M, the answers to wait for.
        examples: (N,) examples that each client trains on in a round, E·min(B, n_k).

    Raises:
        ConfigError: a clock or a number of answers that cannot be.

    >>> from fedgs.availability import Ideal
    >>> clients = Clients(("a", "b", "c"), np.array([9, 9, 9]))
    >>> time = SystemTime(System(), clients, Ideal(), 2, np.full(3, 90.0))
    >>> time.selected
    3
    """

    settings: System
    clients: Clients
    mode: Availability
    cohort_limit: int
    examples: FloatArray = field(repr=False)

    def __post_init__(self) -> None:
        settings = self.settings
        if settings.least > self.cohort_limit:
            raise ConfigError(
                f"system.least must be at most {self.cohort_limit}, the answers that the server "
                f"waits for (M), got {settings.least}"
            )
        if settings.clock == "simulated" and self.in_seconds is None:
            raise ConfigError(
                f"system.clock must be 'rounds' for availability {self.mode.name!r}, whose clients "
                "are available by round; 'simulated' needs a mode in seconds such as 'trace'"
            )
        if settings.clock == "simulated" and getattr(self.mode, "wrap", None) == "refuse":
            raise ConfigError(
                "availability.wrap must be 'days' or 'device' with system.clock = 'simulated', "
                "whose last second is not known, got 'refuse'"
            )
        if self.in_seconds is None and settings.away != "lost":
            raise ConfigError(
                f"system.away has no effect with availability {self.mode.name!r}, whose clients "
                "leave between rounds alone; leave it out"
            )
        _ = self.devices  # refuses a profile that cannot be used

    @cached_property
    def in_seconds(self) -> InSeconds | None:
        """The mode, if its clients are available by the second."""
        return self.mode if isinstance(self.mode, InSeconds) else None

    @property
    def content_digest(self) -> str | None:
        """A hash of the profile, for a run's identity; None without a profile."""
        return None if self.settings.profile is None else read_profile(self.settings.profile).digest

    @property
    def is_simulated(self) -> bool:
        """Whether A_t is that of the run's own clock."""
        return self.settings.clock == "simulated"

    @cached_property
    def work(self) -> ClientWork:
        """What the clients do with the work of a round."""
        return ClientWork(self.settings, self.clients, self.in_seconds, self.examples)

    @property
    def devices(self) -> Devices:
        """The speeds of the clients."""
        return self.work.devices

    @cached_property
    def selected(self) -> int:
        """How many clients the sampler may select, min(N, ceil(over_selection·M))."""
        limit = int(np.ceil(self.settings.over_selection * self.cohort_limit - 1e-9))
        return min(len(self.clients), limit)

    def phases(self, round: int, chosen: IntArray, num_parameters: int) -> FloatArray:
        """(3, m) seconds of download, training and upload in a round, independent of the cohort."""
        update_bytes = self.update_bytes(num_parameters)
        return self.work.phases(round, chosen, update_bytes=update_bytes)

    def check_durations(self, num_parameters: int) -> None:
        """Refuse clients that need more than `MOST_SECONDS` for a phase of a round, without noise.

        Args:
            num_parameters: P of the model.

        Raises:
            ConfigError: such a client; the sentence names it and the setting.
        """
        settings = self.settings
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            phases = self.devices.phases(
                np.arange(len(self.clients)),
                settings.work * self.examples,
                update_bytes=self.update_bytes(num_parameters),
            )
        for column, seconds in zip(("down", "example_seconds", "up"), phases, strict=True):
            wrong = np.flatnonzero(~(seconds <= MOST_SECONDS))
            if len(wrong):
                of_profile = f"system.profile {settings.profile!r} ({column})"
                name = f"system.{column}" if settings.profile is None else of_profile
                if column == "example_seconds" and settings.work != 1:
                    name += f" with system.work = {settings.work:g}"
                raise ConfigError(
                    f"{name} must give every client at most {MOST_SECONDS:.3g} seconds (100 years) "
                    f"a round, got {seconds[wrong[0]]:.3g} for client "
                    f"{str(self.clients.names[wrong[0]])!r}"
                )

    def update_bytes(self, num_parameters: int) -> int:
        """Bytes of a model in either direction."""
        given = self.settings.update_bytes
        return 4 * num_parameters if given is None else given

    def begun(self, state: TimeState) -> TimeState:
        """The state at the beginning of the round: the clock waits until a client is available.

        Raises:
            RunError: none becomes available within `max_wait_hours`.
        """
        if not self.is_simulated or self.available(state.clock).any():
            return state
        mode = self.in_seconds
        assert mode is not None
        second = mode.second_of(0) + state.clock
        first = float(self.work.states.next_change(second).min())
        if first - second > self.settings.max_wait_hours * 3600:
            raise RunError(
                f"no client is available from hour {state.clock / 3600:.2f} of the run on for "
                f"{self.settings.max_wait_hours:g} hours (system.max_wait_hours)"
            )
        return replace(state, clock=first - mode.second_of(0))

    def available(self, clock: float) -> BoolArray:
        """(N,) the clients that are available at a second of the run's own clock."""
        assert self.in_seconds is not None
        return self.work.states.is_available(self.in_seconds.second_of(0) + clock)

    def play(self, round: int, clock: float, cohort: IntArray, num_parameters: int) -> Played:
        """A round in time; depends on seed, round, clock and cohort alone.

        Args:
            round: t.
            clock: of the run at the beginning of the round, in seconds.
            cohort: (m,) ascending indices of the selected clients, m >= 1.
            num_parameters: P of the model.
        """
        settings, update_bytes = self.settings, self.update_bytes(num_parameters)
        return play(
            self.work.tasks(round, clock, cohort, update_bytes=update_bytes),
            wanted=self.cohort_limit,
            deadline=settings.deadline,
            least=settings.least,
            update_bytes=update_bytes,
        )


def available_at(mode: InSeconds, clients: Clients, clock: float) -> BoolArray:
    """(N,) the clients that are available `clock` seconds after the beginning of a run."""
    everyone = np.arange(len(clients))
    seconds = np.full(len(everyone), mode.second_of(0) + clock)
    return mode.is_available(seconds, clients, everyone)


def examples_of_round(training: Training, clients: Clients) -> FloatArray:
    """(N,) examples that each client trains on in a round, E·min(B, n_k).

    With `local_epochs` they are those of its passes; `drop_last` leaves out short batches.

    >>> clients = Clients(("a", "b"), np.array([3, 50]))
    >>> examples_of_round(Training(local_steps=2, batch_size=10), clients).tolist()
    [6.0, 20.0]
    >>> examples_of_round(Training(local_epochs=2, batch_size=10), clients).tolist()
    [6.0, 100.0]
    """
    sizes = clients.data_sizes
    batch = min(training.batch_size, int(sizes.max(initial=1)))  # any integer can be asked for
    if training.local_epochs is not None:
        whole = sizes // batch * batch
        used = np.where((whole > 0) & training.drop_last, whole, sizes)
        examples: FloatArray = training.local_epochs * used.astype(np.float64)
        return examples
    batches: FloatArray = np.minimum(batch, sizes).astype(np.float64)
    return training.local_steps * batches

"""What each client does with the work of a round, for any cohort."""

from dataclasses import dataclass, field
from functools import cached_property, partial

import numpy as np

from fedgs.arrays import AnyArray, FloatArray, IntArray
from fedgs.availability import InSeconds
from fedgs.clients import Clients
from fedgs.rng import streams
from fedgs.system.devices import Devices, devices_of
from fedgs.system.kept import KnownStates, Rounds
from fedgs.system.play import Tasks
from fedgs.system.tasks import YEAR, checked_tasks, drop_outs, lost_tasks, paused_tasks
from fedgs.system_settings import System

__all__ = ["ClientWork"]

_FEW = 1000  # up to so many clients, tasks of all are made in place of those of the cohort


@dataclass(frozen=True, eq=False)
class ClientWork:
    """The tasks of all clients, each of which depends on seed, round, clock and client alone.

    Attributes:
        settings: the table `[system]`.
        clients: all N clients.
        mode: the availability mode, if its clients are available by the second.
        examples: (N,) examples that each client trains on in a round.

    >>> clients = Clients(("a", "b"), np.array([9, 9]))
    >>> system = System(example_seconds=0.1, example_seconds_spread=0, update_bytes=0)
    >>> work = ClientWork(system, clients, None, np.array([10.0, 20.0]))
    >>> work.tasks(0, 0.0, np.array([1]), update_bytes=0).ends.tolist()
    [2.0]
    """

    settings: System
    clients: Clients
    mode: InSeconds | None
    examples: FloatArray = field(repr=False)

    @cached_property
    def devices(self) -> Devices:
        """The speeds of the clients."""
        return devices_of(self.settings, self.clients)

    @cached_property
    def states(self) -> KnownStates:
        """Who is available when, under a mode in seconds."""
        assert self.mode is not None
        return KnownStates(self.mode, self.clients)

    def tasks(self, round: int, clock: float, cohort: IntArray, *, update_bytes: int) -> Tasks:
        """The tasks of a cohort.

        Args:
            round: t.
            clock: seconds of the run at the beginning of the round.
            cohort: (m,) indices.
            update_bytes: of a model in either direction.
        """
        mode = self.mode
        if len(self.clients) <= _FEW and (mode is None or self.settings.clock == "rounds"):
            tasks, place = self._rounds(update_bytes).of(round)
            return tasks.of(place, cohort)
        phases, moments = self.phases(round, cohort, update_bytes=update_bytes), None
        if self.settings.drop_out:
            drawn, place = self._moments.of(round)
            moments = drawn[place][cohort]
        if mode is None:
            return self._tasks(cohort, phases, moments)
        if self.settings.clock == "rounds":
            start = np.full(len(cohort), mode.second_of(round))
            leaves = mode.next_change(start, self.clients, cohort)
        else:
            second = mode.second_of(0) + clock
            start = np.full(len(cohort), second)
            leaves = self.states.next_change(second)[cohort]
        return self._tasks(cohort, phases, moments, start=start, leaves=leaves)

    def phases(self, round: int, chosen: IntArray, *, update_bytes: int) -> FloatArray:
        """(3, m) seconds of download, training and upload in a round."""
        phases: FloatArray = self._quiet(update_bytes)[:, chosen]
        if self.settings.noise:
            factors, place = self._factors.of(round)
            phases *= factors[place][chosen]
        return phases

    def _quiet(self, update_bytes: int) -> FloatArray:
        """(3, N) seconds of the phases without noise, equal in all rounds."""
        known = self._known_quiet.get(update_bytes)
        if known is None:
            everyone, examples = np.arange(len(self.clients)), self.settings.work * self.examples
            phases = self.devices.phases(everyone, examples, update_bytes=update_bytes)
            known = self._known_quiet[update_bytes] = np.array(phases)
        return known

    @cached_property
    def _known_quiet(self) -> dict[int, FloatArray]:
        return {}

    @cached_property
    def _factors(self) -> Rounds[FloatArray]:
        return Rounds(len(self.clients), self._draw_factors)

    def _draw_factors(self, rounds: range) -> FloatArray:
        """(R, N) the factors of the durations."""
        seed, noise, count = self.settings.seed or 0, self.settings.noise, len(self.clients)
        normal = np.empty((len(rounds), count))
        for row, rng in zip(normal, streams(seed, "duration", rounds), strict=True):
            rng.standard_normal(out=row)
        factors: FloatArray = np.exp(noise * normal - noise**2 / 2)
        return factors

    @cached_property
    def _moments(self) -> Rounds[FloatArray]:
        return Rounds(len(self.clients), self._draw_moments)

    def _draw_moments(self, rounds: range) -> FloatArray:
        """(R, N) the shares of their work after which clients fail, inf for the others."""
        seed, count = self.settings.seed or 0, len(self.clients)
        drawn = np.empty((len(rounds), 2, count))
        for pair, rng in zip(drawn, streams(seed, "drop out", rounds), strict=True):
            rng.random(out=pair)
        moments: FloatArray = np.where(drawn[:, 0] < self.settings.drop_out, drawn[:, 1], np.inf)
        return moments

    def _rounds(self, update_bytes: int) -> Rounds["_TasksOfRounds"]:
        known = self._known_rounds.get(update_bytes)
        if known is None:
            make = partial(self._make_rounds, update_bytes)
            known = self._known_rounds[update_bytes] = Rounds(len(self.clients), make)
        return known

    @cached_property
    def _known_rounds(self) -> dict[int, Rounds["_TasksOfRounds"]]:
        return {}

    def _make_rounds(self, update_bytes: int, rounds: range) -> "_TasksOfRounds":
        """The tasks of all clients in some rounds, under the clock of rounds."""
        count, mode = len(self.clients), self.mode
        shape = len(rounds), count
        factors = self._draw_factors(rounds) if self.settings.noise else np.ones(shape)
        phases = self._quiet(update_bytes)[:, np.newaxis] * factors
        moments = self._draw_moments(rounds) if self.settings.drop_out else np.full(shape, np.inf)
        pairs = np.arange(len(rounds) * count)
        chosen = pairs % count
        if mode is None:
            tasks = self._tasks(chosen, phases.reshape(3, -1), moments.ravel())
            return _TasksOfRounds.where(tasks, pairs, shape)
        start = np.repeat(np.array([mode.second_of(t) for t in rounds]), count)
        pairs = pairs[mode.is_available(start, self.clients, chosen)]  # no others are selected
        chosen, start = chosen[pairs], start[pairs]
        leaves = mode.next_change(start, self.clients, chosen)
        tasks = self._tasks(
            chosen,
            phases.reshape(3, -1)[:, pairs],
            moments.ravel()[pairs],
            start=start,
            leaves=leaves,
        )
        return _TasksOfRounds.where(tasks, pairs, shape)

    def _tasks(
        self,
        chosen: IntArray,
        phases: FloatArray,
        moments: FloatArray | None,
        *,
        start: FloatArray | None = None,
        leaves: FloatArray | None = None,
    ) -> Tasks:
        """The tasks of n clients, which may be of several rounds.

        Args:
            chosen: (n,) indices.
            phases: (3, n) seconds of download, training and upload.
            moments: (n,) when each fails, see `drop_outs`; None: no client fails.
            start: (n,) seconds at which their rounds begin; None: no client leaves.
            leaves: (n,) seconds at which they leave.
        """
        settings, mode = self.settings, self.mode
        durations: FloatArray = phases[0] + phases[1] + phases[2]
        if mode is None or start is None or leaves is None:
            tasks = Tasks.undisturbed(durations)
        elif settings.away == "lost":
            tasks = lost_tasks(durations, leaves - start)
        elif settings.away == "at_end":
            tasks = checked_tasks(
                durations,
                start,
                leaves,
                lambda few, at: mode.is_available(at, self.clients, chosen[few]),
            )
        else:
            tasks = paused_tasks(
                phases,
                start,
                leaves,
                lambda few, at: mode.next_change(at, self.clients, chosen[few]),
                longest=min(YEAR if settings.deadline is None else settings.deadline, YEAR),
            )
        return tasks if moments is None else drop_outs(tasks, moments)


@dataclass(frozen=True, eq=False)
class _TasksOfRounds:
    """The tasks of N clients in R rounds; zeros for clients that are not available.

    Attributes:
        durations, ends, fates: (R, N), see `Tasks`; `ends` is `durations` where no client leaves or
            fails.
    """

    durations: FloatArray
    ends: FloatArray
    fates: AnyArray

    @staticmethod
    def where(tasks: Tasks, pairs: IntArray, shape: tuple[int, int]) -> "_TasksOfRounds":
        """The tasks of some pairs of a round and a client."""

        def filled(values: AnyArray) -> AnyArray:
            table = np.zeros(shape, dtype=values.dtype)
            table.ravel()[pairs] = values
            return table

        durations = filled(tasks.durations)
        ends = durations if tasks.ends is tasks.durations else filled(tasks.ends)
        return _TasksOfRounds(durations, ends, filled(tasks.fates))

    def of(self, place: int, cohort: IntArray) -> Tasks:
        """The tasks of a cohort in one of the rounds."""
        durations: FloatArray = self.durations[place, cohort]
        ends = durations if self.ends is self.durations else self.ends[place, cohort]
        return Tasks(durations, ends, self.fates[place, cohort])

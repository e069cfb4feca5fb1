"""The available clients of stored rounds: read from a file of bits, or drawn again and checked.

The record of a round with more than 1000 clients holds their number and a digest. The bits of the
first rounds are in `available.bits`, as far as 64 MB go. A_t is a function of mode, seed, clients
and round or clock, so the bits of every other round are drawn again. The digest is compared in both
cases.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from fedgs.arrays import AnyArray, BoolArray
from fedgs.availability import Availability, AvailabilityDraws, InSeconds
from fedgs.clients import Clients
from fedgs.errors import FedgsError, OutputError
from fedgs.file_writing import errors_named
from fedgs.members import Members, digest_of
from fedgs.registry import build
from fedgs.system import available_at

__all__ = ["BITS", "MOST_BYTES", "AvailableClients", "keep_bits"]

BITS = "available.bits"
MOST_BYTES = 64_000_000
"""How long the file of bits becomes: 512 rounds of a million clients."""


def keep_bits(folder: Path, round: int, members: Members) -> None:
    """Write the bits of a round to its place in `available.bits`, while that is within 64 MB.

    The place depends on the round alone. A round that is repeated after an interrupt or a crash
    writes the same bytes to the same place, so the file needs no truncation.
    """
    _, packed = members.found()
    if (round + 1) * len(packed) > MOST_BYTES:
        return
    path = folder / BITS
    with errors_named(path):
        path.touch()
        with path.open("r+b") as file:
            file.seek(round * len(packed))
            file.write(packed.data)


@dataclass(frozen=True, eq=False)
class AvailableClients:
    """Finds the available clients of the rounds of a run's folder.

    Attributes:
        folder: of the run.
        read_config, read_clients: read the run's configuration and clients, when they are needed.
    """

    folder: Path
    read_config: Callable[[], Mapping[str, Any]]
    read_clients: Callable[[], Clients]

    def find(
        self, round: int, clock: float | None, digest: str
    ) -> tuple[Sequence[str | int], AnyArray]:
        """The keys of all N clients, and the bits of A_t.

        Args:
            round: t.
            clock: seconds of the run at the beginning of the round; None: without a clock.
            digest: of the bits.

        Raises:
            OutputError: the mode is not registered here, or gives other clients than the record.
        """
        names = self._clients.names
        stored = self._stored(round)
        if stored is not None and digest_of(stored) == digest:
            return names, stored
        packed = np.packbits(self._drawn(round, clock))
        if digest_of(packed) != digest:
            raise OutputError(
                f"the available clients of round {round} of {self.folder} cannot be found: drawn "
                "again, they differ from the digest in its record"
            )
        return names, packed

    @cached_property
    def _clients(self) -> Clients:
        return self.read_clients()

    @cached_property
    def _draws(self) -> tuple[AvailabilityDraws, bool]:
        """The draws of the run's mode, and whether they are those of the run's own clock."""
        config = self.read_config()
        try:
            mode = build("availability", dict(config["availability"]))
            if not isinstance(mode, Availability):
                raise TypeError(mode)
        except (FedgsError, TypeError, KeyError) as error:
            raise OutputError(
                f"the available clients of {self.folder} cannot be drawn again: {error}"
            ) from None
        system = config.get("system") or {}
        return AvailabilityDraws(mode, self._clients), system.get("clock") == "simulated"

    def _drawn(self, round: int, clock: float | None) -> BoolArray:
        draws, is_simulated = self._draws
        if is_simulated and clock is not None and isinstance(draws.mode, InSeconds):
            return available_at(draws.mode, self._clients, clock)
        inside = np.zeros(len(self._clients), dtype=np.bool_)
        inside[draws.at(round).clients] = True
        return inside

    def _stored(self, round: int) -> AnyArray | None:
        """The bits in the file; None where it does not reach as far."""
        width = -(-len(self._clients) // 8)
        try:
            with (self.folder / BITS).open("rb") as file:
                file.seek(round * width)
                content = file.read(width)
        except OSError:
            return None
        return np.frombuffer(content, dtype=np.uint8) if len(content) == width else None

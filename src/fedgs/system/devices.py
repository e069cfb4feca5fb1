"""The speeds of the clients: drawn, or those of real devices."""

from dataclasses import dataclass

import numpy as np

from fedgs.arrays import FloatArray, IntArray, frozen
from fedgs.clients import Clients
from fedgs.errors import ConfigError
from fedgs.rng import stream
from fedgs.system.profile import Profile, read_profile
from fedgs.system_settings import System
from fedgs.traces.assignment import coupled_order

__all__ = ["Devices", "devices_of"]


@dataclass(frozen=True, eq=False)
class Devices:
    """The speeds of N clients.

    Attributes:
        example_seconds: (N,) c_k > 0, seconds of training on one example.
        down: (N,) bit/s > 0 from the server.
        up: (N,) bit/s > 0 to the server.

    >>> Devices(np.array([0.5]), np.array([1e6]), np.array([5e5])).up.tolist()
    [500000.0]
    """

    example_seconds: FloatArray
    down: FloatArray
    up: FloatArray

    def phases(
        self, chosen: IntArray, examples: FloatArray, *, update_bytes: float
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """(m,) seconds of download, training and upload.

        Args:
            chosen: (m,) indices of the clients.
            examples: (m,) examples that each trains on, in all steps together.
            update_bytes: of a model, in either direction.

        >>> devices = Devices(np.array([0.5]), np.array([1e6]), np.array([5e5]))
        >>> phases = devices.phases(np.array([0]), np.array([20.0]), update_bytes=125_000)
        >>> [seconds.tolist() for seconds in phases]
        [[1.0], [10.0], [2.0]]
        """
        bits = 8.0 * update_bytes
        training: FloatArray = self.example_seconds[chosen] * examples
        return bits / self.down[chosen], training, bits / self.up[chosen]


def devices_of(settings: System, clients: Clients) -> Devices:
    """The speeds of all clients; they depend on settings, seed and clients alone.

    Raises:
        DataError: the profile cannot be read.
        ConfigError: the profile has no device of a client's name.

    >>> clients = Clients(("a", "b"), np.array([3, 5]))
    >>> devices = devices_of(System(example_seconds_spread=0, seed=1), clients)
    >>> devices.example_seconds.tolist()
    [0.0136, 0.0136]
    """
    count, seed = len(clients), settings.seed or 0
    if settings.profile is None:
        normal = stream(seed, "device speeds").standard_normal((3, count))
        rho = settings.correlation
        second = rho * normal[1] + np.sqrt(1 - rho**2) * normal[2]
        with np.errstate(over="ignore"):  # `SystemTime.check_durations` refuses what is too large
            devices = Devices(
                settings.example_seconds * np.exp(settings.example_seconds_spread * normal[0]),
                settings.down * np.exp(settings.down_spread * normal[1]),
                settings.up * np.exp(settings.up_spread * second),
            )
    else:
        profile = read_profile(settings.profile)
        rows = _rows(settings, profile, clients)
        devices = Devices(profile.example_seconds[rows], profile.down[rows], profile.up[rows])
    if settings.couple_speed != 0:
        order = coupled_order(
            clients.data_sizes.astype(np.float64),
            devices.example_seconds,
            coupling=settings.couple_speed,
            seed=seed,
            purpose="speed coupling",
        )
        devices = Devices(devices.example_seconds[order], devices.down[order], devices.up[order])
    return Devices(frozen(devices.example_seconds), frozen(devices.down), frozen(devices.up))


def _rows(settings: System, profile: Profile, clients: Clients) -> IntArray:
    """(N,) the devices of the clients."""
    count = len(clients)
    if settings.assign == "name":
        places = {name: row for row, name in enumerate(profile.names)}
        missing = [name for name in map(str, clients.names) if name not in places]
        if missing:
            raise ConfigError(
                f"system.assign = 'name' needs a device of each client's name in system.profile "
                f"{settings.profile!r}, which has none named {missing[0]!r}"
            )
        return np.array([places[str(name)] for name in clients.names], dtype=np.int64)
    order = np.arange(len(profile.names))
    if settings.assign == "random":
        order = stream(settings.seed or 0, "device profile").permutation(order)
    return order[np.arange(count) % len(order)]

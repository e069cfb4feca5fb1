"""System time: how long clients take, which of them answer, and when a round ends.

Everything here is a pure function of seed, round, clients and clock. No torch.
"""

from fedgs.system.devices import Devices, devices_of
from fedgs.system.play import Played, Tasks, play
from fedgs.system.tasks import checked_tasks, drop_outs, lost_tasks, paused_tasks
from fedgs.system.time import NUMERICS, SystemTime, TimeState, available_at, examples_of_round

__all__ = [
    "NUMERICS",
    "Devices",
    "Played",
    "SystemTime",
    "Tasks",
    "TimeState",
    "available_at",
    "checked_tasks",
    "devices_of",
    "drop_outs",
    "examples_of_round",
    "lost_tasks",
    "paused_tasks",
    "play",
]

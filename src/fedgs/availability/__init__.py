"""Which clients are available: availability modes as pure functions of the round, and A_t.

Only NumPy is needed.
"""

from fedgs.availability.base import (
    Availability,
    EmptyRound,
    checked_available,
    checked_rates,
)
from fedgs.availability.draw import AvailabilityDraws, RoundAvailability, activity, draw_available
from fedgs.availability.rates import (
    Ideal,
    LabelCycle,
    LargeLabelsFirst,
    LessDataFirst,
    LogNormal,
    MoreDataFirst,
    SineLogNormal,
)
from fedgs.availability.recorded import AvailabilityFile

# isort: split
from fedgs.availability.markov import Markov

# isort: split
from fedgs.availability.trace import Trace

__all__ = [
    "AvailabilityDraws",
    "Availability",
    "AvailabilityFile",
    "EmptyRound",
    "Ideal",
    "LabelCycle",
    "LargeLabelsFirst",
    "LessDataFirst",
    "LogNormal",
    "Markov",
    "MoreDataFirst",
    "RoundAvailability",
    "SineLogNormal",
    "Trace",
    "activity",
    "checked_available",
    "checked_rates",
    "draw_available",
]

"""Which clients are available: availability modes as rates, and the draw of A_t.

Only NumPy is needed.
"""

from fedgs.availability.base import Availability, EmptyRound, checked_rates
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
    "MoreDataFirst",
    "RoundAvailability",
    "SineLogNormal",
    "activity",
    "checked_rates",
    "draw_available",
]

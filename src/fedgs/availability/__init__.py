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
from fedgs.availability.in_seconds import InSeconds
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
from fedgs.availability.drawn_rates import Bernoulli, LabelDirichlet, LabelUniform

# isort: split
from fedgs.availability.multipliers import Interleaved, Sine, Staircase

# isort: split
from fedgs.availability.cycles import Cyclic, Groups

# isort: split
from fedgs.availability.diurnal import Diurnal

# isort: split
from fedgs.availability.trace import Trace

__all__ = [
    "Availability",
    "AvailabilityDraws",
    "AvailabilityFile",
    "Bernoulli",
    "Cyclic",
    "Diurnal",
    "EmptyRound",
    "Groups",
    "Ideal",
    "InSeconds",
    "Interleaved",
    "LabelCycle",
    "LabelDirichlet",
    "LabelUniform",
    "LargeLabelsFirst",
    "LessDataFirst",
    "LogNormal",
    "Markov",
    "MoreDataFirst",
    "RoundAvailability",
    "Sine",
    "SineLogNormal",
    "Staircase",
    "Trace",
    "activity",
    "checked_available",
    "checked_rates",
    "draw_available",
]

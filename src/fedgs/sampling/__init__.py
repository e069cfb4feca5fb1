"""Who is selected: the samplers, and what it takes to write one. Uses NumPy and SciPy alone."""

from fedgs.sampling.base import AsksLosses, Remembers, Sampler, sampler
from fedgs.sampling.power_of_choice import PowerOfChoice
from fedgs.sampling.proportional import MD
from fedgs.sampling.uniform import Uniform

__all__ = ["MD", "AsksLosses", "PowerOfChoice", "Remembers", "Sampler", "Uniform", "sampler"]

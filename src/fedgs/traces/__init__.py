"""Traces of the availability of real devices: their array form, and readers of other forms.

Only NumPy is needed.
"""

from fedgs.traces.convert import convert, convert_capacities
from fedgs.traces.intervals import DAY, Traces, read_traces, write_traces

__all__ = ["DAY", "Traces", "convert", "convert_capacities", "read_traces", "write_traces"]

"""Traces of the availability of real devices: their array form and its look-up.

Only NumPy is needed.
"""

from fedgs.traces.intervals import DAY, Traces, read_traces, write_traces

__all__ = ["DAY", "Traces", "read_traces", "write_traces"]

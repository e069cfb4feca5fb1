"""Traces that hypothesis draws, and the converted trace of 300 phones where it is at hand."""

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import strategies as st

from fedgs.traces import DAY, Traces, read_traces

PHONES = Path(os.environ.get("FEDGS_TRACES") or "absent", "flame300.npz")
needs_phones = pytest.mark.skipif(
    not PHONES.is_file(), reason="FEDGS_TRACES names no folder with flame300.npz"
)


def phones() -> Traces:
    return read_traces(PHONES)


@st.composite
def damaged(draw: st.DrawFn, content: bytes) -> bytes:
    """The bytes of a file, of which up to five are lost or replaced."""
    changed = bytearray(content)
    for _ in range(draw(st.integers(0, 5))):
        at = draw(st.integers(0, len(changed) - 1))
        changed[at : at + draw(st.integers(0, 2))] = draw(st.binary(max_size=4))
        changed = changed or bytearray(b"x")
    return bytes(changed)


@st.composite
def traces_of_days(draw: st.DrawFn, min_span: int = 1) -> Traces:
    """One to four devices, observed for `min_span` seconds to three days, on a grid of 100 s."""
    on, off, offsets, seen = [], [], [0], []
    for _ in range(draw(st.integers(1, 4))):
        first = draw(st.integers(0, DAY // 100)) * 100
        span = draw(st.integers(-(-min_span // 100), 3 * DAY // 100)) * 100
        cuts = draw(st.lists(st.integers(0, span // 100), max_size=10, unique=True))
        cuts = sorted(cuts)[: len(cuts) // 2 * 2]
        on += [first + 100 * cut for cut in cuts[::2]]
        off += [first + 100 * cut for cut in cuts[1::2]]
        offsets.append(len(on))
        seen.append((first, first + span))
    names = [f"phone-{d}" for d in range(len(seen))]
    return Traces(on, off, offsets, *zip(*seen, strict=True), names)


def intervals_of(traces: Traces, device: int) -> list[tuple[int, int]]:
    """[on, off) of a device as plain numbers."""
    part = slice(traces.offsets[device], traces.offsets[device + 1])
    return list(zip(traces.on[part].tolist(), traces.off[part].tolist(), strict=True))


def on_grid(step: int = 100, days: int = 3) -> np.ndarray:
    """Seconds of some days."""
    return np.arange(0, days * DAY, step)

"""Algorithm 2 as the paper prints it, in float64.

It hides the vectors from the other client, but not from the server, through which all messages
pass: the server sees R_a and Â = A + R_a, and so can compute A = Â - R_a. It exists for comparison
with the ring protocol and gives no protection.
"""

import struct
from enum import IntEnum
from random import SystemRandom
from typing import NamedTuple

import numpy as np

from fedgs.arrays import AnyArray, FloatArray
from fedgs.errors import DataError, ProtocolError

__all__ = ["MASK_SCALE", "PaperClient", "PaperDealer", "PaperServer", "Seen", "Step"]

# Standard deviation of the masks; the product's rounding error grows with its square.
MASK_SCALE = 100.0
_HEADER = struct.Struct(">4sBI")
_MARK = b"FGP1"


class Step(IntEnum):
    """The content of a message; the comments give the step of Algorithm 2."""

    MASKS_A = 1  # 2: R_a, r_a
    MASKS_B = 2  # 2: R_b, r_b
    MASKED = 3  # 3: Â or B̂
    HAT_TO_A = 4  # 4: B̂
    HAT_TO_B = 5  # 4: Â
    BLINDED = 6  # 5: u and v_2
    U = 7  # 6: u
    SHARE = 8  # 7: v_1


# New masks may begin a new pair at any time: the other client of the last pair may have failed.
_NEW_PAIR = (Step.MASKS_A, Step.MASKS_B)
_AFTER: dict[Step, tuple[Step, ...]] = {
    Step.MASKS_A: (Step.HAT_TO_A, *_NEW_PAIR),
    Step.MASKS_B: (Step.HAT_TO_B, *_NEW_PAIR),
    Step.HAT_TO_A: (Step.U, *_NEW_PAIR),
    Step.HAT_TO_B: _NEW_PAIR,
    Step.U: _NEW_PAIR,
}


class Seen(NamedTuple):
    """An entry of a transcript: a message that a party received, or a value that it drew."""

    step: Step
    sender: str
    values: FloatArray


def _pack(step: Step, values: AnyArray) -> bytes:
    return _HEADER.pack(_MARK, step, len(values)) + np.asarray(values, dtype="<f8").tobytes()


def _unpack(data: bytes, length: int, *steps: Step) -> tuple[Step, FloatArray]:
    """The step and the values of a message; `length` is d, and masks have d + 1 values."""
    expected = " or ".join(step.name for step in steps)
    if len(data) < _HEADER.size or data[:4] != _MARK:
        raise ProtocolError(f"a message is malformed where {expected} was expected")
    _, number, count = _HEADER.unpack_from(data)
    if number not in set(steps):
        raise ProtocolError(f"a message of step {number} is out of order: {expected} was expected")
    step = Step(number)
    wanted = {
        Step.MASKS_A: length + 1,
        Step.MASKS_B: length + 1,
        Step.BLINDED: 2,
        Step.U: 1,
        Step.SHARE: 1,
    }.get(step, length)
    if count != wanted or len(data) != _HEADER.size + 8 * wanted:
        raise ProtocolError(
            f"message {step.name} is malformed: {wanted} numbers were expected, "
            f"{len(data) - _HEADER.size} bytes came"
        )
    values = np.frombuffer(data, dtype="<f8", offset=_HEADER.size).astype(np.float64)
    if not np.isfinite(values).all():
        raise ProtocolError(f"message {step.name} has a number that is not finite")
    return step, values


class PaperDealer:
    """Step 1: draws the masks; it receives no message.

    R_a, R_b and r_a come from the system's secure source, and r_b = R_a·R_b - r_a.

    Args:
        mask_scale: standard deviation of the masks.
    """

    def __init__(self, mask_scale: float = MASK_SCALE) -> None:
        self._scale = mask_scale
        self._source = SystemRandom()
        self.transcript: list[Seen] = []

    def deal(self, length: int) -> tuple[bytes, bytes]:
        """The messages to A and to B, d + 1 numbers each."""
        drawn = np.array([self._source.gauss(0.0, self._scale) for _ in range(2 * length + 1)])
        to_a, masks_b = drawn[: length + 1], drawn[length + 1 :]
        to_b = np.append(masks_b, to_a[:length] @ masks_b - to_a[length])
        self.transcript = [Seen(Step.MASKS_A, "dealer", to_a), Seen(Step.MASKS_B, "dealer", to_b)]
        return _pack(Step.MASKS_A, to_a), _pack(Step.MASKS_B, to_b)


class PaperClient:
    """A client; the first message of a pair makes it A or B. Its transcript is of the last pair.

    Args:
        vector: (d,) finite entries.

    Raises:
        DataError: the vector has another shape, no entry or an entry that is not finite.
    """

    def __init__(self, vector: AnyArray) -> None:
        self._vector = np.asarray(vector, dtype=np.float64)
        if self._vector.ndim != 1 or len(self._vector) == 0 or not np.isfinite(self._vector).all():
            raise DataError(
                "a vector must be one-dimensional with finite entries, "
                f"got shape {self._vector.shape}"
            )
        self._source = SystemRandom()
        self._masks = np.empty(0)
        self._hat = np.empty(0)
        self._expected: tuple[Step, ...] = _NEW_PAIR
        self.transcript: list[Seen] = []

    def answer(self, data: bytes) -> bytes:
        """The reply to one message of the server; empty where none is due.

        Raises:
            ProtocolError: the message is malformed or out of order.
        """
        length = len(self._vector)
        step, values = _unpack(data, length, *self._expected)
        earlier = [] if step in _NEW_PAIR else self.transcript
        self.transcript = [*earlier, Seen(step, "server", values)]
        self._expected = _AFTER[step]
        if step in _NEW_PAIR:
            self._masks = values
            return _pack(Step.MASKED, self._vector + values[:length])  # step 3
        if step is Step.HAT_TO_A:
            self._hat = values
            return b""
        if step is Step.HAT_TO_B:  # step 5: u = Â·B + r_b - v_2
            v2 = self._source.gauss(0.0, abs(float(self._masks[length])) + MASK_SCALE)
            u = values @ self._vector + self._masks[length] - v2
            return _pack(Step.BLINDED, np.array([u, v2]))
        v1 = values[0] - self._masks[:length] @ self._hat + self._masks[length]  # step 7
        return _pack(Step.SHARE, np.array([v1]))


class PaperServer:
    """The server of Algorithm 2, which also passes the dealer's messages on.

    Its transcript is that of the last pair.

    >>> a, b = PaperClient(np.array([0.5, 0.5])), PaperClient(np.array([1.0, 0.0]))
    >>> server, dealer = PaperServer(length=2), PaperDealer()
    >>> to_a, to_b = dealer.deal(2)
    >>> masked_a, masked_b = a.answer(server.relay(to_a)), b.answer(server.relay(to_b))
    >>> hat_to_a, hat_to_b = server.exchange(masked_a, masked_b)
    >>> _ = a.answer(hat_to_a)
    >>> round(server.add(a.answer(server.pass_u(b.answer(hat_to_b)))), 9)
    0.5
    """

    def __init__(self, length: int) -> None:
        self.length = length
        self._v2 = 0.0
        self.transcript: list[Seen] = []

    def relay(self, masks: bytes) -> bytes:
        """Step 2: pass the dealer's message on to A or B; A's comes first."""
        step, values = _unpack(masks, self.length, Step.MASKS_A, Step.MASKS_B)
        earlier = [] if step is Step.MASKS_A else self.transcript
        self.transcript = [*earlier, Seen(step, "dealer", values)]
        return masks

    def exchange(self, masked_a: bytes, masked_b: bytes) -> tuple[bytes, bytes]:
        """Steps 3 and 4: Â and B̂ come in; B̂ goes to A and Â to B."""
        hat_a = self._read(masked_a, Step.MASKED, "A")
        hat_b = self._read(masked_b, Step.MASKED, "B")
        return _pack(Step.HAT_TO_A, hat_b), _pack(Step.HAT_TO_B, hat_a)

    def pass_u(self, blinded: bytes) -> bytes:
        """Steps 5 and 6: u and v_2 come from B; u goes to A."""
        u, v2 = self._read(blinded, Step.BLINDED, "B")
        self._v2 = float(v2)
        return _pack(Step.U, np.array([u]))

    def add(self, share: bytes) -> float:
        """Steps 7 and 8: v_1 comes from A; v_1 + v_2 is the scalar product."""
        return float(self._read(share, Step.SHARE, "A")[0]) + self._v2

    def _read(self, data: bytes, step: Step, sender: str) -> FloatArray:
        _, values = _unpack(data, self.length, step)
        self.transcript.append(Seen(step, sender, values))
        return values

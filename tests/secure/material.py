"""A small session of the ring protocol whose messages tests carry themselves."""

from collections.abc import Mapping

import numpy as np

from fedgs.secure.fixed_point import fixed_point
from fedgs.secure.ring import RingParty
from fedgs.secure.server import Refused, RingServer
from fedgs.secure.session import SessionPlan
from fedgs.secure.wire import DEALER

VECTORS = np.array([[0.25, 0.75], [0.5, -0.5], [1.0, 0.0], [0.0, -1.0]])
PLAN = SessionPlan(4, fixed_point(2))
PAIRS = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]


def joined(
    plan: SessionPlan = PLAN, refused: Refused | None = None
) -> tuple[RingServer, dict[int, RingParty]]:
    """A server and parties that have each other's keys."""
    server = RingServer(plan, refused=refused)
    parties = {k: RingParty(plan, k, VECTORS[k]) for k in range(plan.clients)}
    if plan.named_dealer:
        parties[DEALER] = RingParty(plan, DEALER)
    ask(parties, server.introduce(ask(parties, server.invite())))
    return server, parties


def ask(parties: Mapping[int, RingParty], mail: Mapping[int, bytes]) -> dict[int, bytes]:
    """The reply of each party to its message."""
    return {k: parties[k].answer(message) for k, message in mail.items()}

"""The private graph of a deployment: sessions over a Grid until the connected clients are known.

Every phase has a deadline. A client that does not answer, or whose messages are refused, is left
out of the sessions of its round and of the next 1, 2, 4, ... rounds.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from flwr.app import ConfigRecord, Message, RecordDict
from flwr.serverapp import Grid

from fedgs.flower.exchange import exchange, resend
from fedgs.flower.journal import Journal, listed
from fedgs.flower.private.messages import FAILED, MESSAGE_TYPE, RECORD, Entries
from fedgs.flower.private.products import Products
from fedgs.flower.private.protocol import LEAST_CLIENTS, Phase, PrivateSession
from fedgs.flower.roster import Roster
from fedgs.plurals import counted

__all__ = ["PrivateGraph", "at_fault"]

_ATTEMPTS = 3  # sessions in a round
# A session is held once more than this share of a connected client's pairs is unknown.
_SHARE = 0.1
_NO_HANDLER = "No query function registered"  # Flower's words, see `directory`


@dataclass(eq=False)
class PrivateGraph:
    """Asks the connected clients for the products that are unknown.

    Attributes:
        journal: receives the events.
        timeout: seconds that a phase waits for its replies.
    """

    journal: Journal
    timeout: float
    # Row -> (first round in which it is asked again, interval).
    _left_out: dict[int, tuple[int, int]] = field(default_factory=dict)

    def complete(
        self,
        grid: Grid,
        node_of: Mapping[int, int],
        *,
        products: Products,
        roster: Roster,
        round: int,
    ) -> None:
        """Hold at most three sessions with the connected clients if too many products are unknown.

        A product that is known is not asked for again.

        Args:
            grid: connects to the nodes.
            node_of: row -> node id of the connected clients.
            products: known so far; they grow.
            roster: the clients met so far; its revision rises with new products.
            round: t.
        """
        rows = {row for row in node_of if self._left_out.get(row, (0, 0))[0] <= round}
        if not products.due(sorted(rows), share=_SHARE):
            return
        for _ in range(_ATTEMPTS):
            pairs = products.missing(sorted(rows))
            if not pairs:
                break
            if len(rows) < LEAST_CLIENTS:
                few = f"{counted(len(rows), 'client')} cannot compute it, {LEAST_CLIENTS} can"
                self.journal.line(round, f"the private graph waits: {few}", request="graph")
                break
            session = PrivateSession({row: str(roster.keys[row]) for row in rows}, pairs)
            self._hold(grid, session, node_of)
            products.learn(session.products)
            roster.revision += bool(session.products)
            self._report(session, roster, round=round)
            faulty = at_fault(session)
            for row in rows - faulty - session.refused.keys():
                self._left_out.pop(row, None)
            self._leave_out(faulty, round)
            rows -= faulty
            if not faulty and not session.products:
                break

    def _hold(self, grid: Grid, session: PrivateSession, node_of: Mapping[int, int]) -> None:
        phases = session.run()
        try:
            phase = next(phases)
            while True:
                phase = phases.send(self._ask(grid, phase, node_of))
        except StopIteration:
            return

    def _ask(self, grid: Grid, phase: Phase, node_of: Mapping[int, int]) -> dict[int, Entries]:
        """Send the requests of a phase; returns the replies that arrive in time, by row."""
        messages = {
            row: resend(
                Message(RecordDict({RECORD: ConfigRecord(entries)}), node_of[row], MESSAGE_TYPE),
                timeout=self.timeout,
                group=f"graph {phase.name}",
            )
            for row, entries in phase.requests.items()
        }
        arrived = exchange(grid, messages.values(), timeout=self.timeout)
        row_of = {message.metadata.message_id: row for row, message in messages.items()}
        replies: dict[int, Entries] = {}
        for reply in arrived:
            row = row_of.get(reply.metadata.reply_to_message_id)
            if row is not None and row not in replies:
                replies[row] = _entries(reply)
        return replies

    def _report(self, session: PrivateSession, roster: Roster, *, round: int) -> None:
        known = counted(len(session.products), "product")
        clients = counted(len({row for pair in session.products for row in pair}), "client")
        text = f"the private graph has {known} more, of {clients}"
        self.journal.line(round, text, request="graph")
        for row, phase in sorted(session.silent.items()):
            why = f"no reply within {self.timeout:g} s in phase {phase!r}"
            self.journal.event(round, "silent", roster.keys[row], why, request="graph")
        for row, why in sorted(session.refused.items()):
            accused = [roster.keys[other] for other in sorted(session.accused.get(row, ()))]
            more = {"accused": accused} if accused else {}
            self.journal.event(round, "refused", roster.keys[row], why, request="graph", **more)
        if faulty := sorted(at_fault(session)):
            names = listed([roster.keys[row] for row in faulty])
            self.journal.line(round, f"the private graph leaves out {names}", request="graph")

    def _leave_out(self, rows: Collection[int], round: int) -> None:
        for row in rows:
            interval = 2 * self._left_out.get(row, (0, 0))[1] or 1
            self._left_out[row] = (round + interval, interval)


def _entries(reply: Message) -> Entries:
    """The entries of a reply; an error, or another record, stands for no reply."""
    if reply.has_error():
        reason = (reply.error.reason or "no reason given").strip()
        if _NO_HANDLER in reason:
            return {FAILED: "its ClientApp does not call fedgs.flower.describe_privately(app)"}
        return {FAILED: f"error {reply.error.code}: {reason.splitlines()[-1]}"}
    record = reply.content.config_records.get(RECORD)
    return {FAILED: "its reply has no record of this protocol"} if record is None else record


def at_fault(session: PrivateSession) -> set[int]:
    """The clients that the next session leaves out.

    They are those that were silent or refused without an accusation, and those that settle all
    accusations: the client in most of them, as accuser or accused, then the one in most of the
    rest, and so on. Of two that only accuse each other, or of equally many, it is the accused.
    """
    faulty = session.silent.keys() | (session.refused.keys() - session.accused.keys())
    quarrels = {
        (accuser, accused)
        for accuser, others in session.accused.items()
        for accused in others
        if accuser not in faulty and accused not in faulty
    }
    while quarrels:
        counts: dict[int, tuple[int, int]] = {}
        for accuser, accused in quarrels:
            for row, blamed in ((accuser, 0), (accused, 1)):
                total, times = counts.get(row, (0, 0))
                counts[row] = (total + 1, times + blamed)
        worst = max(sorted(counts), key=lambda row: counts[row])
        faulty.add(worst)
        quarrels = {quarrel for quarrel in quarrels if worst not in quarrel}
    return set(faulty)

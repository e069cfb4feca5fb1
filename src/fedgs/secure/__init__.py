"""The secure scalar product: similarities of clients whose vectors stay with them.

Experimental until reviewed by others. The modules, each using only those above it:

| module | content |
|---|---|
| `fixed_point` | real vectors as whole numbers modulo 2^64, in which products are exact |
| `wire` | messages as bytes: a header, a body, and the checks of both |
| `channel` | the keys of a party and the encryption between two parties |
| `session` | what the parties agree on, the directory of keys, and who deals for a pair |
| `line` | the messages that a role receives, in order, and who is absent |
| `ring` | the ring protocol for a client's machine: the client and the dealer |
| `server` | the ring protocol for the server: it relays sealed messages and adds shares |
| `meter` | sends messages to parties and counts cost and failures |
| `paper` | Algorithm 2 as the paper prints it, for comparison |
| `similarity` | all products of N clients in one process, by either protocol |
"""

from fedgs.secure.channel import KeyPair
from fedgs.secure.meter import Cost, PartyFailure
from fedgs.secure.ring import RingParty
from fedgs.secure.server import RingServer
from fedgs.secure.session import SessionPlan
from fedgs.secure.similarity import PrivateProducts, PrivateRow, private_rows, private_similarity

__all__ = [
    "Cost",
    "KeyPair",
    "PartyFailure",
    "PrivateProducts",
    "PrivateRow",
    "RingParty",
    "RingServer",
    "SessionPlan",
    "private_rows",
    "private_similarity",
]

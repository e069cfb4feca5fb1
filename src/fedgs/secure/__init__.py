"""The secure scalar product: similarities of clients whose vectors nobody else sees (experimental until reviewed by others)."""

from fedgs.secure.meter import Cost, PartyFailure
from fedgs.secure.private import PrivateProducts, PrivateRow, private_rows, private_similarity

__all__ = [
    "Cost",
    "PartyFailure",
    "PrivateProducts",
    "PrivateRow",
    "private_rows",
    "private_similarity",
]

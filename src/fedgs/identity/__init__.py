"""What a Python value consists of, as a hash: the part of a run's identity that settings alone do not tell."""

from fedgs.identity.digest import Digest, Digester

__all__ = ["Digest", "Digester"]

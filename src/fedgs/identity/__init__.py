"""Hashes of Python values by content: the part of a run's identity that is not in its settings.

Begin with `digest`. `kinds` and `nodes` say what a value consists of, `code` and `sources` read
functions and files, `hashing` joins the parts.
"""

from fedgs.identity.digest import Digest, Digester

__all__ = ["Digest", "Digester"]

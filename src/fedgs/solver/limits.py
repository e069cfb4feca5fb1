"""The solver's tuning constants. Each name ends in, or begins with, the unit that it counts.

A *choice* is a set of clients that can complete the cohort, a *distance* is one entry of the matrix
that is read, and a *pool* is the clients that are still open after the reduction. Sizes at which a
method changes were measured on one core of an x86-64 server without AVX-512. Changing a constant
can change cohorts: raise `NUMERICS` with it.
"""

__all__: list[str] = []  # read as `limits.NAME`

# --- problems -------------------------------------------------------------------------------------
MAX_PENALTY = 1e100
"""Largest size of a penalty: divided by a pair's weight, at least 1 / this, it stays finite."""

TOLERANCE_OF_LARGEST_DISTANCE = 1e-9
"""Values that differ by no more than this share of the largest distance are equal."""

TIE_OF_TOLERANCE = 1e-3
"""Share of that tolerance within which chance decides.

It is so small that many such exchanges do not add up to the tolerance.
"""

# --- enumeration: when every choice is evaluated --------------------------------------------------
MAX_CHOICES_ENUMERATED = 200
"""Choices up to which NumPy evaluates all: nothing is compiled for such pools."""

MAX_CHOICES_ENUMERATED_COMPILED = 1000
"""Choices up to which a compiled kernel evaluates all, in less time than the search takes."""

MAX_CHOICES_TABULATED = 300
"""Choices up to which NumPy keeps the table of choices for the next call."""

MAX_PAIRS_ENUMERATED = 5_000_000
"""Pairs read when NumPy evaluates all choices as a proof: some tenths of a second."""

# --- small pools, copies and sorting --------------------------------------------------------------
MAX_CLIENTS_SMALL_POOL = 64
"""Clients up to which kernels do all steps: NumPy's call overhead would exceed the work."""

MAX_CLIENTS_SORTED = 500
"""Clients up to which sorting all gains is faster than selecting four order statistics."""

MAX_CLIENTS_COPIED = 256
"""Clients of a pool whose distances are copied into a block if the whole matrix is larger."""

MAX_CLIENTS_HELD = 4000
"""Clients of a pool up to which distances on demand are copied into a matrix.

Larger pools are searched by `on_demand`.
"""

MAX_CLIENTS_ALL_ROWS = 512
"""Clients up to which the search keeps every row that it has read; above, those of the choice."""

MAX_CLIENTS_ANY_ORDER = 1000
"""Clients up to which rows of the matrix can be read in any order without loss of speed."""

MAX_DISTANCES_COPIED = 4_000_000
"""Distances that the row bound copies at once (32 MB)."""

# --- search ---------------------------------------------------------------------------------------
MANY_CLIENTS = 500
"""Clients from which on there are fewer starts and rounds, and perturbations are weaker."""

SHORT_ROUNDS = {
    (16, 16): (12, 3),
    (40, 6): (16, 3),
    (40, 40): (24, 6),
    (80, 80): (22, 25),
    (170, 170): (12, 25),
    (MANY_CLIENTS - 1, MANY_CLIENTS - 1): (9, 25),
}
"""Most clients of the pool and of the choice -> rounds, and idle moves that end a round."""

SHORT_ROUNDS_ELSE = (4, 25)
"""Rounds and idle moves of larger pools."""

MAX_ROWS = 1 << 62
"""Rows of distances that a search without a limit may read."""

THOROUGH_DISTANCES = 2_100_000_000
"""Distances that the search of effort "thorough" reads: some tenths of a second."""

THOROUGH_ROUNDS_DISTANCES = 130_000_000
"""Distances from which the number of rounds of effort "thorough" is computed.

Without numba, a tenth of these rounds is run.
"""

DISTANCES_PER_CLOCK = 20_000_000
"""Distances read between two looks at the clock."""

MAX_SWAPS_PER_MEMBER = 2
"""Swaps per cohort member where distances are not held as a matrix."""

# --- bounds and proofs ----------------------------------------------------------------------------
MAX_CLIENTS_ROW_BOUND = 300
"""Clients above which the row bound costs more than the search."""

MAX_CLIENTS_PROVEN = 300
"""Clients up to which branch and bound is tried: it keeps r tables of this length."""

MAX_CHOICES_PROVEN_AT_ONCE = 600_000
"""Choices up to which (6 of 30, for instance) all the work of a proof is done before the search."""

FIRST_PROOF_DISTANCES = 30_000_000
"""Distances read by branch and bound before the search, in pools with more choices."""

PROOF_DISTANCES = 1_000_000_000
"""Distances read by branch and bound in all."""

MAX_FOREST_TABLE_ENTRIES = 10_000_000
"""Sum of n·r² over the trees above which trees are joined by edges of the largest distance."""

"""Write a federation of a million clients to a folder, 10,000 clients at a time.

A client has 8 examples of 16 numbers, of two of the ten labels. The labels' centres are drawn once;
a client's examples lie around the centres of its labels, shifted by a vector of its own.

    python examples/million_clients/make.py million
    python examples/million_clients/make.py small --clients 3000
"""

import argparse

import numpy as np

from fedgs.data import FolderWriter

LABELS, NUMBERS, EXAMPLES, RANGE = 10, 16, 8, 10_000


def examples(
    centres: np.ndarray, y: np.ndarray, shift: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Examples with these labels around the shifted centres, in float32."""
    noise = rng.standard_normal((len(y), NUMBERS), dtype=np.float32)
    return centres[y] + shift + noise


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--clients", type=int, default=1_000_000)
    arguments = parser.parse_args()
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((LABELS, NUMBERS), dtype=np.float32)
    test_y = rng.integers(0, LABELS, 5000)
    test = examples(centres, test_y, np.float32(0), rng), test_y
    with FolderWriter(
        arguments.folder, name=f"{arguments.clients} clients", num_labels=LABELS, test=test
    ) as writer:
        for first in range(0, arguments.clients, RANGE):
            count = min(RANGE, arguments.clients - first)
            of_client = rng.integers(0, LABELS, (count, 2))
            y = of_client[np.arange(count)[:, None], rng.integers(0, 2, (count, EXAMPLES))]
            shift = 0.5 * rng.standard_normal((count, 1, NUMBERS), dtype=np.float32)
            shift = np.broadcast_to(shift, (count, EXAMPLES, NUMBERS)).reshape(-1, NUMBERS)
            x = examples(centres, y.ravel(), shift, rng)
            shares = np.bincount(
                (y + LABELS * np.arange(count)[:, None]).ravel(), minlength=LABELS * count
            ).reshape(count, LABELS)
            writer.add(
                train=(x, y.ravel(), np.full(count, EXAMPLES)),
                features=(shares / EXAMPLES).astype(np.float32),
            )


if __name__ == "__main__":
    main()

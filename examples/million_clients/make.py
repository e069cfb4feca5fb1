"""Write a federation of a million clients to a folder, 10,000 clients at a time.

A client has 8 examples of 16 numbers, of two of the ten labels in shares of its own, which are its
features. Examples lie around the centres of their labels, shifted by a vector of the client.

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
            clients = np.arange(count)
            first_label = rng.integers(0, LABELS, count)
            second_label = (first_label + rng.integers(1, LABELS, count)) % LABELS
            share = rng.uniform(0.2, 0.8, count).astype(np.float32)
            is_first = rng.random((count, EXAMPLES)) < share[:, None]
            y = np.where(is_first, first_label[:, None], second_label[:, None])
            features = np.zeros((count, LABELS), dtype=np.float32)
            features[clients, first_label] = share
            features[clients, second_label] = 1 - share
            shift = 0.5 * rng.standard_normal((count, 1, NUMBERS), dtype=np.float32)
            shift = np.broadcast_to(shift, (count, EXAMPLES, NUMBERS)).reshape(-1, NUMBERS)
            x = examples(centres, y.ravel(), shift, rng)
            writer.add(
                train=(x, y.ravel(), np.full(count, EXAMPLES)),
                features=features,
            )


if __name__ == "__main__":
    main()

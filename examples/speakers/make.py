"""Write LEAF-style JSON of speakers: texts of 20 characters and the next character.

python examples/speakers/make.py [FOLDER]
"""

import json
import sys
from pathlib import Path

import numpy as np

LENGTH = 20
NOUNS = ["king", "queen", "crown", "sword", "night", "day", "love", "grief", "ghost", "friend"]
VERBS = ["sees", "fears", "loves", "calls", "leaves", "greets", "follows", "mourns"]


def speech(rng: np.random.Generator, favourites: np.ndarray, words: int) -> str:
    """Sentences "the NOUN VERB the NOUN", whose nouns are the speaker's favourites."""
    sentences = []
    for _ in range(words // 5):
        first, second = rng.choice(NOUNS, 2, p=favourites)
        sentences.append(f"the {first} {rng.choice(VERBS)} the {second}.")
    return " ".join(sentences)


def write(folder: Path, speakers: int = 20, words: int = 6000, seed: int = 0) -> Path:
    """Speakers differ in how much they say and in their nouns; a tenth of each is for the test."""
    rng = np.random.default_rng(seed)
    share = rng.lognormal(0.0, 0.7, speakers)
    parts: dict[str, dict[str, dict[str, list[str]]]] = {"train": {}, "test": {}}
    for k in range(speakers):
        favourites = rng.dirichlet(np.full(len(NOUNS), 0.3))
        text = speech(rng, favourites, max(40, int(words * share[k] / share.sum())))
        starts = range(0, len(text) - LENGTH, 5)
        cut = int(0.9 * len(starts))
        for part, places in (("train", starts[:cut]), ("test", starts[cut:])):
            parts[part][f"speaker {k + 1}"] = {
                "x": [text[place : place + LENGTH] for place in places],
                "y": [text[place + LENGTH] for place in places],
            }
    for part, users in parts.items():
        (folder / part).mkdir(parents=True, exist_ok=True)
        samples = [len(user["y"]) for user in users.values()]
        content = {"users": list(users), "num_samples": samples, "user_data": users}
        (folder / part / "speakers.json").write_text(json.dumps(content), encoding="utf-8")
    return folder


if __name__ == "__main__":
    print(write(Path(sys.argv[1] if len(sys.argv) > 1 else "speakers")))

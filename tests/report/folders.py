"""Run folders with plausible figures, written without training.

Availability follows the data size, cohorts follow each method's rule.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

from fedgs.clients import Clients
from fedgs.records import Record, RunFolder, write_atomically

LEVEL = {"uniform": 0.349, "md": 0.336, "fedprox": 0.335, "power_of_choice": 0.38, "fedgs": 0.321}


def make_clients(number: int, *, labels: int = 10, seed: int = 0) -> Clients:
    """N clients with two to four labels each and log-normal sizes."""
    rng = np.random.default_rng(seed)
    sizes = np.minimum(rng.lognormal(4, 1, number).astype(np.int64) + 20, 2000)
    counts = np.zeros((number, labels), dtype=np.int64)
    for client, size in enumerate(sizes):
        held = rng.choice(labels, size=min(labels, int(rng.integers(2, 5))), replace=False)
        counts[client, held] = rng.multinomial(int(size), rng.dirichlet(np.ones(len(held))))
    return Clients(tuple(f"c{k:03d}" for k in range(number)), sizes, counts)


def distances(clients: Clients) -> dict[str, np.ndarray]:
    """What a FedGS run stores: similarities of label proportions, adjacency and distances."""
    assert clients.label_counts is not None
    shares = clients.label_counts / clients.label_counts.sum(axis=1, keepdims=True)
    products = shares @ shares.T
    similarity = (products - products.min()) / (products.max() - products.min())
    adjacency = np.where(similarity >= 0.1, np.exp(-similarity), np.inf)
    np.fill_diagonal(adjacency, 0.0)
    return {
        "similarity": similarity,
        "adjacency": adjacency,
        "distance": 1.0 - similarity + np.where(similarity > 2, 1, 0),
    }


def config(method: str, seed: int, **changes: Any) -> dict[str, Any]:
    """A resolved configuration; `changes` are dotted keys with `__` for the dot."""
    tables: dict[str, Any] = {
        "data": {"name": "synthetic", "seed": 0},
        "availability": {"name": "LDF", "beta": 0.7, "seed": seed, "empty_round": "redraw"},
        "method": {"name": "md" if method == "fedprox" else method},
        "model": {"name": "logistic"},
        "training": {
            "rounds": 40,
            "proportion": 0.2,
            "mu": 0.01 if method == "fedprox" else 0.0,
            "learning_rate": 0.1,
        },
        "evaluation": {"every": 5},
        "execution": {"engine": "auto"},
        "seed": seed,
        "run": {
            "fingerprint": "",
            "cohort_limit": 6,
            "num_clients": 30,
            "engine": "loop",
            "engine_reason": "the model is small",
            "data_title": "Synthetic(0.5, 0.5), 30 clients",
            "data_fingerprint": "d0d0",
            "started": "2024-05-01T10:00:00+00:00",
            "versions": {"fedgs": "0.1.0", "python": "3.11.7"},
        },
    }
    if method == "fedgs":
        tables["method"].update(alpha=1.0, scale="paper", graph={"preset": "paper", "epsilon": 0.1})
    for key, value in changes.items():
        *path, last = key.split("__")
        table = tables
        for part in path:
            table = table.setdefault(part, {})
        table[last] = value
    return tables


def records(
    clients: Clients, method: str, seed: int, *, rounds: int, limit: int, every: int = 5
) -> list[Record]:
    """Records 0..T: clients with less data are available more often.

    Losses fall to the method's level.
    """
    kind = list(LEVEL).index(method)
    there = np.random.default_rng([seed, 1])
    rng = np.random.default_rng([seed, 2, kind])
    rates = (clients.data_sizes.min() / clients.data_sizes) ** 0.7
    counts = np.zeros(len(clients), dtype=np.int64)
    made: list[Record] = []
    for t in range(rounds + 1):
        loss = (
            LEVEL[method]
            + 2.0 * np.exp(-t / (rounds / 8))
            + 0.004 * rng.standard_normal()
            + 0.003 * seed
        )
        figures: dict[str, Any] = {}
        if t % every == 0 or t == rounds:
            figures = {
                "test_loss": round(float(loss), 6),
                "test_accuracy": round(float(1 - loss / 2.5), 6),
                "valid_loss": round(float(loss + 0.01 * rng.standard_normal()), 6),
            }
        if t == rounds:
            made.append(Record(t, **figures))
            break
        available = np.flatnonzero(there.random(len(clients)) < rates)
        size = min(limit, len(available))
        if method == "fedgs":
            chosen = available[np.lexsort((rng.random(len(available)), counts[available]))[:size]]
        else:
            shares = clients.data_sizes[available] ** (0.0 if method == "uniform" else 1.0)
            chosen = (
                rng.choice(available, size, replace=False, p=shares / shares.sum())
                if size
                else available
            )
        counts[chosen] += 1
        chosen = np.sort(chosen)
        solved = (
            {
                "selection_status": "optimal",
                "selection_objective": 1.5,
                "selection_upper_bound": 1.5,
            }
            if method == "fedgs"
            else {}
        )
        made.append(
            Record(
                t,
                available=[clients.names[k] for k in available],
                num_available=len(available),
                cohort=[clients.names[k] for k in chosen],
                weights=[1 / max(size, 1)] * size,
                **solved,
                **figures,
            )
        )
    return made


def write_run(
    out: Path,
    method: str,
    seed: int,
    *,
    clients: Clients | None = None,
    rounds: int = 40,
    limit: int = 6,
    done: int | None = None,
    memory: dict[str, np.ndarray] | None = None,
    **changes: Any,
) -> RunFolder:
    """One run's folder; of an unfinished run the first `done` records."""
    clients = make_clients(30) if clients is None else clients
    tables = config(method, seed, **{"training__rounds": rounds, **changes})
    tables["run"].update(cohort_limit=limit, num_clients=len(clients))
    tables["run"]["fingerprint"] = f"{abs(hash_text(json.dumps(tables, sort_keys=True))):016x}"
    data, availability = tables["data"]["name"], tables["availability"]["name"]
    fingerprint = tables["run"]["fingerprint"]
    folder = RunFolder(out / f"{data}-{availability}-{method}-seed{seed}-{fingerprint}")
    out.mkdir(parents=True, exist_ok=True)
    write_atomically(out / "fedgs.json", b'{"format": 1}')
    folder.create(
        tables,
        clients,
        (distances(clients) if memory is None and method == "fedgs" else memory) or {},
    )
    made = records(clients, method, seed, rounds=rounds, limit=limit)
    made = made if done is None else made[:done]
    folder.append("rounds.jsonl", [record.to_json() for record in made])
    seconds = np.random.default_rng(seed).random(len(made)) * 0.01
    folder.append(
        "timings.jsonl",
        [
            json.dumps({"round": r.round, "select": s, "train": 3 * s})
            for r, s in zip(made, seconds, strict=True)
        ],
    )
    return folder


def hash_text(text: str) -> int:
    """A number that is the same in every process."""
    import zlib

    return zlib.crc32(text.encode())


def write_study(
    out: Path, *, methods: tuple[str, ...] = tuple(LEVEL), seeds: int = 3, **options: Any
) -> Path:
    """A finished study of several methods and seeds."""
    for method in methods:
        for seed in range(seeds):
            write_run(out, method, seed, **options)
    return out


MIXED_METHODS = ("uniform", "md", "fedgs")


def write_mixed_study(out: Path) -> Path:
    """Three methods, two seeds and two modes, with runs and entries that are not whole.

    Some runs were killed, one failed, one has no readable clients; one folder is not a run's.
    """
    write_study(out, methods=MIXED_METHODS, seeds=2)
    for method in MIXED_METHODS:
        done = None if method == "fedgs" else 17
        write_run(out, method, 0, availability__name="MDF", done=done)
    failed = write_run(out, "fedprox", 0)
    failed.write_failure(
        {"round": 3, "client": "c004", "error": "ValueError: <b>no</b>", "traceback": ""}
    )
    (write_run(out, "power_of_choice", 0).path / "clients.npz").write_bytes(b"PK cut off")
    (out / "<i>holiday").mkdir()
    return out


SITES = ("Oslo General", "Bergen", "Tromsø")


def write_deployment(
    out: Path, run_id: str, *, seed: int = 0, rounds: int = 4, limit: int = 2, method: str = "fedgs"
) -> RunFolder:
    """A deployment's folder: three sites, no test set, one round without a cohort, and events."""
    clients = Clients(SITES, np.array([400, 120, 60]))
    config: dict[str, Any] = {
        "data": {"name": "deployment"},
        "availability": {"name": "deployment"},
        "method": {"name": method},
        "training": {"cohort_limit": limit, "rounds": rounds, "reply_timeout": 60.0},
        "seed": seed,
        "run": {
            "engine": "flower",
            "data_title": "Flower clients",
            "fingerprint": run_id,
            "cohort_limit": limit,
            "num_clients": 3,
            "versions": {"fedgs": "0.1.0"},
        },
    }
    folder = RunFolder(out / run_id)
    folder.create(config, clients, {})
    records = [
        Record(0, list(SITES), 3, ["Oslo General", "Bergen"], weights=[0.5, 0.5], valid_loss=2.3),
        Record(1, list(SITES), 3, [], weights=[], selection_status="empty", valid_loss=1.4),
        Record(2, ["Oslo General", "Bergen"], 2, ["Bergen"], weights=[1.0], valid_loss=1.4),
        Record(3, ["Tromsø"], 1, ["Tromsø"], weights=[1.0], valid_loss=0.9),
        Record(4, valid_loss=0.7),
    ]
    folder.append("rounds.jsonl", [record.to_json() for record in records])
    folder.append(
        "events.jsonl",
        [
            json.dumps(
                {
                    "round": 1,
                    "client": None,
                    "event": "empty",
                    "detail": "the sampler selected none of 3 available clients",
                }
            ),
            json.dumps(
                {
                    "round": 2,
                    "client": "Oslo General",
                    "event": "silent",
                    "detail": "no reply within 60 s",
                    "request": "evaluate",
                }
            ),
            json.dumps(
                {"round": 2, "client": "Bergen", "event": "failed", "detail": "<b>disk full</b>"}
            ),
            json.dumps(
                {
                    "round": 3,
                    "client": None,
                    "event": "incomplete",
                    "detail": "of 2",
                    "clients": ["Oslo General", "Bergen"],
                }
            ),
            "[1]",
            '{"round": 3, "cut',
        ],
    )
    seconds = [{"round": t, "select": 3.0 if t == 0 else 0.001 * t, "train": 1.0} for t in range(4)]
    folder.append("timings.jsonl", [json.dumps(line) for line in seconds])
    return folder


def write_deployments(out: Path) -> Path:
    """Two deployments of one method with different cohort limits."""
    write_deployment(out, "aaaa1111")
    write_deployment(out, "bbbb2222", limit=3)
    return out

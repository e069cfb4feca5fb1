"""Graphs that need no labels are the same in a deployment and in a simulation."""

import numpy as np
import pytest
from tests.conftest import make_federation

pytest.importorskip("flwr")
pytest.importorskip("torch")

import torch
from tests.local.material import Keep

from fedgs.features import feature_fold, noise_batch
from fedgs.flower.features import distances, reply_feature
from fedgs.graph import Graph
from fedgs.local import LoopEngine
from fedgs.local.parameters import FlatModule, initial_parameters
from fedgs.models import as_model
from fedgs.requests import Train, Work
from fedgs.sampling import Wish
from fedgs.sampling.graph_source import graph_of_features

CLIENTS = 6


def normalised() -> torch.nn.Module:
    return torch.nn.Sequential(
        torch.nn.Linear(6, 5), torch.nn.BatchNorm1d(5), torch.nn.Linear(5, 3)
    )


@pytest.mark.parametrize("kind", ["update", "functional"])
def test_the_graph_of_a_deployment_is_that_of_a_simulation(kind: str) -> None:
    federation = make_federation((4, 40, 8, 12, 20, 16))
    work = Work(federation, as_model(normalised), 0.0, 3, 4)
    start = initial_parameters(work.model, federation, 0)
    noise = {} if kind == "update" else {"noise_samples": 16, "noise_examples": 10}
    wish = Wish(kind, **noise)
    folds = (feature_fold(wish, work, start, seed=0), Keep())
    request = Train(work, start, np.arange(CLIENTS), 0.1, (0, 0), folds)
    ((_, (features, models)),) = LoopEngine().answer([request])
    module = normalised()
    flat = FlatModule(module, torch.device("cpu"))

    def state(vector: torch.Tensor, batches: int) -> dict[str, np.ndarray]:
        """What a node sends: the state_dict, with running statistics and counters."""
        flat.load(vector)
        arrays = {name: value.clone().numpy() for name, value in module.state_dict().items()}
        return arrays | {"1.num_batches_tracked": np.array(batches)}

    batch = noise_batch(federation, seed=0, samples=16, examples=10)

    def responses(model: dict[str, np.ndarray]) -> np.ndarray:
        module.load_state_dict({name: torch.from_numpy(a) for name, a in model.items()})
        module.eval()
        with torch.no_grad():
            return module(batch).double().mean(dim=0).numpy()

    graph, sent = Graph(similarity=kind), state(start, 0)
    deployed = {
        row: reply_feature(wish, sent=sent, local=state(model, 3), responses=responses)
        for row, model in enumerate(models)
    }
    np.testing.assert_allclose(
        distances(graph, deployed, CLIENTS), graph_of_features(graph, features).distance, atol=1e-5
    )

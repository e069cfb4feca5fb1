"""Update features of a deployment and of a simulation are the same, also for a model with running statistics."""

import numpy as np
import pytest
import torch
from tests.conftest import make_federation
from tests.local.material import Keep

pytest.importorskip("flwr")

from fedgs.features import feature_fold
from fedgs.flower.features import reply_feature
from fedgs.graph import Graph
from fedgs.graph.growth import model_similarity
from fedgs.local import LoopEngine
from fedgs.local.parameters import FlatModule, initial_parameters
from fedgs.models import as_model
from fedgs.requests import Train, Work
from fedgs.sampling import Wish


def normalised(momentum: float | None = 0.1) -> torch.nn.Module:
    norm = torch.nn.BatchNorm1d(5, momentum=momentum)
    return torch.nn.Sequential(torch.nn.Linear(6, 5), norm, torch.nn.ReLU(), torch.nn.Linear(5, 3))


def test_update_features_are_those_of_a_deployment() -> None:
    federation = make_federation((4, 40, 8, 12, 20, 16))
    work = Work(federation, as_model(normalised), 0.0, 3, 4)
    start = initial_parameters(work.model, federation, 0)
    request = Train(
        work,
        start,
        np.arange(6),
        0.1,
        (0, 0),
        (feature_fold(Wish("update"), work, start, seed=0), Keep()),
    )
    ((_, (features, models)),) = LoopEngine().answer([request])
    flat = FlatModule(normalised(), torch.device("cpu"))

    def reply(vector: torch.Tensor, batches: int) -> dict[str, np.ndarray]:
        flat.load(vector)
        arrays = {name: value.clone().numpy() for name, value in flat.module.state_dict().items()}
        return arrays | {"1.num_batches_tracked": np.array(batches)}

    graph = Graph(similarity="update")
    deployed = np.stack(
        [
            reply_feature(graph, sent=reply(start, 0), local=reply(model, 3), responses=None)
            for model in models
        ]
    )
    np.testing.assert_allclose(
        model_similarity(features), model_similarity(deployed), rtol=0, atol=1e-6
    )

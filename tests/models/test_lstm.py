"""The recurrent network, and its training step by step."""

import copy

import numpy as np
import pytest
from tests.local.material import replies, train_request
from tests.oracles import local_sgd

from fedgs.data import Federation
from fedgs.errors import ConfigError
from fedgs.models import LSTM, check_model

torch = pytest.importorskip("torch")

from fedgs.local import LoopEngine  # noqa: E402
from fedgs.local.engines import choose_engine  # noqa: E402
from fedgs.local.parameters import build_module  # noqa: E402
from fedgs.requests import Evaluate, Metrics, Work  # noqa: E402

TOKENS, PLACES = 5, 6
SMALL = LSTM(embedding=3, hidden=4)


def sequences(sizes: tuple[int, ...] = (9, 5)) -> Federation:
    """Tokens with the next token as the label; some labels do not count."""
    rng = np.random.default_rng(0)

    def draw(count: int) -> tuple[np.ndarray, np.ndarray]:
        text = rng.integers(TOKENS, size=(count, PLACES + 1))
        labels = np.where(rng.random((count, PLACES)) < 0.2, -1, text[:, 1:])
        labels[:, -1] = text[:, -1]
        return text[:, :-1], labels

    owner = np.repeat(np.arange(len(sizes)), sizes)
    x, y = draw(len(owner))
    return Federation.from_arrays(x, y, client=owner, test=draw(7), task="sequence", classes=TOKENS)


def test_the_network_gives_logits_at_every_place_from_the_tokens_before() -> None:
    module = SMALL.build((PLACES,), TOKENS)
    x = torch.randint(TOKENS, (2, PLACES), generator=torch.Generator().manual_seed(0))
    logits = module(x)
    assert logits.shape == (2, PLACES, TOKENS)
    assert torch.equal(module(x.float()), logits)  # engines give tokens as float32
    changed = x.clone()
    changed[:, 3] = (changed[:, 3] + 1) % TOKENS
    same = (module(changed) == logits).all(dim=-1)
    assert same[:, :3].all() and not same[:, 3].any()


def test_training_equals_a_plain_loop_of_pytorch() -> None:
    federation = sequences()
    check_model(SMALL, federation)
    batch_size, rate = 4, 0.5
    for local_steps in (1, 2, 3):  # step by step
        work = Work(federation, SMALL, 0.0, local_steps, batch_size)
        ((_, models),) = replies(LoopEngine(), train_request(work, [0, 1], rate=rate))
        for client in (0, 1):
            module = copy.deepcopy(build_module(SMALL, federation))
            part = federation.train
            x, y = (torch.from_numpy(array[part.rows(client)].copy()) for array in (part.x, part.y))
            optimizer = torch.optim.SGD(module.parameters(), lr=rate)
            for batch in local_sgd.batches(0, 0, client, len(y), local_steps, batch_size):
                optimizer.zero_grad()
                logits = module(x[batch]).reshape(-1, TOKENS)
                loss = torch.nn.functional.cross_entropy(
                    logits, y[batch].reshape(-1), ignore_index=-1
                )
                loss.backward()
                optimizer.step()
            expected = torch.cat([p.detach().reshape(-1) for p in module.parameters()])
            torch.testing.assert_close(models[client], expected, rtol=1e-4, atol=1e-6)


def test_the_loss_is_that_of_the_places_that_count() -> None:
    federation = sequences()
    work = Work(federation, SMALL, 0.0, 1, 4)
    module = build_module(SMALL, federation)
    theta = torch.cat([p.detach().reshape(-1) for p in module.parameters()])
    ((_, reply),) = LoopEngine().answer([Evaluate(work, theta, "test")])
    x, y = (torch.from_numpy(array.copy()) for array in (federation.test.x, federation.test.y))
    with torch.no_grad():
        logits = module(x).reshape(-1, TOKENS)
    expected = torch.nn.functional.cross_entropy(logits, y.reshape(-1), ignore_index=-1)
    assert isinstance(reply, Metrics)
    assert reply.loss == pytest.approx(float(expected), rel=1e-5)


def test_the_loop_engine_trains_it_and_the_stacked_one_says_why_not() -> None:
    work = Work(sequences(), SMALL, 0.0, 1, 4)
    choice = choose_engine("auto", device="cpu", work=work)
    assert choice.name == "loop" and "torch.func does not accept it" in choice.reason
    with pytest.raises(ConfigError, match="cannot be stacked: torch.func does not accept it"):
        choose_engine("stacked", device="cpu", work=work)


def test_examples_that_are_no_sequences_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"'lstm' takes sequences \(L,\) of tokens, got"):
        LSTM().build((3, 8, 8), 4)
    with pytest.raises(ConfigError, match="model.layers should be greater than or equal to 1"):
        LSTM(layers=0)

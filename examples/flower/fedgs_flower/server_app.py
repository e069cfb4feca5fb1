"""The server: FedAvg, with the clients selected by FedGS."""

from pathlib import Path
from typing import Any

from flwr.app import ArrayRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from fedgs.flower import SampledStrategy
from fedgs.sampling import FedGS
from fedgs_flower import task

app = ServerApp()


def sampler_of(config: Any) -> Any:
    """The sampler that the run's configuration names."""
    if config["sampler"] == "fedgs":
        return FedGS(alpha=float(config["alpha"]), graph={"similarity": config["similarity"]})
    return config["sampler"]


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Train; after a restart, continue."""
    config = context.run_config
    strategy = SampledStrategy(
        FedAvg(fraction_evaluate=float(config["fraction-evaluate"]), min_evaluate_nodes=1),
        sampler=sampler_of(config),
        seed=int(config["seed"]),
        cohort_limit=int(config["cohort-limit"]),
        min_connected=int(config["min-connected"]),
        sufficient_replies=int(config["sufficient-replies"]) or None,
        connect_timeout=float(config["connect-timeout"]),
        reply_timeout=float(config["reply-timeout"]),
        evaluate_timeout=float(config["evaluate-timeout"]),
        max_idle_rounds=int(config["max-idle-rounds"]) or None,
        records=config["records"] or None,
        state=config["state"] or None,
    )
    initial = ArrayRecord(task.make_model().state_dict())
    if config["state"] and Path(str(config["state"])).is_file():
        initial = strategy.load_state(str(config["state"])) or initial

    def evaluate(server_round: int, arrays: ArrayRecord) -> MetricRecord:
        model = task.make_model()
        model.load_state_dict(arrays.to_torch_state_dict())
        loss, accuracy = task.evaluate(model, task.test_set(int(config["num-clients"])))
        return MetricRecord({"loss": loss, "accuracy": accuracy})

    left = int(config["num-server-rounds"]) - strategy.round
    if left > 0:
        strategy.start(grid, initial, num_rounds=left, evaluate_fn=evaluate)

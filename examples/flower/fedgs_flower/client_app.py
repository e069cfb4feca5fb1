"""The client: it reports its key and label counts once, trains and evaluates."""

import re
import time
import zlib

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from fedgs.flower import describe
from fedgs_flower import task

app = ClientApp()


def who(context: Context) -> tuple[int, int]:
    """Which part of the data is this client's, and of how many parts.

    The part is partition-id where it is given, else the number that client-id ends with, else a
    number made from its letters; modulo the number of parts. A real client would read its own data
    instead.
    """
    parts = int(context.run_config["num-clients"])
    if "partition-id" in context.node_config:
        return int(context.node_config["partition-id"]) % parts, parts
    if "client-id" not in context.node_config:
        raise ValueError("the node configuration must hold client-id or partition-id, got neither")
    name = str(context.node_config["client-id"])
    digits = re.search(r"\d+$", name)
    return (int(digits.group()) if digits else zlib.crc32(name.encode())) % parts, parts


describe(app, label_counts=lambda context: task.label_counts(*who(context)))


@app.train()
def train(message: Message, context: Context) -> Message:
    """Local steps from the global model."""
    # --node-config "... delay=5.0" makes a slow client.
    time.sleep(float(context.node_config.get("delay", 0.0)))
    client, config = who(context), context.run_config
    server_round = int(message.content["config"]["server-round"])
    model = task.make_model()
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    examples = task.training_part(*client)
    loss = task.train(
        model,
        examples,
        steps=int(config["local-steps"]),
        batch_size=int(config["batch-size"]),
        learning_rate=float(config["learning-rate"]) * 0.998 ** (server_round - 1),
        seed=server_round * client[1] + client[0],
    )
    metrics = MetricRecord({"num-examples": len(examples[1]), "train_loss": loss})
    return Message(
        RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": metrics}),
        reply_to=message,
    )


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    """Loss and accuracy on the validation part, or on what the server says.

    That is the training part, or a mini-batch, for samplers that ask for losses.
    """
    config = message.content["config"]
    part = task.training_part if config.get("loss-on") == "train" else task.validation_part
    model, examples = task.make_model(), part(*who(context))
    if "loss-batch" in config:
        examples = task.mini_batch(
            examples, int(config["loss-batch"]), seed=int(config["server-round"])
        )
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    loss, accuracy = task.evaluate(model, examples)
    metrics = MetricRecord(
        {"num-examples": len(examples[1]), "eval_loss": loss, "eval_acc": accuracy}
    )
    return Message(RecordDict({"metrics": metrics}), reply_to=message)

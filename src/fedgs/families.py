"""The families of interchangeable parts: everything that depends on which families there are.

A new family is one line here, one field of `Config` if it has a table of its own, and the module
that defines its variants.
"""

from dataclasses import dataclass

__all__ = ["CODE_IN_IDENTITY", "FAMILIES", "TABLES", "Family"]


@dataclass(frozen=True)
class Family:
    """A kind of part that a configuration names.

    Attributes:
        key: under which variants are registered, and the table of a configuration.
        title: what its variants are called, in the plural.
        setting: the dotted key of a configuration that names a variant.
        home: the module that defines the built-in variants; imported when they are first needed.
        base: the class that variants extend, for messages.
        is_table: whether it is a table of a configuration of its own. Others are settings of a
            variant, such as a data set's partition, or of the execution.
        code_in_identity: whether the settings and the code of a variant tell runs apart. Data are
            identified by their content, engines by the versions of their numerics.
        presets: the module whose `RESERVED` holds names that stand for other variants with
            settings; imported when names are looked up.
        wrapper: the class of `home` that stands for a user's plain function, which its field
            `function` holds; None: a function is refused where a variant is wanted.
    """

    key: str
    title: str
    setting: str
    home: str
    base: str
    is_table: bool = False
    code_in_identity: bool = False
    presets: str | None = None
    wrapper: str | None = None


FAMILIES = {
    family.key: family
    for family in (
        Family("data", "data sets", "data", "fedgs.data", "fedgs.data.Data", is_table=True),
        Family(
            "availability",
            "availability modes",
            "availability",
            "fedgs.availability",
            "fedgs.availability.Availability",
            is_table=True,
            code_in_identity=True,
        ),
        Family(
            "method",
            "methods",
            "method",
            "fedgs.sampling",
            "fedgs.Sampler",
            is_table=True,
            code_in_identity=True,
            presets="fedgs.experiments.presets",
        ),
        Family(
            "aggregation",
            "aggregations",
            "aggregation",
            "fedgs.aggregation",
            "fedgs.aggregation.Aggregation",
            is_table=True,
            code_in_identity=True,
        ),
        Family(
            "model",
            "models",
            "model",
            "fedgs.models",
            "fedgs.models.Model",
            is_table=True,
            code_in_identity=True,
        ),
        Family(
            "weighting",
            "weightings",
            "method.weighting",
            "fedgs.weighting",
            "fedgs.weighting.Weighting",
        ),
        Family(
            "server",
            "server steps",
            "aggregation.server",
            "fedgs.server_steps",
            "fedgs.aggregation.ServerStep",
        ),
        Family("partition", "partitions", "data.partition", "fedgs.data", "fedgs.data.Partition"),
        Family(
            "loss",
            "losses",
            "training.loss",
            "fedgs.losses",
            "fedgs.losses.Loss",
            wrapper="FunctionLoss",
        ),
        Family(
            "optimizer",
            "optimisers",
            "training.optimizer",
            "fedgs.optimizers",
            "fedgs.optimizers.Optimizer",
        ),
        Family(
            "schedule",
            "schedules",
            "training.schedule",
            "fedgs.schedules",
            "fedgs.schedules.Schedule",
        ),
        Family(
            "metric",
            "metrics",
            "evaluation.metrics",
            "fedgs.metrics",
            "fedgs.metrics.Metric",
            wrapper="FunctionMetric",
        ),
        Family(
            "engine",
            "engines",
            "execution.engine",
            "fedgs.local.engines",
            "fedgs.local.engines.EngineVariant",
        ),
    )
}

TABLES = tuple(family.key for family in FAMILIES.values() if family.is_table)
"""Keys of the families that are tables of a configuration, in their order."""

CODE_IN_IDENTITY = tuple(family.key for family in FAMILIES.values() if family.code_in_identity)
"""Keys of the families whose variants tell runs apart by settings and code."""

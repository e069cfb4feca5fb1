"""Stored runs in the forms of other tools; needs no torch and no data.

`rows` makes columns of runs, one entry a run and record. `dataframe` and `files` give them to
pandas, CSV and Parquet. `tensorboard`, `mlflow` and `wandb` write the numbers of each round through
the public interface of the tool. `target` knows all of them by name.
"""

from fedgs.export.dataframe import to_dataframe
from fedgs.export.target import TARGETS, Target, export

__all__ = ["TARGETS", "Target", "export", "to_dataframe"]

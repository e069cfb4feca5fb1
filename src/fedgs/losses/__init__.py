"""Losses: what local training minimises, and what is recorded as the loss of a model.

PyTorch is imported when a loss is computed, not before.
"""

from fedgs.losses.base import FunctionLoss, Loss, default_loss, loss, loss_of, named_loss
from fedgs.losses.classes import BinaryCrossEntropy, CrossEntropy
from fedgs.losses.regression import Huber, MeanSquaredError

__all__ = [
    "BinaryCrossEntropy",
    "CrossEntropy",
    "FunctionLoss",
    "Huber",
    "Loss",
    "MeanSquaredError",
    "default_loss",
    "loss",
    "loss_of",
    "named_loss",
]

"""What is trained: model variants that build an `nn.Module` for a federation's shapes."""

from fedgs.models.base import FunctionModel, Model, as_model, model
from fedgs.models.check import check_model
from fedgs.models.cnn import CifarCNN, FashionCNN
from fedgs.models.linear import LogisticRegression
from fedgs.models.lstm import LSTM
from fedgs.models.mlp import MLP
from fedgs.models.resnet import ResNet8

__all__ = [
    "CifarCNN",
    "FashionCNN",
    "FunctionModel",
    "LSTM",
    "LogisticRegression",
    "MLP",
    "Model",
    "ResNet8",
    "as_model",
    "check_model",
    "model",
]

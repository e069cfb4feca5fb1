"""Federations: where they come from, how examples are shared out over clients, how they are stored and described."""

from fedgs.data.base import Data, Defaults
from fedgs.data.federation import Federation, Normalization, Part
from fedgs.data.files import File
from fedgs.data.images import FashionMNIST
from fedgs.data.partition import Assignment, LabelsPerClient, Partition
from fedgs.data.synthetic import Synthetic

__all__ = [
    "Assignment",
    "Data",
    "Defaults",
    "FashionMNIST",
    "Federation",
    "File",
    "LabelsPerClient",
    "Normalization",
    "Part",
    "Partition",
    "Synthetic",
]

"""Federations: data sets, partitions over clients, files, and descriptions."""

from fedgs.data.archive import export
from fedgs.data.assemble import Labelled, share_out
from fedgs.data.base import Data, Defaults
from fedgs.data.describe import Description, describe
from fedgs.data.difference import first_difference
from fedgs.data.dirichlet import DirichletOverClasses, DirichletOverClients, LogNormalDirichlet
from fedgs.data.federation import Federation, Normalization, Part
from fedgs.data.files import File
from fedgs.data.folder import check_folder, open_folder, to_folder
from fedgs.data.folder_writer import FolderWriter
from fedgs.data.gamma import expected_weights, gamma
from fedgs.data.groups import Quantiles
from fedgs.data.images import CIFAR10, FashionMNIST
from fedgs.data.index_lists import IndexLists
from fedgs.data.leaf import Leaf
from fedgs.data.leaf_writing import write_leaf
from fedgs.data.map_style import MapStyle
from fedgs.data.niid_bench import DirichletCapped, QuantitySkew
from fedgs.data.partition import Assignment, ByColumn, Iid, LabelsPerClient, Partition, Shards
from fedgs.data.stored import Folder
from fedgs.data.synthetic import Synthetic
from fedgs.data.synthetic_clustered import SyntheticClustered
from fedgs.data.table import TableFile

__all__ = [
    "CIFAR10",
    "Assignment",
    "ByColumn",
    "Data",
    "Defaults",
    "Description",
    "DirichletCapped",
    "DirichletOverClasses",
    "DirichletOverClients",
    "FashionMNIST",
    "Federation",
    "File",
    "Folder",
    "FolderWriter",
    "Iid",
    "IndexLists",
    "Labelled",
    "LabelsPerClient",
    "Leaf",
    "LogNormalDirichlet",
    "MapStyle",
    "Normalization",
    "Part",
    "Partition",
    "Quantiles",
    "QuantitySkew",
    "Shards",
    "Synthetic",
    "SyntheticClustered",
    "TableFile",
    "check_folder",
    "describe",
    "expected_weights",
    "export",
    "first_difference",
    "gamma",
    "open_folder",
    "share_out",
    "to_folder",
    "write_leaf",
]

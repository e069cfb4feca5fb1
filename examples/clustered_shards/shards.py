"""The network and the reference sampler of the experiment on shards of one label."""

import numpy as np

import fedgs


@fedgs.model("hidden_50")
def hidden_50():
    """A network 784-50-10 with one hidden layer of ReLU units."""
    from torch import nn

    return nn.Sequential(nn.Flatten(), nn.Linear(784, 50), nn.ReLU(), nn.Linear(50, 10))


@fedgs.sampler("one_per_label")
def one_per_label(view, rng):
    """One available client of each label, by the label that most of its examples have.

    It reads the labels, which clustered sampling does not: the clusters are the true ones.
    """
    label = np.argmax(view.clients.label_counts[view.available], axis=1)
    chosen = [rng.choice(view.available[label == one]) for one in np.unique(label)]
    return fedgs.Selection(np.sort(chosen)[: view.cohort_limit], weighting="equal")

"""FedGS in one file: Algorithm 1 of the paper in plain loops, with NumPy alone.

    python examples/fedgs_in_one_file.py

Comments give the lines of Algorithm 1. The available clients A_t come from the package. All other
steps are written out: the client graph, the selection by trying all cohorts, the local training of
a logistic regression, and the aggregation. The package selects the same cohorts here, and its
parameters agree up to float32. Where several cohorts are equally good, this file takes the first
one and the package one at random.
"""

from itertools import combinations

import numpy as np

import fedgs
from fedgs.availability import draw_available

M = 3  # largest cohort
ALPHA = 1.0  # weight of diversity in the selection
EPSILON, SIGMA_SQUARED = 0.1, 0.01  # smallest similarity of an edge, scale of its length
LOCAL_STEPS, LEARNING_RATE, DECAY = 10, 0.1, 0.998  # E, and eta_t = 0.1 * 0.998^t
ROUNDS = 30


def client_graph(features):
    """Edge lengths R of the client graph, Section 3.2: exp(-V/sigma^2) where V >= epsilon."""
    N = len(features)
    V = features @ features.T
    pairs = V[~np.eye(N, dtype=bool)]
    V = (V - pairs.min()) / (pairs.max() - pairs.min())
    R = np.full((N, N), np.inf)  # inf: no edge
    for i in range(N):
        for j in range(N):
            if i == j:
                R[i, j] = 0.0
            elif V[i, j] >= EPSILON:
                R[i, j] = np.exp(-V[i, j] / SIGMA_SQUARED)
    return R


def shortest_paths(R):
    """Distances H by Floyd's algorithm, in units of the longest one."""
    N, H = len(R), R.copy()
    for k in range(N):
        for i in range(N):
            for j in range(N):
                H[i, j] = min(H[i, j], H[i, k] + H[k, j])
    longest = H[np.isfinite(H)].max()
    H[np.isinf(H)] = longest  # clients without a path between them
    return H / longest


def objective(S, H, counts):
    """Equation 16: alpha/N times the distances in S, minus the price of earlier selections."""
    N = len(counts)
    diversity = sum(H[i, j] for i in S for j in S if i != j)
    z = 2 * (counts - counts.mean() - M / N) + 1
    return ALPHA / N * diversity - sum(z[k] for k in S)


def select(H, counts, available):
    """The best of all subsets of A_t with m = min(M, |A_t|) clients."""
    cohorts = combinations(available.tolist(), min(M, len(available)))
    return list(max(cohorts, key=lambda S: objective(S, H, counts)))


def gradient(theta, x, y):
    """Gradient of the mean cross-entropy F_k of a logistic regression, (weights, bias)."""
    weights, bias = theta
    logits = x @ weights.T + bias
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    p[np.arange(len(y)), y] -= 1
    return p.T @ x / len(y), p.mean(axis=0)


def local_training(theta, x, y, learning_rate):
    """E steps of gradient descent on all examples of a client."""
    weights, bias = theta
    for _ in range(LOCAL_STEPS):
        of_weights, of_bias = gradient((weights, bias), x, y)
        weights = weights - learning_rate * of_weights
        bias = bias - learning_rate * of_bias
    return weights, bias


def train(federation, availability, theta, rounds=ROUNDS):
    """Algorithm 1. Returns theta^T and the cohorts S_0 to S_{T-1}."""
    clients, cohorts = federation.clients, []
    n = clients.data_sizes
    counts = np.zeros(len(clients), dtype=int)  # line 1: v^0
    label_shares = clients.label_counts / clients.label_counts.sum(axis=1, keepdims=True)
    R = client_graph(label_shares)  # line 2
    H = shortest_paths(R)  # line 3
    for t in range(rounds):  # line 4
        available, _ = draw_available(availability, clients, t)  # line 5: A_t
        cohort = select(H, counts, available)  # line 6: S_t
        local_models = []
        for k in cohort:  # lines 7 to 13
            rows = federation.train.rows(k)
            x, y = federation.train.x[rows], federation.train.y[rows]
            local_models.append(local_training(theta, x, y, LEARNING_RATE * DECAY**t))
        if cohort:  # line 14: the mean of the local models, by data size
            shares = n[cohort] / n[cohort].sum()
            theta = tuple(
                sum(share * model[part] for share, model in zip(shares, local_models, strict=True))
                for part in range(2)
            )
        counts[cohort] += 1  # line 15
        cohorts.append(cohort)
    return theta, cohorts


def unequal_clients(count=10, classes=5, dimensions=12, seed=0):
    """A federation with Gaussian classes, whose clients differ in size and in their labels."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(classes, dimensions))
    sizes = rng.integers(20, 200, size=count)
    label_shares = rng.dirichlet(np.full(classes, 0.5), size=count)
    y = np.concatenate(
        [rng.choice(classes, size=n, p=p) for n, p in zip(sizes, label_shares, strict=True)]
    )
    test_y = np.arange(500) % classes
    x, test_x = (centres[of] + rng.normal(size=(len(of), dimensions)) for of in (y, test_y))
    owner = np.repeat(np.arange(count), sizes)
    return fedgs.Federation.from_arrays(x, y, client=owner, test=(test_x, test_y))


def main():
    """Train from parameters of zero, and print the cohorts and the accuracy."""
    federation = unequal_clients()
    theta = np.zeros((5, 12)), np.zeros(5)
    (weights, bias), cohorts = train(federation, fedgs.LogNormal(beta=0.7), theta)
    for t, cohort in enumerate(cohorts):
        print(f"round {t:2d}: clients {', '.join(map(str, cohort))}")
    predicted = (federation.test.x @ weights.T + bias).argmax(axis=1)
    print(f"test accuracy {np.mean(predicted == federation.test.y):.3f}")


if __name__ == "__main__":
    main()

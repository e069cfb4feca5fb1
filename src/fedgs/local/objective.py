"""The local objective: the loss of a batch, and FedProx's proximal term.

    F_k(theta) = loss of the batch  +  (mu/2)·|theta - theta^t|²

The loss is a `fedgs.losses.Loss`, cross-entropy by default. The proximal term concerns parameters
only, not buffers. Its gradient mu·(theta - theta^t) is written out, not differentiated.
"""

import torch

from fedgs.losses import Loss

__all__ = ["example_figures", "proximal_step", "scaled_losses"]

_MASKED = -1  # the label of a place in a sequence that does not count


def example_figures(
    loss: Loss, task: str, outputs: torch.Tensor, targets: torch.Tensor
) -> dict[str, torch.Tensor]:
    """What is recorded of each example: its loss, and whether the answer is right.

    Args:
        loss: of the work.
        task: of the federation, which says what a right answer is. For "classes" the largest logit
            is the label's; of equal logits the first one counts. For "sequence" places whose label
            is -1 do not count. For "multilabel" the logits of the labels that hold are above 0.
        outputs: (b, ...) of the model.
        targets: (b, ...) of the same examples.

    Returns:
        (b,) each. "losses": float64 sums s_i of the loss; "weights": float64 weights w_i, missing
        where all are 1; "correct": right answers, missing for regression; "answers": all answers,
        missing where each example has one.

    >>> from fedgs.losses import CrossEntropy
    >>> logits, labels = torch.tensor([[-200.0, 0.0]]), torch.tensor([0])
    >>> figures = example_figures(CrossEntropy(), "classes", logits, labels)
    >>> {name: values.tolist() for name, values in figures.items()}
    {'losses': [200.0], 'correct': [False]}
    """
    sums, weights = loss.terms(outputs.float(), targets)
    figures = {"losses": sums.double()}
    if weights is not None:
        figures["weights"] = weights.double()
    if task == "classes":
        figures["correct"] = outputs.argmax(dim=-1) == targets
    elif task == "sequence":
        counted = targets != _MASKED
        right = (outputs.argmax(dim=-1) == targets) & counted
        figures["correct"], figures["answers"] = right.sum(-1), counted.sum(-1)
    elif task == "multilabel":
        right = (outputs > 0) == (targets.float() > 0.5)
        figures["correct"] = right.sum(-1)
        figures["answers"] = torch.full_like(figures["correct"], targets.shape[-1])
    return figures


def scaled_losses(loss: Loss, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """(b,) losses of a batch's examples, scaled so that their mean is the loss of the batch.

    They are the losses themselves where all weights are 1.

    >>> from fedgs.losses import CrossEntropy
    >>> weighted = CrossEntropy(class_weights=[1, 3])
    >>> scaled_losses(weighted, torch.zeros(2, 2), torch.tensor([0, 1]))  # log 2 · (1, 3) / 2
    tensor([0.3466, 1.0397])
    """
    sums, weights = loss.terms(outputs.float(), targets)
    if weights is None:
        return sums
    total = weights.sum()
    return sums * (len(sums) / total.where(total > 0, 1.0))


def proximal_step(vector: torch.Tensor, start: torch.Tensor, mu: float) -> torch.Tensor:
    """The proximal term's gradient mu·(theta - theta^t), of the shape of `vector`.

    >>> proximal_step(torch.tensor([3.0]), torch.tensor([1.0]), 0.5)
    tensor([1.])
    """
    return (vector - start) * mu

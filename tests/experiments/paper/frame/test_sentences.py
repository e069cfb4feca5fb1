"""Sentences that compare with the paper."""

from fedgs.experiments.paper.frame.sentences import gap_sentence, order_sentence, standing_sentence


def test_sentences_are_true_of_their_figures() -> None:
    labels = {"g": "fedgs", "u": "uniform", "p": "poc"}
    paper = {"g": 0.30, "u": 0.32, "p": 0.29}
    ours: dict[str, dict[object, float]] = {
        "g": {0: 0.300, 1: 0.302, 2: 0.301},
        "u": {0: 0.330, 1: 0.331, 2: 0.333},
        "p": {0: 0.350, 1: 0.351, 2: 0.352},
    }
    assert order_sentence("LN", ours, paper=paper, labels=labels) == (
        "LN: 1 of 3 pairs of methods are in the paper's order; reversed with a 95 % interval that "
        "excludes 0: fedgs below poc, uniform below poc."
    )
    assert standing_sentence("LN", "g", ["u", "p"], ours=ours, paper=paper, labels=labels) == (
        "LN: fedgs is below uniform and poc; in the paper it is below uniform, above poc."
    )
    one_seed: dict[str, dict[object, float]] = {row: {0: values[0]} for row, values in ours.items()}
    assert "one seed" in order_sentence("LN", one_seed, paper=paper, labels=labels)
    close: dict[str, dict[object, float]] = {"g": {0: 0.30, 1: 0.31}, "u": {0: 0.31, 1: 0.30}}
    assert "includes 0 for uniform" in standing_sentence(
        "LN", "g", ["u"], ours=close, paper={}, labels=labels
    )
    assert order_sentence("LN", {"g": ours["g"]}, paper=paper, labels=labels) == ""
    assert gap_sentence("fedgs", {"LN": {}}, {"LN": 0.3}) == ""

"""Colours of labels: a label has one colour in every picture, safe for colour-blind readers."""

import colorsys

__all__ = ["label_colours", "shaded"]

# Tol's muted palette.
_LABELS = (
    "#332288",
    "#88CCEE",
    "#DDCC77",
    "#CC6677",
    "#117733",
    "#AA4499",
    "#44AA99",
    "#999933",
    "#882255",
    "#BBBBBB",
)


def label_colours(count: int) -> list[str]:
    """One colour for each of `count` labels, as "#RRGGBB".

    The first ten are fixed. Further labels repeat them, lighter with each repetition.

    >>> label_colours(2), label_colours(11)[10]
    (['#332288', '#88CCEE'], '#5841CF')
    """
    repetitions = -(-count // len(_LABELS))
    step = 0.3 if repetitions <= 3 else 0.75 / (repetitions - 1)
    return [shaded(_LABELS[i % len(_LABELS)], step * (i // len(_LABELS))) for i in range(count)]


def shaded(colour: str, amount: float) -> str:
    """The colour lighter (amount > 0, 1 is white) or darker (amount < 0, -1 is black).

    >>> shaded("#808080", 1.0), shaded("#808080", -1.0), shaded("#D55E00", 0.0)
    ('#FFFFFF', '#000000', '#D55E00')
    """
    red, green, blue = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    hue, light, saturation = colorsys.rgb_to_hls(red, green, blue)
    light = light + (1 - light) * amount if amount > 0 else light * (1 + amount)
    return "#" + "".join(
        f"{round(255 * part):02X}" for part in colorsys.hls_to_rgb(hue, light, saturation)
    )

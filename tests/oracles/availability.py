"""Table 1 of the paper, client by client in plain numbers: the availability modes' referee."""

import math
from fractions import Fraction

__all__ = ["rate", "turn_of"]


def turn_of(label: int, *, round: int, period: int, num_labels: int) -> bool:
    """Is y/C < r <= (y+1)/C, r = (1 + t mod T_p)/T_p, in exact fractions."""
    r = Fraction(1 + round % period, period)
    return Fraction(label, num_labels) < r <= Fraction(label + 1, num_labels)


def rate(
    mode: str,
    client: int,
    *,
    round: int,
    sizes: list[int],
    labels: list[set[int]],
    num_labels: int,
    beta: float,
    period: int,
    normals: list[float],
) -> float:
    """p_k(t) of one client; `normals` are the standard normal numbers behind ln c_k."""
    if mode == "IDL":
        return 1.0
    if mode == "MDF":
        return sizes[client] ** beta / max(size**beta for size in sizes)
    if mode == "LDF":
        return sizes[client] ** -beta / max(size**-beta for size in sizes)
    if mode == "YMF":
        largest = max(max(held) for held in labels)
        return beta * (min(labels[client]) / largest if largest else 0.0) + (1 - beta)
    if mode == "YC":
        theirs = any(
            turn_of(y, round=round, period=period, num_labels=num_labels) for y in labels[client]
        )
        return beta * (1.0 if theirs else 0.0) + (1 - beta)
    spread = math.log(1 / (1 - beta))
    c = [math.exp(spread * number) for number in normals]
    steady = c[client] / max(c)
    if mode == "LN":
        return steady
    if mode == "SLN":
        return steady * (0.4 * math.sin((1 + round % period) / period * 2 * math.pi) + 0.5)
    raise ValueError(mode)

"""Numbers with their nouns, in the singular and the plural."""

__all__ = ["counted", "noun"]


def noun(number: int, singular: str, plural: str | None = None) -> str:
    """The noun in the form that the number asks for.

    Args:
        number: how many there are.
        singular: the noun for 1.
        plural: the noun for all other numbers; None: the singular with "s".

    >>> noun(1, "run"), noun(0, "run"), noun(2, "federation"), noun(2, "entry", "entries")
    ('run', 'runs', 'federations', 'entries')
    """
    return singular if number == 1 else plural or f"{singular}s"


def counted(number: int, singular: str, plural: str | None = None) -> str:
    """The number and its noun.

    >>> counted(1, "run"), counted(15, "run"), counted(0, "client")
    ('1 run', '15 runs', '0 clients')
    """
    return f"{number} {noun(number, singular, plural)}"

"""`fedgs graph`: build the client graph, compare it with the oracle's edges, and write it."""

import contextlib
import time
from pathlib import Path
from typing import Annotated, Optional, get_args

import typer

from fedgs.cli.common import (
    ConfigArgument,
    DataDirOption,
    PluginOption,
    SetOption,
    command_again,
    console,
    read_grid,
)
from fedgs.clients import Clients
from fedgs.config import Config
from fedgs.errors import ConfigError, GraphError
from fedgs.graph import ClientGraph, Graph, client_features, feature_products
from fedgs.graph.recovery import Recovery, components, density
from fedgs.graph.settings import Similarity
from fedgs.plurals import counted
from fedgs.sampling import FedGS

__all__ = ["graph"]

_SIMILARITIES: tuple[Similarity, ...] = get_args(Similarity)


def graph(
    config: ConfigArgument = None,
    set_: SetOption = None,
    plugin: PluginOption = None,
    data_dir: DataDirOption = None,
    similarity: Annotated[
        Optional[str],  # noqa: UP045 (typer reads the annotation)
        typer.Option(
            "--similarity",
            metavar="NAME",
            help="oracle, private, update or functional.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(
            "--out",
            metavar="G.npz",
            help="Write similarity, adjacency and distance.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Density, components, F1 against the oracle's edges over a grid of epsilon, and what it cost.

    What is written can be used by runs: `--set method.graph.path=G.npz`.
    """
    chosen, method = _chosen(config, set_, plugin, similarity)
    if out is not None and (out.suffix != ".npz" or not out.parent.is_dir()):
        raise ConfigError(f"--out must be an .npz in a folder that exists, got {str(out)!r}")
    from fedgs.experiments.preparing import prepare
    from fedgs.experiments.similarity import made_graph
    from fedgs.graph.files import save_graph

    (prepared,) = prepare([chosen], data_dir=data_dir)
    started = time.perf_counter()
    client_graph, cost = made_graph(prepared.plan, device=chosen.execution.device)
    seconds = time.perf_counter() - started
    screen = console()
    source = method.graph.path or method.graph.similarity
    federation = prepared.plan.federation
    clients = counted(len(client_graph), "client")
    screen.print(f"{federation.name}, {clients}: graph of {source}")
    edges = client_graph.adjacency
    parts = counted(components(edges), "connected part")
    screen.print(f"  edges: {density(edges):.1%} of the pairs, {parts}, {seconds:.2f} s")
    if cost is not None:
        screen.print(f"  cost: {cost}")
    for line in recovery_lines(client_graph, federation.clients):
        screen.print(line)
    if out is not None:
        save_graph(out, client_graph)
        # The graph belongs to these clients: the next command has the same configuration,
        # without the settings of the graph, which the file replaces.
        others = [text for text in set_ or [] if not text.strip().startswith("method.graph.")]
        also = [f"method.graph.path={out}"]
        following = command_again(
            "fedgs run", config, overrides=others, plugins=plugin, data_dir=data_dir, also=also
        )
        screen.print(f"Written: {out}    Next: {following}")


def _chosen(
    config: Path | None,
    overrides: list[str] | None,
    plugins: list[Path] | None,
    similarity: str | None,
) -> tuple[Config, FedGS]:
    """The first configuration with FedGS, with the given similarity.

    Where no configuration has FedGS, it is the first one, with FedGS in place of its method.
    """
    if similarity is None:
        return _with_graph(read_grid(config, overrides, plugins).configs, FedGS())
    known = next((name for name in _SIMILARITIES if name == similarity), None)
    if known is None:
        raise ConfigError(
            f"--similarity must be one of {', '.join(_SIMILARITIES)}; got {similarity!r}"
        )
    further = [
        ("method.graph.similarity", known),
        ("method.graph.path", None),
        ("method.graph.start", "all"),
    ]
    try:
        return _with_graph(read_grid(config, overrides, plugins, further=further).configs, FedGS())
    except ConfigError as error:  # as it is where no method has a graph
        with contextlib.suppress(ConfigError):
            configs = read_grid(config, overrides, plugins).configs
            if not any(isinstance(config.method, FedGS) for config in configs):
                return _with_graph(configs, FedGS(graph=Graph(similarity=known)))
        raise error from None


def _with_graph(configs: list[Config], otherwise: FedGS) -> tuple[Config, FedGS]:
    for config in configs:
        if isinstance(config.method, FedGS):
            return config, config.method
    return configs[0].model_copy(update={"method": otherwise}), otherwise


def recovery_lines(client_graph: ClientGraph, clients: Clients) -> list[str]:
    """The table of F1 (precision, recall), one line for each epsilon, one column for each oracle.

    Without an oracle it is one sentence.
    """
    from fedgs.experiments.similarity import edge_rows

    try:
        products = feature_products(client_features(clients))
    except GraphError:
        return ["  no oracle to compare with: the clients have neither features nor labels"]
    if len(client_graph) < 2:
        return []
    columns: dict[str, list[tuple[str, Recovery]]] = {}
    for oracle, rule, row in edge_rows(client_graph.similarity, products):
        columns.setdefault(oracle, []).append((rule, row))
    title = (
        "F1 (precision, recall) against the oracle's edges, epsilon 0.1, by the oracle's products"
    )
    heads = "".join(f"{oracle:>22}" for oracle in columns)
    lines = ["", f"  {title}", "", f"  {'epsilon':<28}{'density':>8}{heads}"]
    for cells in zip(*columns.values(), strict=True):
        rule, first = cells[0]
        name = _RULES[rule].format(first.epsilon)
        figures = (f"{row.f1:.3f} ({row.precision:.3f}, {row.recall:.3f})" for _, row in cells)
        lines.append(
            f"  {name:<28}{first.density:>8.1%}" + "".join(f"{text:>22}" for text in figures)
        )
    return lines


# Rule of `edge_rows` -> what the table calls it, with its epsilon.
_RULES = {
    "grid": "{:g}",
    "density": "target density 1/3: {:.3f}",
    "histogram": "histogram (Otsu): {:.3f}",
}

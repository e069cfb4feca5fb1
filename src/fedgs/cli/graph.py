"""`fedgs graph`: build the client graph, describe it in words, and write it."""

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
from fedgs.config import Config
from fedgs.errors import ConfigError
from fedgs.graph import Graph
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
    table: Annotated[
        bool,
        typer.Option("--table", help="Print F1, precision and recall for a grid of epsilon."),
    ] = False,
) -> None:
    """Describe the client graph: its edges, its effect on cohorts, and its cost.

    Runs can use the written file: `--set method.graph.path=G.npz`.
    """
    chosen, method = _chosen(config, set_, plugin, similarity)
    if out is not None and (out.suffix != ".npz" or not out.parent.is_dir()):
        raise ConfigError(f"--out must be an .npz in a folder that exists, got {str(out)!r}")
    from fedgs.experiments import graph_words as words
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
    screen.print(f"{federation.name}, {counted(len(client_graph), 'client')}: graph of {source}")
    limit = prepared.plan.cohort_limit
    rows = {
        "edges": f"{words.edges_in_words(client_graph)}; made in {seconds:.2f} s",
        "effect": words.effect_in_words(client_graph, method, limit),
    }
    if source != "oracle":
        rows["oracle"] = words.nearness_in_words(client_graph, federation.clients)
    if cost is not None:
        rows["cost"] = cost
    for name, text in rows.items():
        screen.print(f"  {name + ':':<8}{text}")
    if table:
        screen.print("\n".join(["", *words.recovery_table(client_graph, federation.clients)]))
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

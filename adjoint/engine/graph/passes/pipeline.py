"""The passes over graphs, in the order they run.

With ADJOINT_VERIFY=1 in the environment, or `verify=True`, every pass's result is verified.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from adjoint.engine.graph.ir import DataflowGraph, Node
from adjoint.engine.graph.passes.cse import cse
from adjoint.engine.graph.passes.dce import dce
from adjoint.engine.graph.passes.fold import fold
from adjoint.engine.graph.passes.inline import Keep, inline
from adjoint.engine.graph.passes.layout import layout
from adjoint.engine.graph.passes.nested import in_subgraphs
from adjoint.engine.graph.passes.prune import prune
from adjoint.engine.graph.passes.shared_sums import share_sums
from adjoint.engine.graph.passes.simplify import simplify
from adjoint.engine.graph.passes.unmark import unmark
from adjoint.engine.graph.passes.unsplit import unsplit
from adjoint.engine.graph.verify import GraphError, verifying
from adjoint.engine.graph.verify import verify as verify_graph

Pass = Callable[[DataflowGraph], DataflowGraph]

PIPELINE: tuple[tuple[str, Pass, str], ...] = (
    ("unmark", unmark, "what only derivatives were told"),
    ("inline", inline, "composites become the primitives they are made of"),
    ("dce", dce, "what a composite computes for nobody goes first: it is not worth simplifying"),
    ("prune", prune, "loops and branches give only what somebody uses"),
    ("fold", fold, "what is known now is computed now"),
    ("simplify", simplify, "algebra, casts, views of views"),
    ("unsplit", unsplit, "sums of slices put into zeros become concatenations"),
    ("layout", layout, "no copies for strides' sake; products oriented as they are used"),
    ("cse", cse, "equal computations are done once"),
    ("dce", dce, "nodes that were replaced go"),
    ("share_sums", share_sums, "sums over more dimensions are made of sums over fewer"),
)


def keeping(keep: Keep) -> tuple[tuple[str, Pass, str], ...]:
    """The passes for a target that wants some composites whole."""
    return tuple(
        (name, partial(inline, keep=keep), what) if run is inline else (name, run, what)
        for name, run, what in PIPELINE
    )


def run_passes(
    graph: DataflowGraph,
    passes: Sequence[tuple[str, Pass, str]] = PIPELINE,
    *,
    verify: bool | None = None,
    observe: Callable[[str, DataflowGraph], None] | None = None,
) -> DataflowGraph:
    """The graph after all passes, which also run in branches and loop bodies.

    `observe` is called with each pass's name and result.
    """
    if verify is None:
        verify = verifying()
    graph = in_subgraphs(graph, lambda body: run_passes(body, passes, verify=verify))
    known: set[Node] = set()
    for number, (name, run, _) in enumerate(passes, 1):
        graph = run(graph)
        if verify:
            # Most nodes a pass leaves as they are. The last result is verified as a whole: a node
            # that was changed in place is found there.
            try:
                verify_graph(graph, known if number < len(passes) else None)
            except GraphError as error:
                raise GraphError(f"after the pass {name!r}: {error}") from error
        if observe is not None:
            observe(name, graph)
    return graph

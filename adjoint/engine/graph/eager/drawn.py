"""Calls on few elements that draw random numbers, and those whose elements nobody has written.

Note [small draws]
    What a small draw costs is its arguments: sizes, dtype, device, layout and generator are looked
    at before a few words of Philox are made. So a kind of call that draws once, from the default
    generator, is recorded like other small calls (Note [small calls]), with the numbers drawn as
    an operand. Its program takes the same blocks from the generator, draws by the same record and
    does with the numbers what was recorded. It is kept if on a generator of its own it gives the
    same bytes as the call. Where it fails, the blocks are given back and the call is made as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any

from numpy import empty

from adjoint.engine.core.device import CPU
from adjoint.engine.core.operations.public import PUBLIC
from adjoint.engine.core.operations.record import HOOKS, is_tensor
from adjoint.engine.core.operations.small_calls import SmallCalls
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.state.determinism import fills_uninitialized
from adjoint.engine.core.state.rng import Generator, default_generator
from adjoint.engine.graph.eager.recorded import OperationTrace, Unfit
from adjoint.engine.graph.ir import DataflowGraph, Node, Value
from adjoint.engine.graph.passes.cse import cse
from adjoint.engine.graph.passes.dce import dce
from adjoint.engine.graph.passes.inline import inline
from adjoint.engine.graph.passes.unmark import unmark
from adjoint.engine.ops.create.creation import EMPTY
from adjoint.engine.ops.random.random import RANDOM
from adjoint.engine.tensor.tensor import Tensor

SEED = 5  # of the generator that programs are tried with
Arrays = tuple[Any, ...]  # native code takes nothing else


class DrawTrace(OperationTrace):
    """A recording in which the first blocks of `SEED` are drawn, once, from a generator."""

    def __init__(self, generator: Generator) -> None:
        super().__init__(None, "a small draw")
        self.generator = generator
        self.drawn: list[int] = []

    def random(self, generator: Any, count: int) -> tuple[Any, Any]:
        """What a generator is asked for."""
        if self.drawn or generator is not self.generator:
            raise Unfit
        self.drawn.append(count)
        return SEED, 0


def program_of(
    calls: SmallCalls, tensors: list[Tensor], given: Any, call: Callable[[], Any]
) -> Callable[..., Arrays | None]:
    """A function of arrays that draws as the call does; `Unfit` where there is none."""
    graph, places, drawn = drawn_graph(DrawTrace(default_generator), tensors, call)
    if not drawn:
        return unwritten(graph, call)
    (node,) = [n for n in graph.nodes if n.record is RANDOM]
    if node.inputs != (SEED, 0) or node.params["device"] is not CPU:
        raise Unfit
    arrays = [t._array for t in tensors]
    rest = what_follows(graph, node, places, arrays)
    (blocks,), record, params = drawn, node.record, node.params

    def made(seed: int, offset: int, *arrays: Any) -> Arrays:
        # As the record would, without the way there.
        met = HOOKS.meet(record.small, (seed, offset), params, None) if record.small else None
        numbers = record(seed, offset, **params)._array if met is None else met[0]
        return (numbers,) if rest is None else rest(numbers, *arrays)

    probe = Generator().manual_seed(SEED)
    operands, keywords = given
    want = PUBLIC["", calls.name].fn(*operands, **keywords, generator=probe)
    if want.__class__ is not Tensor or want._requires_grad:
        raise Unfit
    if probe._offset != blocks or not HOOKS.same_arrays(made(SEED, 0, *arrays), [want._array]):
        raise Unfit

    def draw(*arrays: Any) -> Arrays:
        seed, offset = default_generator.draw(blocks)
        try:
            return made(seed, offset, *arrays)
        except Exception:
            default_generator.advance(-blocks)
            raise

    return draw


def drawn_graph(
    body: DrawTrace, tensors: list[Tensor], call: Callable[[], Any]
) -> tuple[DataflowGraph, list[int], list[int]]:
    """The graph of a call, which tensors are its inputs, and how many blocks it drew."""
    try:
        with CONTEXT.having(grad_enabled=False):
            out = body.run(call)
        if not is_tensor(out) or any(out is t for t in tensors):
            raise Unfit
        sources = {id(lifted.value): lifted.source for lifted in body.lifted.values()}
        graph = body.finish([out])
        for simplify in (inline, unmark, cse, dce):
            graph = simplify(graph)
        given = {id(t): k for k, t in enumerate(tensors)}
        places = [given[id(sources[id(value)])] for value in graph.inputs]
        return graph, places, body.drawn
    finally:
        body.lifted.clear()


def unwritten(graph: DataflowGraph, call: Callable[[], Any]) -> Callable[..., Arrays | None]:
    """A new array whose elements are whatever was in its memory."""
    (node,) = graph.nodes
    if node.record is not EMPTY or node.params["device"] is not CPU:
        raise Unfit
    kernel, want = HOOKS.straighten(graph, [], []), call()
    (array,) = kernel()
    layout = (array.dtype, array.shape, array.strides)
    if want._requires_grad or layout != (want._array.dtype, want._array.shape, want._array.strides):
        raise Unfit
    # Memory is filled where that was asked for, by the call as it is.
    if not array.flags.c_contiguous:
        return lambda *arrays: None if fills_uninitialized() else kernel()
    make = partial(empty, array.shape, array.dtype)
    return lambda *arrays: None if fills_uninitialized() else (make(),)


def is_fragment(node: Node) -> bool:
    """Whether an operation, done as it is, is large enough for a compiled program."""
    sizes = [prod(x.spec.shape) for x in node.inputs if isinstance(x, Value)]
    return 0 < node.record.large <= max(sizes, default=0)


def what_follows(
    graph: DataflowGraph, node: Node, places: list[int], arrays: list[Any]
) -> Callable[..., Arrays] | None:
    """What is done with the numbers of a draw and arrays; None: they are the result."""
    (numbers,) = node.outputs
    others = [n for n in graph.nodes if n is not node]
    if not others and graph.outputs == [numbers]:
        return None
    if any(map(is_fragment, others)):
        raise Unfit
    after = graph.copy()
    after.inputs, after.nodes = [numbers, *graph.inputs], others
    sample = node.record(SEED, 0, **node.params)._array
    following = [0, *[1 + k for k in places]]
    given = [sample, *arrays]
    kernels: Callable[..., Arrays] = HOOKS.straighten(after, following, given)
    try:
        rows: Callable[..., Arrays | None] = HOOKS.small_rows(after, following, given).run
        alike = HOOKS.same_arrays(rows(*given), kernels(*given))
    except Exception:  # no rows, for whatever reason
        return kernels
    return (lambda *given: tuple(rows(*given) or kernels(*given))) if alike else kernels

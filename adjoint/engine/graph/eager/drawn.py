"""Calls on few elements that draw random numbers, and those whose elements nobody has written.

Note [small draws]
    What a small draw costs is its arguments: sizes, dtype, device, layout and generator are looked
    at before a few words of Philox are made. So a kind of call that draws once is recorded like
    other small calls (Note [small calls]), from whichever generator it draws: one that is given is
    the last operand. The draw and all that follows it are compiled as one program of the seed and
    the place in its stream, which native code runs (Note [met fragments]); where that cannot be,
    the record draws and the rest follows on few elements. A program is kept if on a generator of
    its own it gives the same bytes as the call. It takes the same blocks from the generator; where
    it fails, they are given back and the call is made as it is. A draw in place is such a program
    whose result is written where the tensor lies.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from typing import Any

from numpy import empty

from adjoint.engine.core.device import CPU
from adjoint.engine.core.errors import raised_outside
from adjoint.engine.core.operations.public import INPLACE, PUBLIC
from adjoint.engine.core.operations.record import HOOKS, is_tensor
from adjoint.engine.core.operations.small_calls import FILLS, SmallCalls
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.state.determinism import fills_uninitialized
from adjoint.engine.core.state.rng import Generator, default_generator
from adjoint.engine.graph.eager.fragment import Unfit
from adjoint.engine.graph.eager.fragments import FRAGMENTS
from adjoint.engine.graph.eager.recorded import (
    OperationTrace,
    example_of,
    native,
    recorded,
)
from adjoint.engine.graph.ir import DataflowGraph, Node, Value
from adjoint.engine.graph.passes.cse import cse
from adjoint.engine.graph.passes.dce import dce
from adjoint.engine.graph.passes.inline import inline
from adjoint.engine.graph.passes.unmark import unmark
from adjoint.engine.graph.record.sources import CallArgument
from adjoint.engine.ops.create.creation import EMPTY
from adjoint.engine.ops.random.random import RANDOM
from adjoint.engine.tensor.tensor import Tensor, wrap
from adjoint.engine.tensor.watching import doubt
from adjoint.engine.tensor.writing.mutation import is_off_tape

FILLING = frozenset(FILLS.split())
SEED = 5  # of the generator that programs are tried with
Arrays = tuple[Any, ...]  # native code takes nothing else
NOTHING: dict[str, Any] = {}  # parameters of what native code finds


class DrawTrace(OperationTrace):
    """A recording in which the first blocks of `SEED` are drawn, once, from a generator."""

    def __init__(self, generator: Generator) -> None:
        super().__init__(None, "a small draw")
        self.generator = generator
        self.drawn: list[int] = []
        self.begin: tuple[Any, Any] = (SEED, 0)

    def random(self, generator: Any, count: int) -> tuple[Any, Any]:
        """What a generator is asked for."""
        if self.drawn or generator is not self.generator:
            raise Unfit
        self.drawn.append(count)
        return self.begin


@dataclass(frozen=True, slots=True)
class DrawCall:
    """A call that draws once: the tensors it is given, its generator, and how it is made."""

    name: str
    tensors: list[Tensor]
    operands: list[Any]  # all but a generator
    keywords: dict[str, Any]
    given: Generator | None
    call: Callable[[], Any]

    @property
    def source(self) -> Generator:
        """The generator it draws from."""
        return default_generator if self.given is None else self.given

    def tried(self) -> tuple[Any, int]:
        """What it gives from the beginning of `SEED`, and how many blocks it takes."""
        probe = Generator().manual_seed(SEED)
        fn = INPLACE[self.name[:-1]] if self.fills else PUBLIC["", self.name].fn
        with CONTEXT.having(consulted=None):  # a fragment may settle just now (`found_draw`)
            out = fn(*self.operands, **self.keywords, generator=probe)
        if out.__class__ is not Tensor or out._requires_grad:
            raise Unfit
        return out._array, probe._offset

    @property
    def fills(self) -> bool:
        """Whether its first tensor is what it draws into."""
        return self.name in FILLING


def drawing_of(
    calls: SmallCalls, tensors: list[Tensor], given: Any, call: Callable[[], Any]
) -> DrawCall:
    """A call, by its arguments; a generator is the last of its operands."""
    operands, keywords = given
    source = None
    if operands and isinstance(operands[-1], Generator):
        *operands, source = operands
    return DrawCall(calls.name, tensors, operands, keywords, source, call)


def program_of(drawing: DrawCall) -> Callable[..., Arrays | None]:
    """A function of tensors, and of a generator if one is given, that draws as the call does.

    `Unfit` where there is none.
    """
    tensors, source = drawing.tensors, drawing.source
    graph, places, drawn = drawn_graph(DrawTrace(source), tensors, drawing.call)
    if not drawn:
        return unwritten(graph, drawing.call)
    (blocks,) = drawn
    want, taken = drawing.tried()
    if taken != blocks:
        raise Unfit
    for way in (at_once, in_steps):
        try:
            made = way(drawing, graph, places)
            if HOOKS.same_arrays(made(SEED, 0, *tensors), [want]):
                break
        except Exception as error:  # whatever it is, there is another way
            if raised_outside(error):
                raise
            continue
    else:
        raise Unfit

    def draw(source: Generator, *tensors: Tensor) -> Arrays | None:
        seed, offset = source.taken(blocks)
        try:
            out = made(seed, offset, *tensors)
        except Exception:
            source.advance(-blocks)
            raise
        if out is None:
            source.advance(-blocks)
        return out

    if drawing.given is None:
        return partial(draw, default_generator)
    return lambda *given: draw(given[-1], *given[:-1]) if given[-1]._device is CPU else None


Made = Callable[..., Arrays | None]  # of the seed, the place and tensors


def at_once(drawing: DrawCall, graph: DataflowGraph, places: list[int]) -> Made:
    """The draw and all that follows it as one compiled program."""
    executable, inputs, entry = found_draw(drawing)
    if entry is None:

        def run(seed: int, offset: int, *tensors: Tensor) -> Arrays:
            given = [*[t._array for t in tensors], seed, offset]
            return tuple(executable([given[k] for k in inputs], []))

        return run
    entries, meet = (entry,), HOOKS.meet

    def found(seed: int, offset: int, *tensors: Tensor) -> Arrays | None:
        out: Arrays | None = meet(entries, (*tensors, seed, offset), NOTHING, None)
        return out

    return found


def found_draw(drawing: DrawCall) -> tuple[Any, tuple[int, ...], Any]:
    """What `compiled_draw` gives, and what native code finds it by; None where it cannot."""
    # What compiling asks for (the number of threads) changes no bit of what is drawn; what the call
    # itself asks for was noted when it was recorded before.
    with CONTEXT.having(consulted=None):
        executable, inputs = compiled_draw(drawing)
        operands = [*drawing.tensors, SEED, 0]
        try:
            entry = HOOKS.small_draw(executable, inputs, operands, drawing.fills)
        except Exception as error:  # it is too large, or has no rows for another reason
            if raised_outside(error):
                raise
            entry = None
    return executable, inputs, entry


def compiled_draw(drawing: DrawCall) -> tuple[Any, tuple[int, ...]]:
    """What the call does as a program, and which of tensors, seed and place are its inputs."""
    if not RANDOM.large:
        raise Unfit  # nothing is to be compiled
    tensors, shared = drawing.tensors, FRAGMENTS.shared
    body = DrawTrace(drawing.source)

    def work(hosts: Any) -> Any:
        body.begin = (hosts[0], hosts[1])
        return drawing.call()

    before = CONTEXT.every_field()
    try:
        made = recorded(body, tensors, (SEED, 0), work, in_doubt, False)
    finally:
        CONTEXT.__dict__.update(before)  # an interrupt may have left them
        body.lifted.clear()
    (result,) = made.results
    if result is None or not result.as_made or not made.is_single:
        raise Unfit
    examples = [*[example_of(t._array) for t in tensors], SEED, 0]
    task = made.task(examples, shared, None)
    if drawing.fills:
        target = CallArgument(len(made.places), whole=False)
        task = replace(task, writes=((target, 0),), returned=frozenset(), targets=(examples[0],))
    return native(task, shared), made.places


def in_doubt(leaves: Any) -> Any:
    """How results lie eagerly, where only another draw would tell."""
    raise Unfit


def in_steps(drawing: DrawCall, graph: DataflowGraph, places: list[int]) -> Made:
    """The record's draw, then what follows on few elements."""
    if drawing.fills:
        raise Unfit
    (node,) = [n for n in graph.nodes if n.record is RANDOM]
    if node.inputs != (SEED, 0) or node.params["device"] is not CPU:
        raise Unfit
    rest = what_follows(graph, node, places, [t._array for t in drawing.tensors])
    record, params = node.record, node.params

    def made(seed: int, offset: int, *tensors: Tensor) -> Arrays:
        # As the record would, without the way there.
        met = HOOKS.meet(record.small, (seed, offset), params, None) if record.small else None
        numbers = record(seed, offset, **params)._array if met is None else met[0]
        return (numbers,) if rest is None else rest(numbers, *[t._array for t in tensors])

    return made


def filling_of(drawing: DrawCall) -> Callable[..., Tensor | None]:
    """A function of tensors that draws into the first of them; `Unfit` where there is none.

    It gives None where somebody has to know of the write, and where memory is shared with other
    operands or may not be written to.
    """
    target, *others = drawing.tensors
    source, array = drawing.source, target._array
    _, _, drawn = drawn_graph(DrawTrace(source), drawing.tensors, drawing.call)
    want, taken = drawing.tried()
    (blocks,) = drawn
    if taken != blocks or want.dtype != array.dtype or want.shape != array.shape:
        raise Unfit
    if not array.flags.c_contiguous or not array.size or any(t is target for t in others):
        raise Unfit
    made = into(drawing)
    trial = wrap(empty(array.shape, array.dtype))
    if made(SEED, 0, trial, *others) is None or not HOOKS.same_arrays([trial._array], [want]):
        raise Unfit

    def fill(source: Generator, target: Tensor, *others: Tensor) -> Tensor | None:
        storage = target._storage
        if CONTEXT.grad_enabled and not is_off_tape(target):
            return None
        if storage.version < 0 or not target._array.flags.writeable:
            return None
        for x in others:
            if x._storage is storage or (x._requires_grad and CONTEXT.grad_enabled):
                return None
        try:
            done = made(*source.taken(blocks), target, *others)
        except BaseException as error:
            doubt(storage)
            if isinstance(error, Exception) and not raised_outside(error):
                source.advance(-blocks)
            raise
        if done is None:
            source.advance(-blocks)
            return None
        storage.version += 1
        return target

    if drawing.given is None:
        return partial(fill, default_generator)
    return lambda *given: fill(given[-1], *given[:-1]) if given[-1]._device is CPU else None


def into(drawing: DrawCall) -> Callable[..., Any]:
    """What draws into the first of some tensors; it gives None where it did not."""
    executable, inputs, entry = found_draw(drawing)
    if entry is None:

        def run(seed: int, offset: int, *tensors: Tensor) -> bool:
            given = [*[t._array for t in tensors], seed, offset]
            executable([given[k] for k in inputs], [given[0]])
            return True

        return run
    entries, meet = (entry,), HOOKS.meet
    if len(drawing.tensors) == 1:
        return lambda seed, offset, target: meet(entries, (target, seed, offset), NOTHING, None)
    return lambda seed, offset, *given: meet(entries, (*given, seed, offset), NOTHING, None)


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
    except Exception as error:  # no rows, for whatever reason
        if raised_outside(error):
            raise
        return kernels
    return (lambda *given: tuple(rows(*given) or kernels(*given))) if alike else kernels

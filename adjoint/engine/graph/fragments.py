"""Fragments: large eager operations run as compiled programs.

Note [fragments]
    An eager operation on large tensors spends its time in memory and arithmetic, not in Python. So
    where it is large, what the operation is made of (a composite's own composition, a rule of the
    tape) is recorded once for each kind of operands, compiled by the target as `compile` would
    compile it, and run as one program: fused, on every core, nothing between its parts in memory.
    There is then no second, hand-fused implementation of anything.

    A kind is decided by all that a recording may look at: the operation, its parameters, and of
    each tensor dtype, shape and strides. A fragment is made where a kind is met first, so a program
    gives the same bits every time it runs. Machine code knows no sizes and is shared by kinds that
    differ in them alone, but each costs some milliseconds of planning: an operation that goes on to
    meet new shapes gets them for the first `SHAPES` of them.

    Operations stay as they were where somebody looks on (transforms, recordings, observers), and
    where a recording draws, reads an element, or calls the eager table in its middle.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from numpy import ndarray

from adjoint.engine.core.dtype import DEFAULT_LISTENERS
from adjoint.engine.core.errors import warn_user
from adjoint.engine.core.operations.record import HOOKS, Record, is_tensor
from adjoint.engine.core.spec import contiguous_strides
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.tree import flatten, unflatten
from adjoint.engine.graph.execution import Executable, Task
from adjoint.engine.graph.ir import Value, frozen
from adjoint.engine.graph.record.body import BodyTrace, LiftedInput
from adjoint.engine.graph.record.sources import Argument
from adjoint.engine.graph.sizing import Example
from adjoint.engine.tensor.tensor import Tensor, wrap

KEPT = 1024  # kinds, the one used last at the end
Work = Callable[[Sequence[Any]], Any]
Made = TypeVar("Made")
SHAPES = 64  # of one operation that get fragments: each costs some milliseconds to plan


@dataclass(frozen=True, slots=True)
class Result:
    """Which output a result is, and how its dimensions lie in it."""

    output: int
    order: tuple[int, ...] | None  # None: as they come

    def of(self, arrays: Sequence[Any]) -> Tensor:
        array = arrays[self.output]
        return wrap(array if self.order is None else array.transpose(self.order))


@dataclass(frozen=True, slots=True)
class Fragment:
    """A compiled operation for operands of one kind."""

    executable: Executable
    places: tuple[int, ...]  # which of the tensors and, after them, numbers are its inputs
    results: tuple[Result | None, ...]
    structure: Any  # None: the first result alone
    what: str  # the operations it is made of, for people

    def __call__(self, tensors: Sequence[Tensor], numbers: Sequence[float]) -> Any:
        given = [*[t._array for t in tensors], *numbers]
        arrays = self.executable([given[k] for k in self.places], [])
        if self.structure is None:
            return self.results[0].of(arrays)  # type: ignore[union-attr]
        found = [None if result is None else result.of(arrays) for result in self.results]
        return unflatten(self.structure, found)


class Recording(BodyTrace):
    """Of one operation: its operands lie in memory as they do outside."""

    def lift(self, tensor: Tensor) -> Tensor:
        value = self.graph.add_input(tensor._spec)
        self.lifted[id(tensor)] = LiftedInput(tensor, value)
        return self.wrap(value, tensor.stride())


class Unfit(Exception):
    """An operation that gains nothing by being compiled, or cannot be."""


def fitting(name: str, tensors: Sequence[Tensor], make: Callable[[], Made]) -> Made | None:
    """What `make` compiles; None where that runs by the table, which is told unless expected."""
    try:
        return make()
    except Unfit:
        return None
    except Exception as error:
        warn_user(
            f"{name}: could not be compiled for tensors of {[t._spec for t in tensors]} and "
            f"runs by the eager table, which is slower. {type(error).__name__}: {error}"
        )
        return None


class Fragments:
    """The fragments of this process, by kind; None for kinds that run as they are."""

    def __init__(self) -> None:
        self.held: OrderedDict[Any, Fragment | None] = OrderedDict()
        self.shapes: dict[Any, int] = {}  # how many kinds differ only in them
        self.shared: dict[str, Any] = {}  # one runs at a time, in the same memory

    def run(self, key: Any, tensors: Sequence[Tensor], rule: Callable[[], Any]) -> Any:
        """What `rule()` gives, which is decided by `key` and these tensors; None: call it."""
        return self.find(frozen(key), tensors, (), lambda _: rule())

    def find(self, key: Any, tensors: Sequence[Tensor], numbers: Sequence[float], fn: Work) -> Any:
        """What `fn(numbers)` gives, decided by `key` and the tensors; None: do it as it is."""
        kind = (key, *layout(tensors))
        try:
            fragment = self.held[kind]
            self.held.move_to_end(kind)
        except KeyError:
            family = (key[0], *[(t._array.dtype, t.ndim) for t in tensors])
            count = self.shapes[family] = self.shapes.get(family, 0) + 1
            if count > SHAPES:
                return None
            fragment = self.held[kind] = self.make(key, tensors, numbers, fn)
        except TypeError:  # something in it has no hash
            return None
        if fragment is None:
            return None
        try:
            return fragment(tensors, numbers)
        except (RuntimeError, IndexError):
            # The operation as it is says what is wrong with its operands, in its own words. If it
            # finds nothing wrong, the fragment is at fault (`validate` says so), which is told.
            with CONTEXT.having(grad_enabled=False, reference=True):
                fn(numbers)
            raise

    def make(
        self, key: Any, tensors: Sequence[Tensor], numbers: Sequence[float], fn: Work
    ) -> Fragment | None:
        """A fragment, if the operation can be one."""
        while len(self.held) >= KEPT:
            self.held.popitem(last=False)
        return fitting(key[0], tensors, lambda: compiled(tensors, numbers, fn, self.shared))

    def forget(self) -> None:
        """Make every fragment anew."""
        self.held.clear()
        self.shapes.clear()

    def forward(self, record: Record, operands: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """The results of a large operation, without the tape; None where it runs as it is."""
        # Floats may differ at each call (an optimizer's corrections), so programs are given them;
        # those of functions stay, since much depends on them (the exponent of a power).
        # So are the seed and the place of a draw.
        is_open = record.family == "elementwise" and record.cost != "function"
        kinds = (int,) if record.draws else (float,) if is_open else ()
        tensors: list[Tensor] = []
        numbers: list[float] = []
        literals: list[Any] = []  # what stands in the place of each operand
        for x in operands:
            if isinstance(x, Tensor):
                tensors.append(x)
                literals.append(None)
            elif type(x) in kinds:
                numbers.append(x)
                literals.append(float)  # to be given
            else:
                literals.append((frozen(x),))
        key = (record, *literals, frozen(params)) if params else (record, *literals)

        def work(hosts: Sequence[Any]) -> Any:
            left = iter(hosts)
            given = [
                next(left) if literal is float else x
                for literal, x in zip(literals, operands, strict=True)
            ]
            return record(*given, **params)

        return self.find(key, tensors, numbers, work)


def layout(tensors: Sequence[Tensor]) -> list[Any]:
    """How tensors lie: all that a recording may look at, and which of them are the same."""
    arrays = [t._array for t in tensors]
    told: list[Any] = [(a.dtype, a.shape, a.strides) for a in arrays]
    if len(arrays) > 1:
        names = [*map(id, tensors)]
        told += map(names.index, names)
    if any(a.__class__ is not ndarray for a in arrays):
        told += [t._spec.device for t in tensors]
    return told


def compiled(
    tensors: Sequence[Tensor], numbers: Sequence[float], fn: Work, shared: dict[str, Any]
) -> Fragment:
    """Record and compile what a function does with tensors and numbers."""
    body = Recording(None, "a fragment")
    given = {id(t): k for k, t in enumerate(tensors)}
    try:
        with CONTEXT.having(grad_enabled=False):
            hosts = [body.host(x) for x in numbers]
            out = body.run(fn, hosts)
    except Exception as error:  # as it is, it succeeds or says what is wrong
        raise Unfit from error
    leaves, structure = flatten(out)
    results, made = laid_out(body, leaves, given, lambda: fn(numbers))
    lifted = {id(held.value): held.source for held in body.lifted.values()}
    graph = body.finish(made)
    if any(root(value).node is None for value in graph.outputs):
        raise Unfit  # handed on as it came, or a view of it
    sources = [lifted.get(id(value)) for value in graph.inputs]
    given |= {id(host): len(tensors) + k for k, host in enumerate(hosts)}
    if not all(id(source) in given for source in sources):
        raise Unfit
    places = tuple([given[id(source)] for source in sources])
    arrays = [t._array for t in tensors]
    examples = [*[Example(a.shape, a.strides, a.dtype) for a in arrays], *numbers]
    task = Task(
        graph=graph,
        sources=tuple([Argument(k, whole=False) for k in range(len(places))]),
        writes=(),
        returned=frozenset(range(len(made))),
        examples=tuple([examples[k] for k in places]),
        targets=(),
        shared=shared,
    )
    executable = native(task, shared)
    what = " ".join(dict.fromkeys([node.record.name for node in graph]))
    return Fragment(executable, places, results, None if is_tensor(out) else structure, what)


def native(task: Task, shared: dict[str, Any]) -> Executable:
    """The program of a task, all of it machine code."""
    executable: Executable = HOOKS.executor("native")(task)
    if not shared.get("workers"):
        shared["workers"] = True
        HOOKS.put_workers_first()
    if getattr(executable, "calls_eager", False):
        raise Unfit  # it would only call the eager table
    return executable


def laid_out(
    body: Recording, leaves: Sequence[Any], given: dict[int, int], again: Callable[[], Any]
) -> tuple[tuple[Result | None, ...], list[Tensor]]:
    """Which outputs make results that lie in memory as eager ones do; programs' are contiguous."""
    results: list[Result | None] = []
    made: list[Tensor] = []
    for x, strides in zip(leaves, eager_strides(body, leaves, given, again), strict=True):
        if x is None:
            results.append(None)
            continue
        order = memory_order(x.shape, strides)
        inverse = None
        if order != [*range(x.ndim)]:
            x = body.run(x.permute, *order)
            inverse = tuple([order.index(d) for d in range(x.ndim)])
        results.append(Result(len(made), inverse))
        made.append(x)
    return tuple(results), made


def memory_order(shape: Sequence[int], strides: Sequence[int]) -> list[int]:
    """In which order dimensions lie in memory without gaps; that of single elements is no matter.

    >>> memory_order((2, 3, 1), (1, 2, 1)), memory_order((1, 3), (1, 1))
    ([1, 0, 2], [0, 1])
    """
    many = [d for d, size in enumerate(shape) if size != 1]
    moved = iter(sorted(many, key=lambda d: -strides[d]))
    order = [d if size == 1 else next(moved) for d, size in enumerate(shape)]
    dense = contiguous_strides([shape[d] for d in order])
    if any(strides[d] != dense[k] for k, d in enumerate(order) if shape[d] != 1):
        raise Unfit
    return order


def eager_strides(
    body: Recording, leaves: Sequence[Any], given: dict[int, int], again: Callable[[], Any]
) -> list[tuple[int, ...]]:
    """The strides that results have eagerly; where these are in doubt, it is tried (`again`)."""
    for x in leaves:
        if x is not None and (not is_tensor(x) or id(x) in given):
            raise Unfit
    if not any(x is not None and in_doubt(body, x) for x in leaves):
        return [() if x is None else x.stride() for x in leaves]
    with CONTEXT.having(grad_enabled=False, reference=True):
        tried, _ = flatten(again())
    return [() if x is None else x.stride() for x in tried]


def in_doubt(body: Recording, tensor: Tensor) -> bool:
    """Whether it is in doubt how a result lies in memory eagerly; products lie row after row."""
    if not body.doubts(tensor):
        return False
    node = body.value_of(tensor).node
    return node is None or node.record.family != "bilinear"


def root(value: Value) -> Value:
    """What a value is a view of."""
    while value.node is not None and value.node.record.is_view:
        value = value.node.inputs[0]
    return value


FRAGMENTS = Fragments()
DEFAULT_LISTENERS.append(FRAGMENTS.forget)  # recordings depend on the default dtype
HOOKS.fragments = FRAGMENTS

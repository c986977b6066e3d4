"""Complex numbers as pairs of reals, for targets whose kernels compute in reals alone.

Note [pairs]
    A complex value that loops make is never put in memory as such: operations on it become
    operations on its real and its imaginary part, which fuse like any others. Where somebody needs
    the complex value itself (a result, an operation without a rule here), the parts are put side
    by side where it lies. What comes in as complex is read part by part.

    Results are those of the eager table's formulas, NumPy's: products by four real ones, also of
    numbers whose other part is zero (so that an infinity times zero is NaN in the same places),
    quotients by Smith's way, magnitudes without overflow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from adjoint.engine.compiler.lower.joins import copies, nothing_packed
from adjoint.engine.compiler.memory.places import Place, as_reals
from adjoint.engine.compiler.target import Setting, Template
from adjoint.engine.core.dtype import DType
from adjoint.engine.core.operations.record import Record
from adjoint.engine.core.spec import Spec
from adjoint.engine.graph.ir import DataflowGraph, Node, Value
from adjoint.engine.graph.passes.dce import dce
from adjoint.engine.graph.passes.rewrite import GraphBuilder
from adjoint.engine.graph.sizes.extents import is_extent
from adjoint.engine.ops.create.creation import FULL
from adjoint.engine.ops.create.ranges import EYE
from adjoint.engine.ops.elementwise import records
from adjoint.engine.ops.elementwise.condition import WHERE
from adjoint.engine.ops.elementwise.logical import LOGICAL_AND, LOGICAL_OR
from adjoint.engine.ops.linalg.pairs import OF_PAIRS
from adjoint.engine.ops.products.matmul import MATMUL
from adjoint.engine.ops.shape.convert import CAST, CLONE
from adjoint.engine.ops.shape.join import STACK
from adjoint.engine.ops.shape.reinterpret import VIEW_AS_COMPLEX, VIEW_AS_REAL
from adjoint.engine.ops.shape.views import SLICE
from adjoint.engine.ops.signal.fft import FFT, IRFFT, RFFT, SPECTRUM

Part = Any  # a value, or a number
Pair = tuple[Part, Part]

# A rule of this pass: what puts elements together, adds them up or turns their sign does so with
# both parts alike; so does what only selects them.
READ_PAIRS = (SPECTRUM, *OF_PAIRS.values())  # what reads pairs of a graph's input where they lie
ALIKE = frozenset("cat stack tril triu sum neg add sub require view_scatter".split())


def is_complex(x: Any) -> bool:
    """Whether a node's input or output is a tensor of complex numbers."""
    return x.__class__ is Value and not x.host and x.spec.dtype.is_complex


def paired(graph: DataflowGraph, dtypes: frozenset[str]) -> DataflowGraph:
    """The graph with complex values as pairs, where that leaves fewer calls."""
    nodes = [n for n in graph.nodes if any(map(is_complex, (*n.inputs, *n.outputs)))]
    if not nodes:
        return graph
    pairs = Pairs(graph, dtypes)
    after = dce(pairs.finished())
    return after if calls(after) < calls(graph) else graph


def calls(graph: DataflowGraph) -> int:
    """How many nodes compute with complex values in memory; to read or to write parts is none."""
    given = set(graph.inputs)
    return sum(
        any(map(is_complex, (*node.inputs, *node.outputs)))
        for node in graph.nodes
        if node.record is not VIEW_AS_COMPLEX
        and not (node.record is VIEW_AS_REAL and node.inputs[0] in given)
    )


def reads_parts(graph: DataflowGraph, node: Node) -> bool:
    """Whether a view of a graph's input as reals is only read in loops, one part at a time.

    Then its strides count reals in a buffer of complex numbers, which nothing but loads may see,
    and what takes pairs in sizes that are known.
    """
    if node.record is not VIEW_AS_REAL or node.inputs[0] not in graph.inputs:
        return False
    seen, slices = node.outputs[0], {}
    if seen in graph.outputs:
        return False
    for user in graph.nodes:
        for x in user.inputs:
            if x is seen and user.record in READ_PAIRS:
                slices[seen] = user
            elif x is seen:
                if user.record is not SLICE or user.outputs[0] in graph.outputs:
                    return False
                slices[user.outputs[0]] = user
            elif x.__class__ is Value and x in slices and user.record is not CLONE:
                return False
    return bool(slices)


def writes_pairs(setting: Setting, node: Node, inputs: tuple[Any, ...]) -> bool:
    """Whether loops copy the reals that are to be seen as complex numbers."""
    return bool(setting.knows(inputs[0]))


def pair_parts(node: Node, out: Place) -> list[Place]:
    """Where the reals lie that are seen as complex numbers."""
    return [as_reals(out)]


TEMPLATES = {VIEW_AS_COMPLEX.name: Template(writes_pairs, nothing_packed, copies, pair_parts)}


class Pairs:
    """The graph being made, and the parts of values."""

    def __init__(self, graph: DataflowGraph, dtypes: frozenset[str]) -> None:
        self.source, self.dtypes = graph, dtypes
        self.builder = GraphBuilder(graph)
        self.parts: dict[Value, Pair] = {}  # by the old graph's values
        self.stacked: dict[Value, Pair] = {}  # real values of the new one that parts lie in
        self.together: dict[Pair, Value] = {}  # real values that parts were picked from
        for node in graph.nodes:
            self.builder.graph.where = node.where
            self.visit(node)

    def finished(self) -> DataflowGraph:
        """The new graph, complete."""
        for value in self.source.outputs:
            self.whole(value)
        return self.builder.finish(self.source)

    def visit(self, node: Node) -> None:
        concerned = any(map(is_complex, (*node.inputs, *node.outputs)))
        if not concerned and node.record is SLICE and self.takes_part(node):
            return
        if concerned and self.computes(node):
            rule = RULES.get(node.record.name) or (alike if is_alike(node) else None)
            if rule is not None:
                result = rule(self, node)
                if result is not None:
                    self.settle(node.outputs[0], result)
                    return
        for x in node.inputs:
            if x.__class__ is Value:
                self.whole(x)
        self.builder.keep(node, self.builder.translate(node.inputs))

    def computes(self, node: Node) -> bool:
        """Whether loops compute in what a node's parts are in."""
        real = {x.spec.dtype.to_real().name for x in (*node.inputs, *node.outputs) if is_complex(x)}
        return len(node.outputs) == 1 and real <= self.dtypes

    def settle(self, old: Value, result: Any) -> None:
        """Note what stands for a value: a pair for a complex one."""
        if is_complex(old):
            self.parts[old] = result
        else:
            self.builder.became[old] = result

    def takes_part(self, node: Node) -> bool:
        """Whether a slice takes one of two parts that lie side by side; then it is that one."""
        (x,) = self.builder.translate(node.inputs)
        pair = self.stacked.get(x) if x.__class__ is Value else None
        if pair is None:
            return False
        *others, last = node.params["index"]
        whole = [(0, n, 1) for n in x.spec.shape[:-1]]
        if others != whole or last not in (0, 1) or last.__class__ is not int:
            return False
        part = pair[last]
        if part.spec != node.outputs[0].spec:
            return False
        self.builder.became[node.outputs[0]] = part
        return True

    # -- operands -------------------------------------------------------------------------------

    def emit(self, record: Record, *inputs: Any, **params: Any) -> Value:
        return self.builder.emit(record, *inputs, **params)

    def now(self, x: Any) -> Any:
        """A real operand in the new graph."""
        return self.builder.translate((x,))[0]

    def whole(self, old: Value) -> None:
        """Make the complex value of a pair, if it has not been made."""
        if old not in self.parts or old in self.builder.became:
            return
        real = old.spec.dtype.to_real()
        together = self.together.get(self.parts[old])
        if together is None:
            parts = [self.filled(part, old.spec.shape, real, old.spec) for part in self.parts[old]]
            together = self.emit(STACK, *parts, dim=len(old.spec.shape))
        self.builder.became[old] = self.emit(VIEW_AS_COMPLEX, together)

    def filled(self, part: Part, shape: Any, real: DType, like: Spec) -> Value:
        """A part as a tensor of the whole shape."""
        if part.__class__ is not Value or part.host:
            return self.emit(FULL, part, shape=shape, dtype=real, device=like.device, strides=None)
        if part.spec.shape == shape and part.spec.dtype is real:
            return part
        zeros = self.emit(FULL, 0.0, shape=shape, dtype=real, device=like.device, strides=None)
        return self.emit(records.ADD, part, zeros)

    def pair(self, x: Any, real: DType) -> Pair:
        """The parts of an operand, computed in `real`."""
        if x.__class__ is not Value or x.host:
            if x.__class__ is complex:
                return x.real, x.imag
            return x, 0.0
        if not is_complex(x):
            return self.cast(self.now(x), real), 0.0
        if x not in self.parts:
            seen = self.emit(VIEW_AS_REAL, self.now(x))
            self.parts[x] = self.loaded(seen, 0), self.loaded(seen, 1)
        a, b = self.parts[x]
        return self.cast(a, real), self.cast(b, real)

    def tensors(self, x: Any) -> Pair:
        """The parts of a complex value as tensors of its shape; of others, twice the same."""
        if not is_complex(x):
            return self.now(x), self.now(x)
        real = x.spec.dtype.to_real()
        a, b = (self.filled(part, x.spec.shape, real, x.spec) for part in self.pair(x, real))
        return a, b

    def picked(self, seen: Value, which: int) -> Value:
        """One of the two in the last dimension."""
        return self.emit(SLICE, seen, index=(*[(0, n, 1) for n in seen.spec.shape[:-1]], which))

    def loaded(self, seen: Value, which: int) -> Value:
        """The same, so that nothing but loops reads what it is picked from (`reads_parts`)."""
        return self.emit(CLONE, self.picked(seen, which), strides=None)

    def cast(self, part: Part, real: DType) -> Part:
        if part.__class__ is not Value or part.spec.dtype is real:
            return part
        return self.emit(CAST, part, dtype=real)

    def operands(self, node: Node) -> list[Pair]:
        """The parts of a node's operands, in what its complex ones promote to."""
        dtypes = [v.spec.dtype for v in (*node.outputs, *node.inputs) if is_complex(v)]
        real = max((dtype.to_real() for dtype in dtypes), key=lambda dtype: dtype.itemsize)
        return [self.pair(x, real) for x in node.inputs]


# -- rules ----------------------------------------------------------------------------------------
# Each gives the parts of a node's result, or a real result; None: it stays as it is.

Rule = Callable[[Pairs, Node], Any]
RULES: dict[str, Rule] = {}


def rule_of(record: Record) -> Callable[[Rule], Rule]:
    """Register a rule."""

    def register(rule: Rule) -> Rule:
        RULES[record.name] = rule
        return rule

    return register


def arithmetic(p: Pairs, record: Record, x: Part, y: Part) -> Part:
    """x op y, of values and numbers."""
    if x.__class__ is Value or y.__class__ is Value:
        return p.emit(record, x, y)
    one, other = float(x), float(y)
    return {"add": one + other, "sub": one - other, "mul": one * other}[record.name]


def is_alike(node: Node) -> bool:
    """Whether `alike` is its rule."""
    return node.record.selects or node.record.name in ALIKE


def alike(p: Pairs, node: Node) -> Pair | None:
    """The operation on real parts, and on imaginary ones."""
    name = node.record.name
    if name in ("add", "sub"):
        (a, b), (c, d) = p.operands(node)
        return arithmetic(p, node.record, a, c), arithmetic(p, node.record, b, d)
    if name == "clone" and node.params.get("strides", "same") != "same":
        return None
    joined = name in ("cat", "stack", "view_scatter")
    if joined and not all(map(is_complex, node.inputs)):
        return None  # one part is put into another's place
    real, imaginary = zip(*[p.tensors(x) for x in node.inputs], strict=True)
    return (
        p.emit(node.record, *real, **node.params),
        p.emit(node.record, *imaginary, **node.params),
    )


@rule_of(records.MUL)
def mul(p: Pairs, node: Node) -> Pair:
    (a, b), (c, d) = p.operands(node)
    return product(p, records.MUL, a, b, c, d)


def product(p: Pairs, multiply: Record, a: Part, b: Part, c: Part, d: Part) -> Pair:
    """(a + bi)(c + di) by four products."""

    def times(x: Part, y: Part) -> Part:
        return p.emit(multiply, x, y) if multiply is MATMUL else arithmetic(p, multiply, x, y)

    real = arithmetic(p, records.SUB, times(a, c), times(b, d))
    return real, arithmetic(p, records.ADD, times(a, d), times(b, c))


@rule_of(MATMUL)
def matmul(p: Pairs, node: Node) -> Pair | None:
    if not all(map(is_complex, node.inputs)):
        return None
    (a, b), (c, d) = map(p.tensors, node.inputs)
    return product(p, MATMUL, a, b, c, d)


@rule_of(records.DIV)
def div(p: Pairs, node: Node) -> Pair:
    """Smith's way, as NumPy goes: by the larger part of the divisor."""
    (a, b), (c, d) = p.operands(node)
    out, divisor = node.outputs[0].spec, node.inputs[1]
    shape = divisor.spec.shape if divisor.__class__ is Value else ()
    real = out.dtype.to_real()
    c, d = (p.filled(part, shape, real, out) for part in (c, d))
    larger, smaller = p.emit(records.ABS, c), p.emit(records.ABS, d)
    by_real = p.emit(records.GE, larger, smaller)
    zero = p.emit(LOGICAL_AND, p.emit(records.EQ, larger, 0.0), p.emit(records.EQ, smaller, 0.0))
    top, bottom = p.emit(WHERE, by_real, d, c), p.emit(WHERE, by_real, c, d)
    rate = p.emit(records.DIV, top, bottom)
    scale = p.emit(records.DIV, 1.0, p.emit(records.ADD, bottom, p.emit(records.MUL, top, rate)))
    x, y = (p.filled(part, out.shape, real, out) for part in (a, b))
    ratio_x, ratio_y = p.emit(records.MUL, x, rate), p.emit(records.MUL, y, rate)
    up = p.emit(WHERE, by_real, p.emit(records.ADD, x, ratio_y), p.emit(records.ADD, ratio_x, y))
    down = p.emit(WHERE, by_real, p.emit(records.SUB, y, ratio_x), p.emit(records.SUB, ratio_y, x))
    quotients = (p.emit(records.MUL, up, scale), p.emit(records.MUL, down, scale))
    return tuple(
        p.emit(WHERE, zero, p.emit(records.DIV, part, larger), quotient)
        for part, quotient in zip((x, y), quotients, strict=True)
    )  # type: ignore[return-value]


@rule_of(records.CONJ)
def conj(p: Pairs, node: Node) -> Pair:
    ((a, b),) = p.operands(node)
    return a, p.emit(records.NEG, b) if b.__class__ is Value else -b


@rule_of(records.ABS)
def absolute(p: Pairs, node: Node) -> Value:
    return p.emit(records.HYPOT, *p.tensors(node.inputs[0]))


@rule_of(records.ANGLE)
def angle(p: Pairs, node: Node) -> Value:
    a, b = p.tensors(node.inputs[0])
    return p.emit(records.ATAN2, b, a)


@rule_of(records.EQ)
def equal(p: Pairs, node: Node) -> Value | None:
    (a, b), (c, d) = p.operands(node)
    return both(p, node, LOGICAL_AND, [compared(p, records.EQ, *xs) for xs in ((a, c), (b, d))])


@rule_of(records.NE)
def unequal(p: Pairs, node: Node) -> Value | None:
    (a, b), (c, d) = p.operands(node)
    return both(p, node, LOGICAL_OR, [compared(p, records.NE, *xs) for xs in ((a, c), (b, d))])


def both(p: Pairs, node: Node, record: Record, parts: Sequence[Part]) -> Value | None:
    """`x and y`, or `x or y`, of truth values, of which one may be known without any elements."""
    left = [part for part in parts if part.__class__ is Value]
    if len(left) == 2:
        return p.emit(record, *left)
    decides = (record is LOGICAL_OR) in [part for part in parts if part.__class__ is bool]
    if decides or not left or left[0].spec.shape != node.outputs[0].spec.shape:
        return None
    return left[0]


def compared(p: Pairs, record: Record, x: Part, y: Part) -> Part:
    """x == y, or x != y, of values and numbers."""
    if x.__class__ is Value or y.__class__ is Value:
        return p.emit(record, x, y)
    return bool(x == y) == (record is records.EQ)


@rule_of(records.EXP)
def exp(p: Pairs, node: Node) -> Pair:
    """By the root of the size, twice, which overflows only where the result does.

    C's tables say what infinities give: nothing times any angle is nothing, an infinity whose
    angle is unknown is one.
    """
    return exp_of(p, *p.tensors(node.inputs[0]))


def exp_of(p: Pairs, a: Value, b: Value) -> Pair:
    """The exponential of a + bi."""
    root = p.emit(records.EXP, p.emit(records.MUL, a, 0.5))
    cosine, sine = (
        p.emit(records.MUL, p.emit(records.MUL, root, p.emit(of, b)), root)
        for of in (records.COS, records.SIN)
    )
    nothing = p.emit(records.EQ, root, 0.0)
    unknown = p.emit(records.NE, p.emit(records.SUB, b, b), 0.0)
    endless = p.emit(LOGICAL_AND, p.emit(records.EQ, a, float("inf")), unknown)
    real = p.emit(WHERE, nothing, 0.0, p.emit(WHERE, endless, float("inf"), cosine))
    imaginary = p.emit(WHERE, nothing, 0.0, sine)
    return real, p.emit(WHERE, p.emit(records.EQ, b, 0.0), b, imaginary)


@rule_of(records.COMPLEX)
def complex_(p: Pairs, node: Node) -> Pair | None:
    out = node.outputs[0].spec
    real = out.dtype.to_real()
    parts = [p.cast(p.now(x), real) for x in node.inputs]
    if any(part.__class__ is not Value for part in parts):
        return None
    a, b = (p.filled(part, out.shape, real, out) for part in parts)
    return a, b


@rule_of(CAST)
def cast(p: Pairs, node: Node) -> Pair | None:
    out = node.outputs[0]
    if not is_complex(out):
        return None  # which warns, or drops a part
    real = out.spec.dtype.to_real()
    if is_complex(node.inputs[0]):
        return p.pair(node.inputs[0], real)
    zero = p.filled(0.0, out.spec.shape, real, out.spec)
    return p.cast(p.now(node.inputs[0]), real), zero


@rule_of(FULL)
def full(p: Pairs, node: Node) -> Pair | None:
    (number,) = node.inputs
    spec = node.outputs[0].spec
    if not isinstance(number, (int, float, complex)):
        return None  # one of the host's
    value, real = complex(number), spec.dtype.to_real()
    return tuple(p.filled(part, spec.shape, real, spec) for part in (value.real, value.imag))  # type: ignore[return-value]


@rule_of(EYE)
def eye(p: Pairs, node: Node) -> Pair:
    spec = node.outputs[0].spec
    real = spec.dtype.to_real()
    ones = p.emit(EYE, **{**node.params, "dtype": real})
    return ones, p.filled(0.0, spec.shape, real, spec)


@rule_of(WHERE)
def where(p: Pairs, node: Node) -> Pair:
    condition = p.now(node.inputs[0])
    real = node.outputs[0].spec.dtype.to_real()
    out = node.outputs[0].spec
    (a, b), (c, d) = (p.pair(x, real) for x in node.inputs[1:])
    if not any(part.__class__ is Value for part in (b, d)):
        d = p.filled(d, out.shape, real, out)  # two numbers would have a dtype of their own
    if not any(part.__class__ is Value for part in (a, c)):
        c = p.filled(c, out.shape, real, out)
    return p.emit(WHERE, condition, a, c), p.emit(WHERE, condition, b, d)


@rule_of(VIEW_AS_REAL)
def as_real(p: Pairs, node: Node) -> Value:
    (x,) = node.inputs
    pair = p.tensors(x)
    together = p.together.get(pair) or p.emit(STACK, *pair, dim=len(x.spec.shape))
    p.stacked[together] = pair
    return together


@rule_of(VIEW_AS_COMPLEX)
def as_complex(p: Pairs, node: Node) -> Pair:
    x = p.now(node.inputs[0])
    return p.stacked.get(x) or parts_of(p, x)


# -- Fourier transforms ---------------------------------------------------------------------------


def spectrum(p: Pairs, x: Value, params: dict[str, Any], **more: Any) -> Value:
    """One transform of pairs."""
    return p.emit(SPECTRUM, x, norm=params["norm"], **more)


def side_by_side(p: Pairs, x: Value) -> Value:
    """A complex value's parts along a further dimension."""
    if x in p.parts and p.parts[x] in p.together:
        return p.together[p.parts[x]]
    if x in p.source.inputs and not any(map(is_extent, x.spec.shape)):
        return p.emit(VIEW_AS_REAL, p.now(x))
    return p.emit(STACK, *p.tensors(x), dim=len(x.spec.shape))


def parts_of(p: Pairs, seen: Value) -> Pair:
    """Both of what lies along the last dimension."""
    pair = p.picked(seen, 0), p.picked(seen, 1)
    p.together[pair] = seen
    return pair


def has_elements(node: Node) -> bool:
    return 0 not in node.inputs[0].spec.shape


@rule_of(FFT)
def fourier(p: Pairs, node: Node) -> Pair | None:
    (x,), params = node.inputs, node.params
    if not has_elements(node):
        return None
    seen = side_by_side(p, x)
    for dim in params["dims"]:
        n, inverse = x.spec.shape[dim], params["inverse"]
        seen = spectrum(p, seen, params, way="whole", dim=dim, n=n, inverse=inverse)
    return parts_of(p, seen)


@rule_of(RFFT)
def half_fourier(p: Pairs, node: Node) -> Pair | None:
    (x,), dim = node.inputs, node.params["dim"]
    if not has_elements(node):
        return None
    n, given = x.spec.shape[dim], p.now(x)
    return parts_of(p, spectrum(p, given, node.params, way="half", dim=dim, n=n, inverse=False))


@rule_of(IRFFT)
def back_fourier(p: Pairs, node: Node) -> Value | None:
    (x,), dim, n = node.inputs, node.params["dim"], node.params["n"]
    if not has_elements(node):
        return None
    seen = side_by_side(p, x)
    return spectrum(p, seen, node.params, way="back", dim=dim, n=n, inverse=True)

"""The templates of what programs borrow from NumPy and SciPy (Note [borrowed loops])."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from adjoint.engine.backends.llvm.ir.machine import is_this_process
from adjoint.engine.backends.llvm.runtime import symbols
from adjoint.engine.backends.llvm.templates.borrowed.kernel import LoopCall, LoopForm, LoopWords
from adjoint.engine.compiler.lower.indexed import Fault
from adjoint.engine.compiler.memory.places import ARENA, Place, PlannedBuffer, row_major
from adjoint.engine.compiler.schedule.steps import (
    Address,
    Launch,
    NamedAddress,
    Status,
    sized,
    whole,
)
from adjoint.engine.compiler.target import LayoutOf, Setting, Template
from adjoint.engine.core.errors import LinAlgError
from adjoint.engine.core.spec import contiguous_strides
from adjoint.engine.graph.ir import Node, Value
from adjoint.engine.graph.sizes.extents import is_extent
from adjoint.engine.ops.common.checks import NUMBER
from adjoint.engine.ops.linalg.failures import NO_EIGENVALUES, NOT_FINITE, UNFINISHED

CHARS = {"float32": "f", "float64": "d"}
KINDS = {"float32": "f32", "float64": "f64"}
# Rows of a single matrix from which on the threads of NumPy's own library are worth a call.
LARGE = 384
SHARE = 64  # elements of a special function that are worth a worker
COST = 60.0  # of one of them, in element operations

# A record -> the function of SciPy's.
SPECIAL = {
    "i0": "i0", "i1": "i1", "i0e": "i0e", "i1e": "i1e",
    "igamma": "gammainc", "igammac": "gammaincc",
    "bessel_j0": "j0", "bessel_j1": "j1", "bessel_y0": "y0", "bessel_y1": "y1",
    "modified_bessel_k0": "k0", "modified_bessel_k1": "k1",
    "scaled_modified_bessel_k0": "k0e", "scaled_modified_bessel_k1": "k1e", "zeta": "_zeta",
    "airy_ai": "airy", "airy_ai_prime": "airy",
}  # fmt: skip
# Of a function with several results: how many, and which of them it is.
RESULTS = {"airy_ai": (4, 0), "airy_ai_prime": (4, 1)}


@dataclass(frozen=True, slots=True)
class Factor:
    """A generalised function of NumPy's: by a node's parameters, its name; its sizes; its dtypes.

    `kinds` are NumPy's characters of operands and results, by the dtype of the matrix.
    """

    function: Callable[[dict[str, Any]], str]
    sizes: Callable[[Sequence[int]], tuple[int, ...]]
    kinds: dict[str, str]
    called: str
    told: int  # the place that holds NaN where nothing was found
    work: float  # multiply-adds for each cube of a side
    unfit: Fault | None = None  # of matrices that are not finite, where it names none of a batch
    pairs: bool = False  # whether results are complex numbers, as pairs


FACTORS = {
    "eigh": Factor(
        lambda params: "eigh_up" if params["upper"] else "eigh_lo",
        lambda shape: (shape[-1],),
        {"float32": "f->ff", "float64": "d->dd"},
        "linalg.eigh", told=1, work=9,
    ),
    "svd": Factor(
        lambda params: "svd_f" if params["full_matrices"] else "svd_s",
        lambda shape: (*shape[-2:], min(shape[-2:])),
        {"float64": "d->ddd"},
        "linalg.svd", told=2, work=20,
    ),
    "eig_pairs": Factor(
        lambda params: "eig",
        lambda shape: (shape[-1],),
        {"float32": "f->FF", "float64": "d->DD"},
        "linalg.eig", told=1, work=25, unfit=Fault(RuntimeError, NO_EIGENVALUES), pairs=True,
    ),
}  # fmt: skip


def is_plain(x: Any) -> bool:
    """Whether an operand is a tensor of floats on the CPU, of known sizes and not empty."""
    return (
        isinstance(x, Value)
        and not x.host
        and x.spec.dtype.name in CHARS
        and x.spec.device.type == "cpu"
        and not any(map(is_extent, x.spec.shape))
        and 0 not in x.spec.shape
    )


def packed(layout: LayoutOf, inputs: tuple[Any, ...]) -> set[int]:
    """Operands are read in row-major order."""
    return {i for i, x in enumerate(inputs) if not layout(x).contiguous}


def launch_of(
    form: LoopForm, loop: tuple[str, str, str], words: LoopWords, rest: list[Any], **about: Any
) -> Launch:
    """A call of a loop on places that are all there is to it."""
    words.function, words.data = map(NamedAddress, symbols.names_of(*loop))
    return Launch(
        function=form.function,
        text=lambda name: LoopCall(form).text(name),
        words=[*words.listed(), *rest],
        **about,
    )


def address(place: Place) -> Address:
    """Where a place begins."""
    return Address(place.buffer, place.offset * place.buffer.dtype.itemsize)


# -- factors of matrices ------------------------------------------------------------------------


def loop_of_factor(node: Node, x: Value) -> tuple[str, str, str]:
    """Where a factor's loop is found."""
    factor = FACTORS[node.record.name]
    kinds = factor.kinds.get(x.spec.dtype.name, "")
    return symbols.MATRICES, factor.function(node.params), kinds


def accepts_factor(setting: Setting, node: Node, inputs: tuple[Any, ...]) -> bool:
    """Real matrices, unless it is one that is large."""
    (x,) = inputs
    if not is_plain(x) or not is_this_process():
        return False
    shape = x.spec.shape
    if prod(shape[:-2]) == 1 and min(shape[-2:]) >= LARGE:
        return False
    return symbols.loop_of(*loop_of_factor(node, x)) is not None


def factor_steps(
    setting: Setting, node: Node, operands: list[Place], results: list[Place]
) -> list[Launch]:
    """One launch; matrices are dealt out among the workers."""
    spec, factor = node.inputs[0].spec, FACTORS[node.record.name]
    *batch, m, n = spec.shape
    count, item = prod(batch), spec.dtype.itemsize
    places = [*operands, *results]
    shapes = [v.spec.shape[len(batch) :] for v in (*node.inputs, *node.outputs)]
    between = [item * prod(shape) for shape in shapes]
    along = [item * n for n in contiguous_strides(shapes[0])]
    for shape in shapes[1:]:
        steps = contiguous_strides(shape)
        along += [item * n for n in (steps[:-1] if factor.pairs else steps)]
    sizes = factor.sizes(spec.shape)
    kind = KINDS[spec.dtype.name]
    form = LoopForm(len(places), len(sizes), len(between) + len(along), kind, factor.told)
    which = f"(Batch element {NUMBER}): " if batch else ""
    words = LoopWords(
        0, 0, count,
        given=m * n, found=prod(shapes[factor.told]),
        unfit=factor.unfit or Fault(LinAlgError, f"{factor.called}: {which}{NOT_FINITE}"),
        failed=Fault(LinAlgError, f"{factor.called}: {which}{UNFINISHED}"),
        status=Status(),
    )  # fmt: skip
    return [
        launch_of(
            form,
            loop_of_factor(node, node.inputs[0]),
            words,
            [*map(address, places), *between, *along, *sizes],
            reads=(whole(operands[0].buffer),),
            writes=tuple(whole(place.buffer) for place in results),
            pieces=count,
            cost=count * factor.work * m * n * min(m, n),
            label=sized(node.record.name, count, m, n),
        )
    ]


# -- special functions --------------------------------------------------------------------------


def loop_of_function(node: Node) -> tuple[str, str, str]:
    """Where a special function's loop is found."""
    function = SPECIAL[node.record.name]
    char = CHARS.get(node.outputs[0].spec.dtype.name, "")
    module = symbols.OWN_SPECIAL if function.startswith("_") else symbols.SPECIAL
    results, _ = RESULTS.get(node.record.name, (1, 0))
    return module, function, f"{char * len(node.inputs)}->{char * results}"


def accepts_function(setting: Setting, node: Node, inputs: tuple[Any, ...]) -> bool:
    """Floats of one dtype, each operand as large as the result or a single number."""
    out = node.outputs[0].spec
    for x in inputs:
        if not is_plain(x) or x.spec.dtype is not out.dtype:
            return False
        if prod(x.spec.shape) != 1 and x.spec.shape != out.shape:
            return False
    return is_this_process() and symbols.loop_of(*loop_of_function(node)) is not None


def function_steps(
    setting: Setting, node: Node, operands: list[Place], results: list[Place]
) -> list[Launch]:
    """One launch; elements are dealt out among the workers."""
    spec, (several, which) = node.outputs[0].spec, RESULTS.get(node.record.name, (1, 0))
    count = prod(spec.shape)
    # Results that nobody wants are written to one place, each worker's to its part of it.
    unread = PlannedBuffer(ARENA, spec.dtype, count, name="unread") if several > 1 else None
    others = [] if unread is None else [row_major(unread, spec.shape)]
    found = [results[0] if k == which else others[0] for k in range(several)]
    places = [*operands, *found]
    steps = [0 if prod(place.shape) < count else spec.dtype.itemsize for place in places]
    return [
        launch_of(
            LoopForm(len(places), 0, len(places)),
            loop_of_function(node),
            LoopWords(0, 0, count),
            [*map(address, places), *steps],
            reads=tuple(whole(place.buffer) for place in operands),
            writes=tuple(whole(place.buffer) for place in (results[0], *others)),
            pieces=max(1, count // SHARE),
            cost=count * COST,
            label=sized(node.record.name, count),
        )
    ]


TEMPLATES = {
    **dict.fromkeys(FACTORS, Template(accepts_factor, packed, factor_steps)),
    **dict.fromkeys(SPECIAL, Template(accepts_function, packed, function_steps)),
}

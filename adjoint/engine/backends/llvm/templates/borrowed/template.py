"""The templates of what programs borrow from NumPy and SciPy (Note [borrowed loops])."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

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
from adjoint.engine.core.dtype import DType
from adjoint.engine.core.errors import LinAlgError
from adjoint.engine.core.operations.record import REGISTRY
from adjoint.engine.core.spec import Spec, contiguous_strides
from adjoint.engine.graph.ir import Node, Value
from adjoint.engine.graph.sizes.extents import is_extent
from adjoint.engine.ops.common.checks import NUMBER
from adjoint.engine.ops.linalg.failures import NO_EIGENVALUES, NOT_FINITE, UNFINISHED
from adjoint.engine.ops.linalg.pairs import as_complex

CHARS = {"float32": "f", "float64": "d"}
KINDS = {"float32": "f32", "float64": "f64"}
# Rows of a single matrix from which on the threads of NumPy's own library are worth it.
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


FACTORS = {
    "eigh": Factor(
        lambda params: "eigh_up" if params["upper"] else "eigh_lo",
        lambda shape: (shape[-1],),
        {"float32": "f->ff", "float64": "d->dd", "complex64": "F->fF", "complex128": "D->dD"},
        "linalg.eigh", told=1, work=9,
    ),
    "eigvalsh": Factor(
        lambda params: "eigvalsh_up" if params["upper"] else "eigvalsh_lo",
        lambda shape: (shape[-1],),
        {"float32": "f->f", "float64": "d->d", "complex64": "F->f", "complex128": "D->d"},
        "linalg.eigvalsh", told=1, work=2,
    ),
    "svd": Factor(
        lambda params: "svd_f" if params["full_matrices"] else "svd_s",
        lambda shape: (*shape[-2:], min(shape[-2:])),
        {"float32": "f->fff", "float64": "d->ddd", "complex64": "F->FfF", "complex128": "D->DdD"},
        "linalg.svd", told=2, work=20,
    ),
    "svdvals": Factor(
        lambda params: "svd",
        lambda shape: (*shape[-2:], min(shape[-2:])),
        {"float32": "f->f", "float64": "d->d", "complex64": "F->f", "complex128": "D->d"},
        "linalg.svd", told=1, work=8,
    ),
    "eig_pairs": Factor(
        lambda params: "eig",
        lambda shape: (shape[-1],),
        {"float32": "f->FF", "float64": "d->DD"},
        "linalg.eig", told=1, work=25, unfit=Fault(RuntimeError, NO_EIGENVALUES),
    ),
    "eig": Factor(
        lambda params: "eig",
        lambda shape: (shape[-1],),
        {"complex128": "D->DD"},
        "linalg.eig", told=1, work=50, unfit=Fault(RuntimeError, NO_EIGENVALUES),
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


class Factored(NamedTuple):
    """What a node factors: by which of the functions, and what its values are as matrices."""

    factor: Factor
    specs: tuple[Spec, ...]  # of operand and results, complex where they are
    loop: tuple[str, str, str]  # where it is found


def factored(node: Node, x: Value) -> Factored | None:
    """What a node asks for, of reals or of pairs of them; None where it is nothing known."""
    params = dict(node.params)
    paired = "function" in params
    name = params.pop("function") if paired else node.record.name
    factor = FACTORS.get(name)
    if factor is None:
        return None
    params.pop("pairs", None)
    given = as_complex(x.spec) if paired else x.spec
    found = [as_complex(v.spec) if name == "eig_pairs" else v.spec for v in node.outputs]
    if paired:
        specs = REGISTRY[name].infer(given, **params)
        found = [specs] if isinstance(specs, Spec) else specs
    loop = symbols.MATRICES, factor.function(params), factor.kinds.get(given.dtype.name, "")
    return Factored(factor, (given, *found), loop)


def accepts_factor(setting: Setting, node: Node, inputs: tuple[Any, ...]) -> bool:
    """Matrices of known sizes."""
    x = inputs[0]
    problem = factored(node, x) if is_plain(x) and is_this_process() else None
    return problem is not None and symbols.loop_of(*problem.loop) is not None


def factor_steps(
    setting: Setting, node: Node, operands: list[Place], results: list[Place]
) -> list[Launch]:
    """One launch; matrices are dealt out among the workers."""
    problem = factored(node, node.inputs[0])
    assert problem is not None
    factor, (spec, *_) = problem.factor, problem.specs
    *batch, m, n = spec.shape
    count = prod(batch)
    places = [*operands, *results]
    shapes = [v.shape[len(batch) :] for v in problem.specs]
    items = [v.dtype.itemsize for v in problem.specs]
    between = [item * prod(shape) for item, shape in zip(items, shapes, strict=True)]
    along = [
        item * step
        for item, shape in zip(items, shapes, strict=True)
        for step in contiguous_strides(shape)
    ]
    sizes = factor.sizes(spec.shape)
    real: DType = node.inputs[0].spec.dtype
    form = LoopForm(
        len(places), len(sizes), len(between) + len(along), KINDS[real.name], factor.told
    )
    which = f"(Batch element {NUMBER}): " if batch else ""
    words = LoopWords(
        0, 0, count,
        given=between[0] // real.itemsize, found=between[factor.told] // real.itemsize,
        unfit=factor.unfit or Fault(LinAlgError, f"{factor.called}: {which}{NOT_FINITE}"),
        failed=Fault(LinAlgError, f"{factor.called}: {which}{UNFINISHED}"),
        status=Status(),
    )  # fmt: skip
    if count == 1 and min(m, n) >= LARGE:
        words.threads = NamedAddress(symbols.NUMPY_THREADS)
    starts = [Address(place.buffer, place.offset * real.itemsize) for place in places]
    return [
        launch_of(
            form,
            problem.loop,
            words,
            [*starts, *between, *along, *sizes],
            reads=(whole(operands[0].buffer),),
            writes=tuple(whole(place.buffer) for place in results),
            pieces=count,
            cost=count * factor.work * m * n * min(m, n),
            label=sized(problem.loop[1], count, m, n),
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


FACTOR_TEMPLATE = Template(accepts_factor, packed, factor_steps)
TEMPLATES = {
    **dict.fromkeys(FACTORS, FACTOR_TEMPLATE),
    **dict.fromkeys(SPECIAL, Template(accepts_function, packed, function_steps)),
}

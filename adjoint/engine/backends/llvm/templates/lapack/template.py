"""The templates of linear algebra by routines of LAPACK (Note [routines])."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from typing import Any

from adjoint.engine.backends.llvm.ir.machine import is_this_process
from adjoint.engine.backends.llvm.runtime import symbols
from adjoint.engine.backends.llvm.runtime.routines import BLAS, LAPACK, routine_of
from adjoint.engine.backends.llvm.templates.factors import template as small
from adjoint.engine.backends.llvm.templates.factors.further import is_known
from adjoint.engine.backends.llvm.templates.lapack import elimination, kernel
from adjoint.engine.backends.llvm.templates.lapack.kernel import RoutineWords, RoutineWriter
from adjoint.engine.compiler.lower.indexed import Fault
from adjoint.engine.compiler.memory.places import ARENA, Place, PlannedBuffer
from adjoint.engine.compiler.schedule.steps import (
    Address,
    Launch,
    NamedAddress,
    Status,
    sized,
    whole,
)
from adjoint.engine.compiler.target import LayoutOf, Setting, Template
from adjoint.engine.core.dtype import DType, int32
from adjoint.engine.graph.ir import Node, Value
from adjoint.engine.ops.common.checks import PLACE_BITS
from adjoint.engine.ops.linalg.failures import SINGULAR, WRONG_PIVOTS
from adjoint.engine.ops.linalg.pairs import OF_PAIRS

KINDS = {"float32": "f32", "float64": "f64"}
PREFIX = {("f32", 1): "s", ("f64", 1): "d", ("f32", 2): "c", ("f64", 2): "z"}
# Rows of a single matrix from which on the library's threads are worth it: they go on spinning for
# a while, where workers wait for their cores (Note [two sets of threads]).
THREADED = 768
CHUNK, CHUNKS = 48, 16  # columns of a right side that are worth a worker; pieces of it at most
BLOCK = 64  # columns that LAPACK treats together, in whose number it wants memory


@dataclass(frozen=True, slots=True)
class MatrixProblem:
    """What a node asks for."""

    name: str
    params: dict[str, Any]
    kind: str
    parts: int  # 2: of complex numbers
    shapes: tuple[tuple[int, ...], ...]  # of the operands

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the matrix."""
        return self.shapes[1 if self.name == "cholesky_solve" else 0]

    @property
    def count(self) -> int:
        """How many matrices there are."""
        return prod(self.shape[:-2])

    @property
    def wide(self) -> int:
        """Columns of the right side, or of the orthogonal factor."""
        m, n = self.shape[-2:]
        if self.name == "qr":
            return m if self.params["mode"] == "complete" else min(m, n)
        if self.name == "cholesky_solve":
            return self.shapes[0][-1]
        return self.shapes[-1][-1]

    @property
    def chunk(self) -> int:
        """Columns of a right side that are solved together."""
        return max(CHUNK, -(-self.wide // CHUNKS))

    @property
    def chunks(self) -> int:
        """How many such there are."""
        return -(-self.wide // self.chunk)

    @property
    def hermitian(self) -> bool:
        """Whether a complex matrix is equal to its adjoint, not to its transpose."""
        return bool(self.params.get("hermitian")) and self.parts == 2

    def routine(self, stem: str) -> tuple[str, str]:
        """A routine for these numbers."""
        name = PREFIX[self.kind, self.parts] + stem
        return BLAS if stem == "trsm" else LAPACK, name


@dataclass(frozen=True, slots=True)
class Method:
    """How a problem is solved: the kernel's writer and its name, routines, numbers of memory."""

    writer: Callable[[MatrixProblem], tuple[str, Callable[[], RoutineWriter]]]
    routines: Callable[[MatrixProblem], tuple[str, ...]]
    room: Callable[[MatrixProblem], int]
    work: Callable[[int, int, int], float]  # multiply-adds, of rows, columns and `wide`


def _plain(
    name: str, make: Any
) -> Callable[[MatrixProblem], tuple[str, Callable[[], RoutineWriter]]]:
    return lambda x: (name, partial(make, x.kind, x.parts))


def _sided(
    name: str, make: Any
) -> Callable[[MatrixProblem], tuple[str, Callable[[], RoutineWriter]]]:
    """Of a triangle."""

    def writer(x: MatrixProblem) -> tuple[str, Callable[[], RoutineWriter]]:
        upper = bool(x.params["upper"])
        stem = f"{name}_{'upper' if upper else 'lower'}"
        more = {
            called: bool(x.params[given])
            for given, called in (("unit", "unit"), ("check", "checked"))
            if given in x.params
        }
        stem = "_".join([stem, *[called for called, holds in more.items() if holds]])
        return stem, partial(make, x.kind, x.parts, upper=upper, **more)

    return writer


def _no_room(x: MatrixProblem) -> int:
    return 0


def _cholesky_room(x: MatrixProblem) -> int:
    return 0 if x.params["check"] or x.params["upper"] else x.shape[-1] ** 2


def _system_room(x: MatrixProblem) -> int:
    n = x.shape[-1]
    return n * n + n * x.wide + n


def _orthogonal_room(x: MatrixProblem) -> int:
    m, n = x.shape[-2:]
    return m * max(n, x.wide) + min(m, n) + BLOCK * max(n, x.wide)


def _elimination(x: MatrixProblem) -> tuple[str, ...]:
    return ("getrf", "getrs")


METHODS: dict[str, Method] = {
    "cholesky": Method(
        _sided("cholesky", kernel.CholeskyRoutine),
        lambda x: ("potrf",), _cholesky_room, lambda m, n, k: n**3 / 6,
    ),
    "triangular_solve": Method(
        _sided("triangular", kernel.TriangularRoutine),
        lambda x: ("trsm",), _no_room, lambda m, n, k: n * n * k / 2,
    ),
    "cholesky_solve": Method(
        _sided("definite", kernel.DefiniteRoutine),
        lambda x: ("trsm",), _no_room, lambda m, n, k: n * n * k,
    ),
    "solve": Method(
        _plain("solve", partial(elimination.SystemRoutine, what="solve")),
        _elimination, _system_room, lambda m, n, k: n**3 / 3 + n * n * k,
    ),
    "inv": Method(
        _plain("inv", partial(elimination.SystemRoutine, what="inv")),
        _elimination, _system_room, lambda m, n, k: n**3 * 4 / 3,
    ),
    "det": Method(
        _plain("det", partial(elimination.DeterminantRoutine, logarithm=False)),
        _elimination, lambda x: x.shape[-1] * (x.shape[-1] + 1), lambda m, n, k: n**3 / 3,
    ),
    "slogdet": Method(
        _plain("slogdet", partial(elimination.DeterminantRoutine, logarithm=True)),
        _elimination, lambda x: x.shape[-1] * (x.shape[-1] + 1), lambda m, n, k: n**3 / 3,
    ),
    "lu_factor": Method(
        _plain("lu", elimination.LowerUpperRoutine),
        _elimination, lambda x: prod(x.shape[-2:]), lambda m, n, k: m * n * min(m, n) / 2,
    ),
    "qr": Method(
        _plain("qr", kernel.OrthogonalRoutine),
        lambda x: ("geqrf", "ungqr" if x.parts == 2 else "orgqr"),
        _orthogonal_room, lambda m, n, k: m * min(m, n) * (n + k),
    ),
    "ldl_factor": Method(
        _plain("ldl", elimination.IndefiniteRoutine),
        lambda x: ("hetrf" if x.hermitian else "sytrf",),
        lambda x: x.shape[-1] * (x.shape[-1] + BLOCK), lambda m, n, k: n**3 / 6,
    ),
    "ldl_solve": Method(
        _plain("ldl_solve", elimination.IndefiniteSolver),
        lambda x: ("hetrs" if x.hermitian else "sytrs",),
        lambda x: x.shape[-1] * (x.shape[-1] + x.wide), lambda m, n, k: n * n * k,
    ),
}  # fmt: skip
IN_CHUNKS = frozenset({"triangular_solve", "cholesky_solve", "solve", "inv"})
RECORDS = {record.name for record in OF_PAIRS.values()}


def problem_of(node: Node, inputs: Sequence[Value]) -> MatrixProblem:
    """What a node asks for, of pairs or of reals."""
    params = dict(node.params)
    paired = node.record.name in RECORDS
    name = params.pop("function") if paired else node.record.name
    pairs = params.pop("pairs") if paired else (False,) * len(inputs)
    shapes = tuple(
        x.spec.shape[:-1] if is_pair else x.spec.shape
        for x, is_pair in zip(inputs, pairs, strict=True)
    )
    kind = KINDS.get(inputs[0].spec.dtype.name, "")
    return MatrixProblem(name, params, kind, 2 if paired else 1, shapes)


def accepts(setting: Setting, node: Node, inputs: tuple[Any, ...]) -> bool:
    """Matrices of known sizes on the CPU, where there are such routines."""
    if not is_this_process() or not all(map(is_known, inputs)):
        return False
    problem = problem_of(node, inputs)
    method = METHODS.get(problem.name)
    if method is None or not problem.kind or not fits(problem, inputs):
        return False
    names = map(problem.routine, method.routines(problem))
    return all(routine_of(*name) is not None for name in names)


def fits(problem: MatrixProblem, inputs: Sequence[Value]) -> bool:
    """Whether operands belong to each other, and a place in a matrix can be told."""
    dtypes: list[DType] = [x.spec.dtype for x in inputs]
    if problem.name == "ldl_solve" and dtypes.pop(1) is not int32:
        return False
    if len(set(dtypes)) > 1 or problem.params.get("mode") == "r":
        return False
    if any(shape[:-2] != problem.shape[:-2] for shape in problem.shapes if len(shape) > 1) and (
        problem.name != "ldl_solve"
    ):
        return False
    return max(problem.shape[-2:]) < 1 << PLACE_BITS


def packed(layout: LayoutOf, inputs: tuple[Any, ...]) -> set[int]:
    """Operands are read in row-major order."""
    return {i for i, x in enumerate(inputs) if not layout(x).contiguous}


def steps(
    setting: Setting, node: Node, operands: list[Place], results: list[Place]
) -> list[Launch]:
    """One launch; matrices are dealt out among the workers."""
    problem = problem_of(node, node.inputs)
    method, count = METHODS[problem.name], problem.count
    words = words_of(problem, node, operands, results)
    writes = [whole(place.buffer) for place in results]
    room = method.room(problem)
    if room:
        dtype = node.inputs[0].spec.dtype
        work = PlannedBuffer(ARENA, dtype, count * room * problem.parts, name="matrix")
        words.room, words.stride = Address(work), room
        writes.append(whole(work))
    reads = tuple(whole(place.buffer) for place in operands)
    if problem.name not in ("solve", "inv"):
        return [launched(problem, method.writer(problem), words, reads, tuple(writes))]
    # Factors first, then what is solved with them, which there are more pieces of.
    first = replace(words, pieces=count)
    factors = "elimination", partial(elimination.EliminationRoutine, problem.kind, problem.parts)
    words.threads = 0
    return [
        launched(problem, factors, first, reads, tuple(writes[1:])),
        launched(problem, method.writer(problem), words, (*reads, *writes[1:]), tuple(writes)),
    ]


def launched(
    problem: MatrixProblem,
    kernel: tuple[str, Callable[[], RoutineWriter]],
    words: RoutineWords,
    reads: tuple[Any, ...],
    writes: tuple[Any, ...],
) -> Launch:
    """One launch; matrices, or columns of their right sides, are dealt out among the workers."""
    (stem, writer), (m, n) = kernel, problem.shape[-2:]
    work = METHODS[problem.name].work(m, n, problem.wide)
    return Launch(
        function=f"routine_{stem}_{problem.kind}_{problem.parts}",
        text=lambda function: writer().text(function),
        words=words.listed(),
        reads=reads,
        writes=writes,
        pieces=words.pieces,
        cost=problem.count * problem.parts**2 * work,
        label=sized(problem.name, problem.count, m, n),
    )


def words_of(
    problem: MatrixProblem, node: Node, operands: list[Place], results: list[Place]
) -> RoutineWords:
    """What the kernel is told."""
    given = [start(place, x.spec.dtype) for place, x in zip(operands, node.inputs, strict=True)]
    if problem.name == "cholesky_solve":
        given.reverse()
    found = [start(place, x.spec.dtype) for place, x in zip(results, node.outputs, strict=True)]
    m, n = problem.shape[-2:]
    words = RoutineWords(a=given[0], rows=m, columns=n, wide=problem.wide, pieces=problem.count)
    words.b, words.c = (*given[1:], 0, 0)[:2]
    words.out, words.second, words.third = (*found, 0, 0)[:3]
    if problem.name in IN_CHUNKS:
        words.chunk, words.chunks = problem.chunk, problem.chunks
        words.pieces = problem.count * problem.chunks
    names = METHODS[problem.name].routines(problem)
    words.first, words.then = (
        *[NamedAddress(":".join(problem.routine(name))) for name in names], 0,
    )[:2]  # fmt: skip
    alone = problem.count == 1 and problem.name not in ("triangular_solve", "cholesky_solve")
    if alone and min(m, n) >= THREADED:
        words.threads = NamedAddress(symbols.SCIPY_THREADS)
    fault = fault_of(problem)
    if fault is not None:
        words.status, words.fault = Status(), fault
    return words


def fault_of(problem: MatrixProblem) -> Fault | None:
    """What is said of a matrix that cannot be treated."""
    if problem.name == "ldl_solve":
        return Fault(RuntimeError, WRONG_PIVOTS)
    if problem.name not in SINGULAR or not problem.params.get("check"):
        return None
    called = problem.params["name"]
    if called == "linalg.lu_factor":
        called = f"torch.{called}"
    return small.fault_of(problem.name, called, len(problem.shape) > 2)


def start(place: Place, dtype: DType) -> Address:
    """Where a place begins; of pairs that lie in a buffer of complex numbers, too."""
    return Address(place.buffer, place.offset * dtype.itemsize)


TEMPLATE = Template(accepts, packed, steps)


def beside(templates: dict[str, Template]) -> dict[str, Template]:
    """Templates of small matrices, with routines for what they do not take."""
    return {
        **{
            name: either(one, TEMPLATE, small.is_small) if name in METHODS else one
            for name, one in templates.items()
        },
        **{name: TEMPLATE for name in METHODS if name not in templates},
    }


def of_pairs(others: Template) -> dict[str, Template]:
    """Templates of complex matrices: routines, or what others find of them."""
    return dict.fromkeys(RECORDS, either(TEMPLATE, others))


def either(
    first: Template, second: Template, is_first_better: Callable[[Node], bool] = lambda node: True
) -> Template:
    """The template that takes a node, the better of both; they read operands in row-major order."""

    def accepts(setting: Setting, node: Node, inputs: tuple[Any, ...]) -> bool:
        return first.accepts(setting, node, inputs) or second.accepts(setting, node, inputs)

    def steps(
        setting: Setting, node: Node, operands: list[Place], results: list[Place]
    ) -> list[Any]:
        takes = [one for one in (first, second) if one.accepts(setting, node, node.inputs)]
        better = takes[0 if is_first_better(node) else -1]
        return better.steps(setting, node, operands, results)

    return Template(accepts, packed, steps)

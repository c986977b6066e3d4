"""Matrix products by the BLAS that NumPy or SciPy ship, called by pointer from native code.

Every call is one slice of one product and runs on the calling thread: a BLAS with threads of its
own would fight with the workers for the processors. SciPy's library is taken first because it is
not NumPy's: setting it to one thread leaves eager products as they are.
"""

from __future__ import annotations

import ctypes
import importlib.util
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from adjoint.backends.llvm.blocks import Blocks
from adjoint.backends.llvm.vector import Code, V

ROW_MAJOR, NO_TRANSPOSE, TRANSPOSE = 101, 111, 112
# Words of a product (Note [product words]).
(
    FUNCTION, A, B, C, M, N, K, LDA, LDB, LDC, TRANS_A, TRANS_B, BLOCK, BLOCKS, BY_ROWS,
    STEP_A, STEP_B, STEP_C, BATCH, INNER, OUTER_A, OUTER_B, OUTER_C, INNER_A, INNER_B, INNER_C,
    WORDS,
) = range(27)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Blas:
    """A library: its products' addresses and the width of its integers."""

    sgemm: int
    dgemm: int
    bits: int
    name: str


# (package whose folder NAME.libs holds it, its file, suffix of symbols, bits of an integer)
_CANDIDATES = (
    ("scipy", "libscipy_openblas-*", "", 32),
    ("scipy", "libscipy_openblas64_*", "64_", 64),
    ("numpy", "libscipy_openblas64_*", "64_", 64),
    ("numpy", "libscipy_openblas-*", "", 32),
)


@cache
def find() -> Blas | None:
    """The library to call, set to one thread; None where there is none we know."""
    for package, pattern, suffix, bits in _CANDIDATES:
        spec = importlib.util.find_spec(package)
        if spec is None or spec.origin is None:
            continue
        folder = Path(spec.origin).parent.parent / f"{package}.libs"
        for path in sorted(folder.glob(pattern)):
            try:
                library = ctypes.CDLL(str(path))
                addresses = [
                    ctypes.cast(
                        getattr(library, f"scipy_cblas_{t}gemm{suffix}"), ctypes.c_void_p
                    ).value
                    for t in "sd"
                ]
                getattr(library, f"scipy_openblas_set_num_threads{suffix}")(1)
            except (OSError, AttributeError):
                continue
            return Blas(addresses[0] or 0, addresses[1] or 0, bits, path.name)
    return None


def symbol(item: int) -> str:
    """The name of the product of elements of so many bytes, and of the integers it takes."""
    library = find()
    assert library is not None
    return f"{'sgemm' if item == 4 else 'dgemm'} {library.bits}"


def address(name: str) -> int | None:
    """Where the product of this name is; None if the library of this process has no such one.

    A program kept on disk may have been made with another library.
    """
    library = find()
    kind, bits = name.split()
    return None if library is None or int(bits) != library.bits else int(getattr(library, kind))


def largest_size() -> int:
    """The largest size or stride that the library's integers hold."""
    library = find()
    return 0 if library is None else 2 ** (library.bits - 1) - 1


def product_text(name: str, element: str, bits: int) -> str:
    """The kernel of products of `element`, "float" or "double".

    Note [product words]
        The words are named at the top of this file. A product is dealt out in pieces: a slice of
        BLOCK rows (columns, unless BY_ROWS) of one member of the batch. STEP_A, STEP_B and STEP_C
        are the bytes from one row (column) to the next; a batch has an outer and an inner index,
        INNER being the latter's range, with the bytes from one to the next for each matrix.
    """
    code = Code()
    let, blocks = code.let, Blocks(code)

    def word(k: int) -> str:
        return let(f"load i64, ptr {let(f'getelementptr i64, ptr %args, i64 {k}')}")

    w = {k: word(k) for k in range(WORDS)}
    total = let(f"mul i64 {w[BATCH]}, {w[BLOCKS]}")
    low = let(f"udiv i64 {let(f'mul i64 {total}, %worker')}, %workers")
    following = let("add i64 %worker, 1")
    high = let(f"udiv i64 {let(f'mul i64 {total}, {following}')}, %workers")
    rows = let(f"icmp ne i64 {w[BY_ROWS]}, 0")
    whole = let(f"select i1 {rows}, i64 {w[M]}, i64 {w[N]}")
    function = let(f"inttoptr i64 {w[FUNCTION]} to ptr")

    def narrow(x: str) -> str:
        return x if bits == 64 else let(f"trunc i64 {x} to i32")

    fixed = {k: narrow(w[k]) for k in (LDA, LDB, LDC, K)}
    trans = {k: let(f"trunc i64 {w[k]} to i32") for k in (TRANS_A, TRANS_B)}

    def piece(p: str, _: list[V]) -> list[V]:
        member, part = let(f"udiv i64 {p}, {w[BLOCKS]}"), let(f"urem i64 {p}, {w[BLOCKS]}")
        outer, inner = let(f"udiv i64 {member}, {w[INNER]}"), let(f"urem i64 {member}, {w[INNER]}")
        start = let(f"mul i64 {part}, {w[BLOCK]}")
        left = let(f"sub i64 {whole}, {start}")
        size = let(
            f"select i1 {let(f'icmp slt i64 {left}, {w[BLOCK]}')}, i64 {left}, i64 {w[BLOCK]}"
        )
        m = narrow(let(f"select i1 {rows}, i64 {size}, i64 {w[M]}"))
        n = narrow(let(f"select i1 {rows}, i64 {w[N]}, i64 {size}"))
        pointers = []
        for base, by_outer, by_inner, step in (
            (A, OUTER_A, INNER_A, STEP_A),
            (B, OUTER_B, INNER_B, STEP_B),
            (C, OUTER_C, INNER_C, STEP_C),
        ):
            at = let(f"add i64 {w[base]}, {let(f'mul i64 {outer}, {w[by_outer]}')}")
            at = let(f"add i64 {at}, {let(f'mul i64 {inner}, {w[by_inner]}')}")
            at = let(f"add i64 {at}, {let(f'mul i64 {start}, {w[step]}')}")
            pointers.append(let(f"inttoptr i64 {at} to ptr"))
        a, b, c = pointers
        i = f"i{bits}"
        code.lines.append(
            f"call void {function}(i32 {ROW_MAJOR}, i32 {trans[TRANS_A]}, i32 {trans[TRANS_B]}, "
            f"{i} {m}, {i} {n}, {i} {fixed[K]}, {element} 1.0, ptr {a}, {i} {fixed[LDA]}, "
            f"ptr {b}, {i} {fixed[LDB]}, {element} 0.0, ptr {c}, {i} {fixed[LDC]})"
        )
        return []

    blocks.loop(low, high, 1, (), piece)
    body = "\n".join(code.lines)
    return (
        f"define void @{name}(ptr %args, i64 %worker, i64 %workers) {{\n"
        f"entry:\n{body}\nret void\n}}\n"
    )

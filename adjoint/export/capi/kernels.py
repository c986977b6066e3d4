"""Kernels of the C library, from the lowerings that compiled programs use."""

from __future__ import annotations

from dataclasses import dataclass

from adjoint.engine.backends.llvm.templates.product import kernel as product
from adjoint.engine.backends.llvm.templates.product.tiles import outer_tile
from adjoint.engine.backends.registers.elementwise import LOWER, supports
from adjoint.engine.backends.registers.vector import Code, V, type_text
from adjoint.engine.core import dtype as dt
from adjoint.engine.core.dtype import DType
from adjoint.export.output.machines import Destination

# Our dtypes: kind in registers, what the header calls them.
DTYPES: dict[DType, tuple[str, str]] = {
    dt.float32: ("f32", "ADJ_FLOAT32"),
    dt.float64: ("f64", "ADJ_FLOAT64"),
    dt.int64: ("i64", "ADJ_INT64"),
    dt.bool_: ("i1", "ADJ_BOOL"),
}
UNARY = (
    "neg abs sign sqrt rsqrt exp exp2 expm1 log log2 log10 log1p sin cos tan "
    "asin acos atan sinh cosh tanh asinh acosh atanh erf erfc relu sigmoid floor "
    "ceil round trunc isnan isinf isfinite logical_not"
).split()
BINARY = (
    "add sub mul div pow maximum minimum fmod remainder atan2 eq ne lt le gt ge logical_and "
    "logical_or logical_xor"
).split()
TRUTH = frozenset(
    "isnan isinf isfinite logical_not eq ne lt le gt ge logical_and logical_or logical_xor".split()
)
LANES = 8


@dataclass(frozen=True, slots=True)
class KernelForC:
    """A kernel of one dtype, and what it gives."""

    name: str  # of the operation
    dtype: DType
    gives: DType
    operands: int
    text: str
    declarations: frozenset[str]

    @property
    def symbol(self) -> str:
        """The name of its function."""
        return f"adj_kernel_{self.name}_{self.dtype.name}"


def elementwise(where: Destination) -> list[KernelForC]:
    """All elementwise kernels there are."""
    kernels = []
    for names, operands in ((UNARY, 1), (BINARY, 2)):
        for name in names:
            for dtype in DTYPES:
                if name in LOWER and supports(name, dtype):
                    gives = dt.bool_ if name in TRUTH else dtype
                    kernel = _kernel(name, dtype, gives, operands, where)
                    if kernel is not None:
                        kernels.append(kernel)
    return kernels


def _kernel(
    name: str, dtype: DType, gives: DType, operands: int, where: Destination
) -> KernelForC | None:
    """A loop over vectors, then one over what is left; None where it may fail inside."""
    parts, declared = [], set()
    for lanes in (LANES, 1):
        code = Code(where.machine.features)
        values = [_load(code, f"%p{k}", DTYPES[dtype][0], lanes) for k in range(operands)]
        result = LOWER[name](*values)
        if code.faults:
            return None
        _store(code, result.convert(DTYPES[gives][0]), lanes)
        parts.append("\n  ".join(code.lines))
        declared |= code.declarations
    given = ", ".join(f"ptr %x{k}" for k in range(operands))
    head = f"define void @adj_kernel_{name}_{dtype.name}({given}, ptr %to, i64 %n)"
    text = f"{head} {{\nentry:\n  %whole = and i64 %n, {-LANES}\n  br label %h0\n"
    for k, (lanes, body) in enumerate(zip((LANES, 1), parts, strict=True)):
        after = "h1" if k == 0 else "end"
        first = "[0, %entry]" if k == 0 else "[%i0, %h0]"
        stop = "%whole" if k == 0 else "%n"
        body = body.replace("%t", f"%t{k}_").replace("%i ", f"%i{k} ").replace("%p", f"%p{k}_")
        places = "\n".join(
            f"  %p{k}_{j} = getelementptr {_stored(dtype)}, ptr %x{j}, i64 %i{k}"
            for j in range(operands)
        )
        text += (
            f"h{k}:\n  %i{k} = phi i64 {first}, [%n{k}, %b{k}]\n"
            f"  %c{k} = icmp ult i64 %i{k}, {stop}\n  br i1 %c{k}, label %b{k}, label %{after}\n"
            f"b{k}:\n{places}\n  %out{k} = getelementptr {_stored(gives)}, ptr %to, i64 %i{k}\n"
            f"  {body.replace('%out', f'%out{k}')}\n"
            f"  %n{k} = add i64 %i{k}, {lanes}\n  br label %h{k}\n"
        )
    return KernelForC(
        name, dtype, gives, operands, text + "end:\n  ret void\n}", frozenset(declared)
    )


def _stored(dtype: DType) -> str:
    kind = DTYPES[dtype][0]
    return "i8" if kind == "i1" else type_text(kind, 1)


def _load(code: Code, place: str, kind: str, lanes: int) -> V:
    if kind != "i1":
        vector = code.let(f"load {type_text(kind, lanes)}, ptr {place}, align 1")
        return code.value(vector, kind, lanes)
    stored = code.let(f"load {type_text('u8', lanes)}, ptr {place}, align 1")
    return code.value(stored, "u8", lanes).ne(0)


def _store(code: Code, result: V, lanes: int) -> None:
    if result.kind == "i1":
        result = result.convert("u8")
    code.lines.append(f"store {type_text(result.kind, lanes)} {result.ref}, ptr %out, align 1")


def products() -> tuple[str, set[str], list[str]]:
    """The kernels of products: text, declarations, and a row of the table for each."""
    texts, declared, rows = [], set(), []
    for kind, item in (("f32", 4), ("f64", 8)):
        tile = outer_tile(kind)
        text, needed = product.product_text(f"adj_product_{kind}", kind, tile)
        texts.append(text)
        declared |= needed
        room = product.STRIP_BYTES // (tile.columns * item)
        depth = product.panel_depth(kind, tile)
        rows.append(f"{{{tile.rows}, {tile.columns}, {depth}, {room}, adj_product_{kind}}}")
    return "\n".join(texts), declared, rows

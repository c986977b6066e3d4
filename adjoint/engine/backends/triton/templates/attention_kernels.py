"""The text of attention's kernels."""

from __future__ import annotations

from dataclasses import dataclass
from math import e as EULER
from math import log2

from adjoint.engine.backends.triton.launch_words import NAME
from adjoint.engine.backends.triton.schedule import power_of_two
from adjoint.engine.compiler.memory.places import Place

Strides = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class AttentionForm:
    """All but strides that a kernel's text depends on."""

    dtype: str
    batches: tuple[int, ...]
    queries: int
    keys: int
    size: int
    value_size: int
    scale: float
    causal: bool

    @property
    def small(self) -> bool:
        """Whether registers hold small tiles only."""
        return self.dtype == "float32" or max(self.size, self.value_size) > 128

    @property
    def rows(self) -> int:
        """Queries of a tile."""
        return 32 if self.small else min(64, max(16, power_of_two(self.queries)))

    @property
    def columns(self) -> int:
        """Keys of a tile."""
        return 32 if self.small else min(64, max(16, power_of_two(self.keys)))

    @property
    def warps(self) -> int:
        return 8 if max(self.size, self.value_size) > 64 and not self.small else 4

    @property
    def exact(self) -> str:
        """How products of float32 are asked for."""
        return ', input_precision="ieee"' if self.dtype == "float32" else ""


def strides_of(place: Place, batches: tuple[int, ...]) -> Strides:
    """Strides of a place; 0 along batches of one that are stretched."""
    lead = zip(place.shape[:-2], place.strides[:-2], strict=True)
    return (*(0 if n == 1 else s for n, s in lead), *place.strides[-2:])


def head(kind: AttentionForm, strides: list[Strides], names: str, dtypes: list[str]) -> list[str]:
    """The frame: a pointer to each place's part of this program's batch."""
    lines = [
        "@triton.jit",
        f"def {NAME}(words):",
        "    w = words.to(tl.pointer_type(tl.int64))",
        "    batch = tl.program_id(1).to(tl.int64)",
    ]
    for d in reversed(range(len(kind.batches))):
        lines += [
            f"    b{d} = batch % {kind.batches[d]}",
            f"    batch = batch // {kind.batches[d]}",
        ]
    for i, (name, dtype) in enumerate(zip(names.split(), dtypes, strict=True)):
        at = " + ".join(f"b{d} * {s}" for d, s in enumerate(strides[i][:-2]) if s)
        lines.append(f"    {name} = tl.load(w + {i}).to(tl.pointer_type(tl.{dtype})) + ({at or 0})")
    lines += [f"    e = tl.arange(0, {kind.size})", f"    f = tl.arange(0, {kind.value_size})"]
    return lines


def tile(
    name: str, down: str, along: str, strides: Strides, limit: int, turned: bool = False
) -> str:
    """A load of rows of a matrix; those beyond its end are zeros."""
    one, two = strides[-2:]
    if turned:
        at = f"{down}[None, :] * {one} + {along}[:, None] * {two}"
        return f"tl.load({name} + {at}, mask=({down} < {limit})[None, :], other=0)"
    at = f"{down}[:, None] * {one} + {along}[None, :] * {two}"
    return f"tl.load({name} + {at}, mask=({down} < {limit})[:, None], other=0)"


def forward(kind: AttentionForm, strides: list[Strides]) -> str:
    """A program for each tile of queries of each head."""
    rows, columns, exact = kind.rows, kind.columns, kind.exact
    q, k, v, o, sums = strides
    stop = f"tl.minimum({kind.keys}, start + {rows})" if kind.causal else str(kind.keys)
    seen = f"(here < {kind.keys})[None, :]"
    if kind.causal:
        seen += " & (row[:, None] >= here[None, :])"
    lines = head(kind, strides, "q k v o l", [kind.dtype] * 4 + ["float32"])
    lines += [
        f"    start = tl.program_id(0) * {rows}",
        f"    row = start + tl.arange(0, {rows})",
        f"    query = {tile('q', 'row', 'e', q, kind.queries)}",
        f'    top = tl.full(({rows},), float("-inf"), tl.float32)',
        f"    total = tl.full(({rows},), 0, tl.float32)",
        f"    out = tl.full(({rows}, {kind.value_size}), 0, tl.float32)",
        f"    for base in range(0, {stop}, {columns}):",
        f"        here = base + tl.arange(0, {columns})",
        f"        key = {tile('k', 'here', 'e', k, kind.keys, turned=True)}",
        f"        s = tl.dot(query, key{exact}) * {kind.scale * log2(EULER)!r}",
        f'        s = tl.where({seen}, s, float("-inf"))',
        "        higher = tl.maximum(top, tl.max(s, 1))",
        "        p = tl.exp2(s - higher[:, None])",
        "        shrink = tl.exp2(top - higher)",
        "        total = total * shrink + tl.sum(p, 1)",
        f"        value = {tile('v', 'here', 'f', v, kind.keys)}",
        f"        out = out * shrink[:, None] + tl.dot(p.to(tl.{kind.dtype}), value{exact})",
        "        top = higher",
        f"    inside = row < {kind.queries}",
        f"    out = (out / total[:, None]).to(tl.{kind.dtype})",
        f"    at = row[:, None] * {o[-2]} + f[None, :] * {o[-1]}",
        "    tl.store(o + at, out, mask=inside[:, None])",
        f"    lse = (top + tl.log2(total)) * {1 / log2(EULER)!r}",
        f"    tl.store(l + row * {sums[-2]}, lse, mask=inside)",
    ]
    return "\n".join(lines) + "\n"


def weights(kind: AttentionForm) -> list[str]:
    """Weights of a tile, and the cotangent of its scores, from what both backward kernels have."""
    seen = f"(here < {kind.keys})[None, :] & (row < {kind.queries})[:, None]"
    if kind.causal:
        seen += " & (row[:, None] >= here[None, :])"
    factor = log2(EULER)
    return [
        f"        s = tl.dot(query, tl.trans(key){kind.exact}) * {kind.scale * factor!r}",
        f"        p = tl.where({seen}, tl.exp2(s - lse[:, None] * {factor!r}), 0.0)",
        f"        dp = tl.dot(grad, tl.trans(value){kind.exact})",
        f"        ds = (p * (dp - shift[:, None]) * {kind.scale!r}).to(tl.{kind.dtype})",
    ]


def row_loads(kind: AttentionForm, strides: list[Strides], margin: str) -> list[str]:
    """What is read of a tile of queries."""
    q, _, _, sums, g, t = strides[:6]
    limit = kind.queries
    return [
        f"{margin}query = {tile('q', 'row', 'e', q, limit)}",
        f"{margin}grad = {tile('g', 'row', 'f', g, limit)}.to(tl.{kind.dtype})",
        f"{margin}lse = tl.load(l + row * {sums[-2]}, mask=row < {limit}, other=0)",
        f"{margin}shift = tl.load(t + row * {t[-2]}, mask=row < {limit}, other=0)",
    ]


def key_loads(kind: AttentionForm, strides: list[Strides], margin: str) -> list[str]:
    """What is read of a tile of keys."""
    return [
        f"{margin}key = {tile('k', 'here', 'e', strides[1], kind.keys)}",
        f"{margin}value = {tile('v', 'here', 'f', strides[2], kind.keys)}",
    ]


def by_keys(kind: AttentionForm, strides: list[Strides], grad: str, wanted: tuple[int, ...]) -> str:
    """Gradients of keys (1) and values (2): a program for each tile of keys."""
    rows, columns = kind.rows, kind.columns
    dtypes = [kind.dtype] * 3 + ["float32", grad, "float32"] + [kind.dtype] * len(wanted)
    names = " ".join(["q k v l g t", *(f"d{i}" for i in wanted)])
    lines = head(kind, strides, names, dtypes)
    first = f"(start // {rows}) * {rows}" if kind.causal else "0"
    lines += [
        f"    start = tl.program_id(0) * {columns}",
        f"    here = start + tl.arange(0, {columns})",
        *key_loads(kind, strides, "    "),
        f"    dk = tl.full(({columns}, {kind.size}), 0, tl.float32)",
        f"    dv = tl.full(({columns}, {kind.value_size}), 0, tl.float32)",
        f"    for base in range({first}, {kind.queries}, {rows}):",
        f"        row = base + tl.arange(0, {rows})",
        *row_loads(kind, strides, "        "),
        *weights(kind),
    ]
    if 2 in wanted:
        lines.append(f"        dv += tl.dot(tl.trans(p).to(tl.{kind.dtype}), grad{kind.exact})")
    if 1 in wanted:
        lines.append(f"        dk += tl.dot(tl.trans(ds), query{kind.exact})")
    for position, (i, name, along) in enumerate(
        [x for x in ((1, "dk", "e"), (2, "dv", "f")) if x[0] in wanted], 6
    ):
        one, two = strides[position][-2:]
        inside = f"(here < {kind.keys})[:, None]"
        lines += [
            f"    at = here[:, None] * {one} + {along}[None, :] * {two}",
            f"    tl.store(d{i} + at, {name}.to(tl.{kind.dtype}), mask={inside})",
        ]
    return "\n".join(lines) + "\n"


def by_queries(
    kind: AttentionForm, strides: list[Strides], grad: str, wanted: tuple[int, ...]
) -> str:
    """The gradient of queries: a program for each tile of them."""
    rows, columns = kind.rows, kind.columns
    dtypes = [kind.dtype] * 3 + ["float32", grad, "float32", kind.dtype]
    stop = f"tl.minimum({kind.keys}, start + {rows})" if kind.causal else str(kind.keys)
    one, two = strides[6][-2:]
    lines = [
        *head(kind, strides, "q k v l g t d0", dtypes),
        f"    start = tl.program_id(0) * {rows}",
        f"    row = start + tl.arange(0, {rows})",
        *row_loads(kind, strides, "    "),
        f"    dq = tl.full(({rows}, {kind.size}), 0, tl.float32)",
        f"    for base in range(0, {stop}, {columns}):",
        f"        here = base + tl.arange(0, {columns})",
        *key_loads(kind, strides, "        "),
        *weights(kind),
        f"        dq += tl.dot(ds, key{kind.exact})",
        f"    at = row[:, None] * {one} + e[None, :] * {two}",
        f"    tl.store(d0 + at, dq.to(tl.{kind.dtype}), mask=(row < {kind.queries})[:, None])",
    ]
    return "\n".join(lines) + "\n"

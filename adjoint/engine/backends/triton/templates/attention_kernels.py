"""The text of attention's kernels.

Scores are in units of log 2, so that exponentials are powers of two. Blocks in which every query
sees every key are gone through without masks, in a loop of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, log2, prod
from math import e as EULER

from adjoint.engine.backends.triton.code import memory_type
from adjoint.engine.backends.triton.launch_words import ALIGN, NAME
from adjoint.engine.backends.triton.schedule import power_of_two
from adjoint.engine.compiler.memory.places import Place
from adjoint.engine.core.dtype import named as named_dtype

Strides = tuple[int, ...]
Lines = list[str]
LOG2E = log2(EULER)
FORWARD, BY_KEYS, BY_QUERIES = "forward", "by keys", "by queries"
PLACE = "place"  # of a draw, seed and offset
BOUNDS = ("from_key", "to_key")  # where what a query sees begins, and where it has ended


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
    mask: str = ""  # the dtype of a mask, if there is one
    shared: int = -1  # the batch dimension along which queries share keys and values
    ranged: bool = False  # each query sees a range of keys of its own
    dropout: float = 0.0  # the probability that a weight is dropped

    @property
    def gappy(self) -> bool:
        """Whether a query may see nothing of a block, or nothing at all."""
        return bool(self.mask) or self.ranged

    @property
    def wide(self) -> int:
        """The width of tiles of queries and keys."""
        return max(16, power_of_two(self.size))

    @property
    def value_wide(self) -> int:
        """The width of tiles of values."""
        return max(16, power_of_two(self.value_size))

    @property
    def exact(self) -> str:
        """How products of float32 are asked for."""
        return ', input_precision="ieee"' if self.dtype == "float32" else ""

    @property
    def factor(self) -> float:
        """From products of queries and keys to powers of two."""
        return self.scale * LOG2E


@dataclass(frozen=True, slots=True)
class Tiling:
    """Queries and keys of a tile, and how its program runs."""

    rows: int
    columns: int
    warps: int
    stages: int
    registers: int = 0  # of a thread, at most; 0: as many as it takes


def tilings(kind: AttentionForm, which: str) -> list[Tiling]:
    """The ways of a kernel that are worth trying, the likeliest first."""
    if kind.dtype == "float32" or max(kind.wide, kind.value_wide) > 128:
        return [Tiling(32, 32, 4, 2)]
    rows, columns = (max(16, power_of_two(n)) for n in (kind.queries, kind.keys))
    table: dict[str, list[tuple[int, ...]]] = {
        # With so few registers there is room for one more program beside others.
        FORWARD: [(64, 64, 4, 3, 96), (64, 64, 4, 3), (128, 64, 8, 3), (128, 64, 4, 3, 168)],
        BY_KEYS: [(64, 64, 4, 3, 168), (64, 64, 4, 2, 168), (32, 64, 4, 3, 128), (128, 64, 4, 2)],
        BY_QUERIES: [(64, 64, 4, 3), (128, 64, 8, 3), (64, 32, 4, 3, 96)],
    }
    if kind.dropout:  # words of the stream take half of a thread's registers while they are made
        table = {
            FORWARD: [(64, 64, 4, 3, 168), (64, 32, 4, 3), (128, 64, 8, 3, 128)],
            BY_KEYS: [(64, 64, 4, 2), (64, 64, 4, 2, 168), (32, 64, 4, 3, 168)],
            BY_QUERIES: [(64, 64, 4, 3), (64, 64, 4, 3, 168), (64, 32, 4, 3)],
        }
    if max(kind.wide, kind.value_wide) > 64:
        table = {
            FORWARD: [(128, 64, 8, 2), (64, 64, 4, 2), (128, 128, 8, 2)],
            BY_KEYS: [(64, 64, 8, 2), (32, 128, 8, 2), (64, 128, 8, 1)],
            BY_QUERIES: [(64, 64, 8, 2), (128, 32, 8, 2), (128, 64, 8, 1)],
        }
    ways = [Tiling(min(r, rows), min(c, columns), *more) for r, c, *more in table[which]]
    return list(dict.fromkeys(ways))


def strides_of(place: Place, batches: tuple[int, ...]) -> Strides:
    """Strides of a place; 0 along batches of one that are stretched."""
    lead = list(zip(place.shape[:-2], place.strides[:-2], strict=True))
    missing = (0,) * (len(batches) - len(lead))
    inner = (0 if n == 1 else s for n, s in zip(place.shape[-2:], place.strides[-2:], strict=True))
    return (*missing, *(0 if n == 1 else s for n, s in lead), *inner)


@dataclass(frozen=True, slots=True)
class Operand:
    """A place as a kernel sees it."""

    name: str
    dtype: str
    strides: Strides
    aligned: bool


def head(kind: AttentionForm, operands: list[Operand], tiles: int, shared: bool = False) -> Lines:
    """The frame: a pointer to each place's part of this program's batch, of so many tiles.

    All programs lie along one dimension of the grid: of the others there are 65,535 at most.
    With `shared`, a program goes through all batches that share keys; they are not in its number.
    """
    lines = [
        "@triton.jit",
        f"def {NAME}(words):",
        "    w = words.to(tl.pointer_type(tl.int64))",
        f"    batch = (tl.program_id(0) // {tiles}).to(tl.int64)",
    ]
    dims = [d for d in range(len(kind.batches)) if not (shared and d == kind.shared)]
    for d in reversed(dims):
        lines += [
            f"    b{d} = batch % {kind.batches[d]}",
            f"    batch = batch // {kind.batches[d]}",
        ]
    if kind.dropout:
        lines.append(f"    number = {batch_number(kind, dims)}")
    for i, x in enumerate(operands):
        at = " + ".join(f"b{d} * {x.strides[d]}" for d in dims if x.strides[d])
        start = f"tl.load(w + {i}).to(tl.pointer_type({memory_type(x.dtype)})) + ({at or 0})"
        lines.append(f"    {x.name} = {hinted(start, x)}")
    if kind.dropout:
        lines += [
            f"    {name} = tl.load({PLACE} + {k})" for k, name in enumerate(("seed", "begin"))
        ]
    return [
        *lines,
        f"    e = tl.arange(0, {kind.wide})",
        f"    f = tl.arange(0, {kind.value_wide})",
    ]


def batch_number(kind: AttentionForm, dims: list[int]) -> str:
    """Which batch of all it is, by those dimensions that are known."""
    known = [f"b{d} * {prod(kind.batches[d + 1 :])}" for d in dims]
    return " + ".join(known) or "batch * 0"


def keys_of_columns(kind: AttentionForm, columns: int) -> str:
    """Which key each column of a tile is, from its first (Note [drawn tiles])."""
    c = f"tl.arange(0, {columns})"
    if not kind.dropout:
        return c
    return f"({c} // 16 * 16 + {c} // 2 % 4 * 4 + {c} // 8 % 2 * 2 + {c} % 2)"


def kept_weights(kind: AttentionForm, columns: int, start: str) -> Lines:
    """Which weights of a tile dropout keeps: `kept`, by the words that belong to them.

    Note [drawn tiles]
        Rows are drawn one after another, all batches of a row together, each from a block of the
        stream on (Note [attention]); a block is the words of four keys beside each other. What a
        product leaves to a thread are two columns beside each other, and the two that are eight
        further: so the columns of a tile are keys in such an order that these are a block, and each
        thread draws what it needs. Sums over keys do not care.
    """
    if not kind.dropout:
        return []
    return [
        f"line = row.to(tl.int64) * {prod(kind.batches)} + number",
        f"block = {start} // 4 + tl.arange(0, {columns // 4})",
        f"counter = begin + line[:, None] * {-(-kind.keys // 4)} + block[None, :]",
        f"kept = words_in_tiles(seed, counter) < {ceil((1 - kind.dropout) * 2.0**32)}",
    ]


def change_of_scores(kind: AttentionForm, turned: bool) -> str:
    """The cotangents of a tile of scores but for the weights: those of kept weights, less shifts.

    Factors of dropout that are the same for all are left to what is summed.
    """
    shift = "shift[None, :]" if turned else "shift[:, None]"
    if not kind.dropout:
        return f"(dp - {shift})"
    return f"tl.where(kept, dp * {1 / (1 - kind.dropout)!r} - {shift}, -{shift})"


def hinted(pointer: str, x: Operand) -> str:
    """A pointer of which Triton is told what it is a multiple of: so it loads 16 bytes at once."""
    item = named_dtype(x.dtype).itemsize
    if not x.aligned or any(s * item % ALIGN for s in x.strides[:-2]):
        return pointer
    return f"tl.multiple_of({pointer}, {ALIGN})"


def tile(
    x: Operand, down: str, along: str, size: int, limit: int | None, turned: bool = False
) -> str:
    """A load of rows of a matrix, those beyond `limit` zeros (None: there are none)."""
    one, two = x.strides[-2:]
    rows, columns = ("[None, :]", "[:, None]") if turned else ("[:, None]", "[None, :]")
    masks = [f"({down} < {limit}){rows}"] if limit is not None else []
    if size & (size - 1) or size < 16:
        masks.append(f"({along} < {size}){columns}")
    more = f", mask={' & '.join(masks)}, other=0" if masks else ""
    return f"tl.load({x.name} + {down}{rows} * {one} + {along}{columns} * {two}{more})"


def put(x: Operand, value: str, down: str, along: str, size: int, limit: int | None) -> Lines:
    """A store of rows of a matrix."""
    one, two = x.strides[-2:]
    masks = [f"({down} < {limit})[:, None]"] if limit is not None else []
    if size & (size - 1) or size < 16:
        masks.append(f"({along} < {size})[None, :]")
    more = f", mask={' & '.join(masks)}" if masks else ""
    at = f"{down}[:, None] * {one} + {along}[None, :] * {two}"
    return [f"    tl.store({x.name} + {at}, {value}.to(tl.{x.dtype}){more})"]


def beyond(length: int, step: int) -> int | None:
    """The length that loads must heed where steps do not divide it."""
    return length if length % step else None


def loop(first: str, last: str, step: int, body: Lines) -> Lines:
    """A loop over blocks."""
    return [
        f"    for base in range({first}, {last}, {step}):",
        f"        base = tl.multiple_of(base, {step})",
        *(f"        {line}" for line in body),
    ]


def masked_scores(kind: AttentionForm, mask: Operand | None, turned: bool) -> Lines:
    """Scores `s` of a tile with a mask applied; in units of log 2."""
    if mask is None:
        return []
    row, here = ("row[None, :]", "here[:, None]") if turned else ("row[:, None]", "here[None, :]")
    inside = f"({row} < {kind.queries}) & ({here} < {kind.keys})"
    at = f"{row} * {mask.strides[-2]} + {here} * {mask.strides[-1]}"
    load = f"tl.load(m + {at}, mask={inside}, other=0)"
    if kind.mask == "bool":
        return [f's = tl.where({load} != 0, s, float("-inf"))']
    return [f"s = s + {load}.to(tl.float32) * {LOG2E!r}"]


def named(operands: list[Operand]) -> dict[str, Operand]:
    """Operands by their names."""
    return {x.name: x for x in operands}


def forward(kind: AttentionForm, tiling: Tiling, operands: list[Operand]) -> str:
    """A program for each tile of queries of each head; operands q k v [m] o l."""
    rows, columns, exact = tiling.rows, tiling.columns, kind.exact
    x = named(operands)
    tail, more = beyond(kind.queries, rows), beyond(kind.keys, columns)
    last = -(-kind.queries // rows) - 1

    # Scores stay products until their exponential, which takes the factor along; a mask adds to
    # them in units of log 2, and a factor that is not positive turns their order round.
    late = kind.factor > 0 and kind.mask in ("", "bool")
    factor, unit = ("", f" * {kind.factor!r}") if late else (f" * {kind.factor!r}", "")

    def body(masked: bool) -> Lines:
        limit = more if masked else None
        lines = [
            f"here = base + {keys_of_columns(kind, columns)}",
            f"key = {tile(x['k'], 'here', 'e', kind.size, limit, turned=True)}",
            f"s = tl.dot(query, key{exact}){factor}",
            *masked_scores(kind, x.get("m"), turned=False),
        ]
        seen = [f"(here < {kind.keys})[None, :]"] if masked and more is not None else []
        if masked and kind.causal:
            seen.append("(row[:, None] >= here[None, :])")
        seen += in_range(kind, turned=False)
        if seen:
            lines.append(f's = tl.where({" & ".join(seen)}, s, float("-inf"))')
        lines += [f"higher = tl.maximum(top, tl.max(s, 1){unit})", "base_of = higher"]
        if kind.gappy:  # a row may have seen nothing yet
            lines[-1] = 'base_of = tl.where(higher == float("-inf"), 0.0, higher)'
        return [
            *lines,
            f"p = tl.exp2(s{unit} - base_of[:, None])",
            "shrink = tl.exp2(top - base_of)",
            "total = total * shrink + tl.sum(p, 1)",
            *kept_weights(kind, columns, "base"),
            *(["p = tl.where(kept, p, 0.0)"] if kind.dropout else []),
            f"value = {tile(x['v'], 'here', 'f', kind.value_size, limit)}",
            f"out = tl.dot(p.to(tl.{kind.dtype}), value, out * shrink[:, None]{exact})",
            "top = higher",
        ]

    lines = [
        *head(kind, operands, last + 1),
        # Long rows first: what is left for the end is short.
        f"    start = ({last} - tl.program_id(0) % {last + 1}) * {rows}",
        f"    row = start + tl.arange(0, {rows})",
        f"    query = {tile(x['q'], 'row', 'e', kind.size, tail)}",
        f'    top = tl.full(({rows},), float("-inf"), tl.float32)',
        f"    total = tl.full(({rows},), 0, tl.float32)",
        f"    out = tl.full(({rows}, {kind.value_wide}), 0, tl.float32)",
        *(f"    {line}" for line in ranges_of(kind, x, rows)),
        *blocks_of_keys(kind, rows, columns, body),
        "    shown = tl.where(total == 0, 1.0, total)" if kind.gappy else "    shown = total",
        *([f"    shown *= {1 - kind.dropout!r}"] if kind.dropout else []),
        *put(x["o"], "(out / shown[:, None])", "row", "f", kind.value_size, tail),
        f"    lse = (top + tl.log2(total)) * {1 / LOG2E!r}",
        f"    tl.store(l + row * {x['l'].strides[-2]}, lse{row_mask(kind, rows)})",
    ]
    return "\n".join(lines) + "\n"


def row_mask(kind: AttentionForm, rows: int) -> str:
    """The mask of a load or store of one number a query."""
    return f", mask=row < {kind.queries}" if kind.queries % rows else ""


def ranges_of(kind: AttentionForm, x: dict[str, Operand], rows: int) -> Lines:
    """The keys that each query of a tile sees, `low` to `high`; those beyond the end see none."""
    if not kind.ranged:
        return []
    mask = row_mask(kind, rows)
    none = (f", other={kind.keys}", ", other=0") if mask else ("", "")
    bounds = zip(("low", "high"), BOUNDS, none, strict=True)
    return [
        f"{name} = tl.load({bound} + row * {x[bound].strides[-2]}{mask}{other})"
        for name, bound, other in bounds
    ]


def in_range(kind: AttentionForm, turned: bool) -> Lines:
    """Conditions that a query of a tile sees a key."""
    if not kind.ranged:
        return []
    row, here = ("[None, :]", "here[:, None]") if turned else ("[:, None]", "here[None, :]")
    return [f"({here} >= low{row})", f"({here} < high{row})"]


def blocks_of_keys(
    kind: AttentionForm, rows: int, columns: int, body: Callable[[bool], Lines]
) -> Lines:
    """All keys that a tile of queries sees: first those that all of it sees."""
    if kind.ranged:
        return [
            f"    first = tl.min(low, 0) // {columns} * {columns}",
            *loop("first", f"tl.minimum({kind.keys}, tl.max(high, 0))", columns, body(True)),
        ]
    whole = kind.keys // columns * columns
    if not kind.causal:
        lines = loop("0", str(whole), columns, body(False)) if whole else []
        return lines + (
            loop(str(whole), str(kind.keys), columns, body(True)) if kind.keys > whole else []
        )
    return [
        f"    plain = tl.minimum({whole}, (start + 1) // {columns} * {columns})",
        *loop("0", "plain", columns, body(False)),
        *loop("plain", f"tl.minimum({kind.keys}, start + {rows})", columns, body(True)),
    ]


def weights(kind: AttentionForm, x: dict[str, Operand], masked: bool, turned: bool) -> Lines:
    """Weights `p` from the product `s` of a tile's queries and keys."""
    row, here = ("row[None, :]", "here[:, None]") if turned else ("row[:, None]", "here[None, :]")
    lse = "lse[None, :]" if turned else "lse[:, None]"
    lines = [*masked_scores(kind, x.get("m"), turned), f"p = tl.exp2(s - {lse})"]
    if kind.mask:
        lines.append('p = tl.where(s == float("-inf"), 0.0, p)')
    seen = in_range(kind, turned)
    if masked:
        seen += [f"({row} >= {here})"] if kind.causal else []
        if not turned:  # keys beyond the end; turned, they are rows that nobody stores
            seen.append(f"({here} < {kind.keys})")
    if seen:
        lines.append(f"p = tl.where({' & '.join(seen)}, p, 0.0)")
    return lines


def row_statistics(kind: AttentionForm, x: dict[str, Operand], rows: int) -> Lines:
    """What is known of each query: those beyond the end see nothing."""
    mask = row_mask(kind, rows)
    nothing = ', other=float("inf")' if mask else ""
    lse = f"tl.load(l + row * {x['l'].strides[-2]}{mask}{nothing})"
    shift = f"tl.load(t + row * {x['t'].strides[-2]}{mask}{', other=0' if mask else ''})"
    return [f"lse = {lse} * {LOG2E!r}", f"shift = {shift}"]


def by_keys(kind: AttentionForm, tiling: Tiling, operands: list[Operand]) -> str:
    """Gradients of keys and values: a program for each tile of keys; q k v l g t [m] [d1] [d2].

    Scores are turned, keys down and queries along, as the products that follow want them, unless
    weights are drawn (Note [drawn tiles]): then what follows is turned.
    """
    rows, columns, exact, dtype = tiling.rows, tiling.columns, kind.exact, kind.dtype
    x = named(operands)
    tail, more = beyond(kind.queries, rows), beyond(kind.keys, columns)

    # Of weights that are drawn each thread has what it needs if keys are along, not down.
    turned = not kind.dropout
    scores = "tl.dot(key, query" if turned else "tl.dot(query, tl.trans(key)"
    totals = "tl.dot(value, tl.trans(grad)" if turned else "tl.dot(grad, tl.trans(value)"
    grows = "tl.dot({0}, {1}" if turned else "tl.dot(tl.trans({1}), {0}"
    sums = "({0}, {1})" if turned else "({1}, {0})"

    def body(masked: bool) -> Lines:
        lines = [
            f"row = base + tl.arange(0, {rows})",
            f"query = {tile(x['q'], 'row', 'e', kind.size, tail, turned=turned)}",
            *row_statistics(kind, x, rows),
            f"s = {scores}{exact}) * {kind.factor!r}",
            *weights(kind, x, masked, turned=turned),
            f"grad = {tile(x['g'], 'row', 'f', kind.value_size, tail)}.to(tl.{dtype})",
            *kept_weights(kind, columns, "start"),
        ]
        if "d2" in x:
            seen = "tl.where(kept, p, 0.0)" if kind.dropout else "p"
            product = grows.format(f"{seen}.to(tl.{dtype})", "grad")
            lines.append(f"dv = {product}, dv{exact})")
        if "d1" in x:
            product = grows.format("ds", "tl.trans(query)" if turned else "query")
            lines += [
                f"dp = {totals}{exact})",
                f"ds = (p * {change_of_scores(kind, turned)}).to(tl.{dtype})",
                f"dk = {product}, dk{exact})",
            ]
        return lines

    if kind.causal:
        loops = [
            f"    first = start // {rows} * {rows}",
            f"    plain = (start + {columns + rows - 2}) // {rows} * {rows}",
            f"    plain = tl.minimum({kind.queries}, plain)",
            *loop("first", "plain", rows, body(True)),
            *loop("plain", str(kind.queries), rows, body(False)),
        ]
    elif kind.ranged:
        loops = loop("0", str(kind.queries), rows, where_seen(kind, x, tiling, body(False)))
    else:
        loops = loop("0", str(kind.queries), rows, body(False))
    if kind.shared >= 0:
        moving = [(n, x[n].strides[kind.shared]) for n in "qlgtm" if n in x]
        steps = [f"    {n} += {s}" for n, s in moving if s]
        if kind.dropout:
            steps.append(f"    number += {prod(kind.batches[kind.shared + 1 :])}")
        loops = [
            f"    for member in range({kind.batches[kind.shared]}):",
            *(f"    {line}" for line in [*loops, *steps]),
        ]
    lines = [
        *head(kind, operands, -(-kind.keys // columns), shared=True),
        f"    start = tl.program_id(0) % {-(-kind.keys // columns)} * {columns}",
        f"    here = start + {keys_of_columns(kind, columns)}",
        f"    key = {tile(x['k'], 'here', 'e', kind.size, more)}",
        f"    value = {tile(x['v'], 'here', 'f', kind.value_size, more)}",
        f"    dk = tl.full({sums.format(columns, kind.wide)}, 0, tl.float32)",
        f"    dv = tl.full({sums.format(columns, kind.value_wide)}, 0, tl.float32)",
        *loops,
    ]
    for name, value, along, size in (
        ("d1", f"(dk * {kind.scale!r})", "e", kind.size),
        (
            "d2",
            f"(dv * {1 / (1 - kind.dropout)!r})" if kind.dropout else "dv",
            "f",
            kind.value_size,
        ),
    ):
        if name in x:
            shown = value if turned else f"tl.trans({value})"
            lines += put(x[name], shown, "here", along, size, more)
    return "\n".join(lines) + "\n"


def where_seen(kind: AttentionForm, x: dict[str, Operand], tiling: Tiling, body: Lines) -> Lines:
    """What is done for a tile of keys with those tiles of queries that see some of them."""
    return [
        f"row = base + tl.arange(0, {tiling.rows})",
        *ranges_of(kind, x, tiling.rows),
        f"if (tl.max(high, 0) > start) & (tl.min(low, 0) < start + {tiling.columns}):",
        *(f"    {line}" for line in body),
    ]


def by_queries(kind: AttentionForm, tiling: Tiling, operands: list[Operand]) -> str:
    """The gradient of queries: a program for each tile of them; q k v l g t [m] d0."""
    rows, columns, exact, dtype = tiling.rows, tiling.columns, kind.exact, kind.dtype
    x = named(operands)
    tail, more = beyond(kind.queries, rows), beyond(kind.keys, columns)
    last = -(-kind.queries // rows) - 1

    def body(masked: bool) -> Lines:
        limit = more if masked else None
        return [
            f"here = base + {keys_of_columns(kind, columns)}",
            f"key = {tile(x['k'], 'here', 'e', kind.size, limit, turned=True)}",
            f"value = {tile(x['v'], 'here', 'f', kind.value_size, limit, turned=True)}",
            f"s = tl.dot(query, key{exact}) * {kind.factor!r}",
            *weights(kind, x, masked, turned=False),
            f"dp = tl.dot(grad, value{exact})",
            *kept_weights(kind, columns, "base"),
            f"ds = (p * {change_of_scores(kind, turned=False)}).to(tl.{dtype})",
            f"dq = tl.dot(ds, tl.trans(key), dq{exact})",
        ]

    lines = [
        *head(kind, operands, last + 1),
        f"    start = ({last} - tl.program_id(0) % {last + 1}) * {rows}",
        f"    row = start + tl.arange(0, {rows})",
        f"    query = {tile(x['q'], 'row', 'e', kind.size, tail)}",
        f"    grad = {tile(x['g'], 'row', 'f', kind.value_size, tail)}.to(tl.{dtype})",
        *(f"    {line}" for line in row_statistics(kind, x, rows)),
        f"    dq = tl.full(({rows}, {kind.wide}), 0, tl.float32)",
        *(f"    {line}" for line in ranges_of(kind, x, rows)),
        *blocks_of_keys(kind, rows, columns, body),
        *put(x["d0"], f"(dq * {kind.scale!r})", "row", "e", kind.size, tail),
    ]
    return "\n".join(lines) + "\n"


WRITERS = {FORWARD: forward, BY_KEYS: by_keys, BY_QUERIES: by_queries}

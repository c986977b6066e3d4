"""Legalise: what each node is to the compiler, and copies where memory does not lie as needed.

Every value that is not a view will lie in row-major order if it is put in memory at all; a view
that no strides can express of that (a reshape of a transposed value) reads a copy instead.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import Any

from adjoint.engine.compiler.fuse.fuse import CALL, FREE, POINT, REDUCE, TEMPLATE, VIEW
from adjoint.engine.compiler.loops.nest import as_operand, reduced_dtype
from adjoint.engine.compiler.lower.blocks import block_length, reduced_blocks
from adjoint.engine.compiler.lower.half_precision import is_half, wide_specs
from adjoint.engine.compiler.lower.indexed import ASKED
from adjoint.engine.compiler.lower.pairs import reads_parts
from adjoint.engine.compiler.lower.substitutes import (
    another_scatter,
    identity_matrix,
    is_loop_product,
    loop_product,
    wants_another_scatter,
)
from adjoint.engine.compiler.memory.places import Place, is_strided, show, virtual
from adjoint.engine.compiler.target import Setting, Template, knows_all
from adjoint.engine.core.dtype import DType, float32, int32, int64
from adjoint.engine.core.operations.record import REGISTRY, Record
from adjoint.engine.core.promotion import promote
from adjoint.engine.core.spec import Spec, broadcast_shapes
from adjoint.engine.graph.ir import DataflowGraph, Node, Value
from adjoint.engine.graph.passes.rewrite import GraphBuilder
from adjoint.engine.graph.sizes.extents import content, typical
from adjoint.engine.ops.shape.convert import CAST, CLONE
from adjoint.engine.ops.shape.strided import span

BEYOND = 1 << 62  # more than any position: kernels for all sizes are one
NARROW = 1 << 30  # more than positions that are computed in 32 bits
LONG_ROW = 256  # elements: what is around a row takes little of its time
CHAIN = 32  # values that are looked at to find one that was reduced along its rows


class Legal:
    """A graph every node of which has a kind, and where its values would lie."""

    def __init__(self, graph: DataflowGraph, places: dict[Value, Place], setting: Setting) -> None:
        self.setting, self.source = setting, graph
        self.builder = GraphBuilder(graph)
        self.kinds: dict[Node, str] = {}
        self.layout: dict[Value, Place] = dict(places)
        self.reduced_rows: set[Value] = set()  # what was reduced along its last dimension
        self.pairs: set[Node] = set()  # what products that are loops sum up
        for node in graph.nodes:
            self.builder.graph.where = node.where
            self.visit(node, self.builder.translate(node.inputs))
        self.graph = self.builder.finish(graph)
        self.free_fills()

    # -- nodes ----------------------------------------------------------------------------------

    def visit(self, node: Node, inputs: tuple[Any, ...]) -> None:
        record = node.record
        known = knows_all(self.setting, node, inputs)
        if empty(node, inputs):
            self.keep(node, inputs, CALL)
        elif record.is_view or record.name == "flip":
            self.view(node, inputs)
        elif record.position_of and known:
            self.position(node, inputs[0])
        elif record.name == "roll" and known:
            self.roll(node, inputs[0])
        elif record.name == "index_put" and self.can_move(node, inputs):
            self.put(node, inputs)
        elif record.name == "index" and known:
            self.pick(node, inputs)
        elif record.reduces and known and self.can_reduce(node, inputs[0]):
            self.reduction(node, inputs)
        elif known and is_point(self.setting, node, inputs):
            self.keep(node, inputs, POINT)
        elif record.name == "eye" and known:
            self.builder.replace(node, (identity_matrix(self, node),))
        elif known and is_loop_product(self, node, inputs):
            self.builder.replace(node, (loop_product(self, node, *inputs),))
        elif wants_another_scatter(node, inputs) and known and self.can_scatter():
            self.builder.replace(node, (another_scatter(self, node, inputs),))
        else:
            template = self.setting.template_for(node, inputs)
            specs = wide_specs(self.setting, node, inputs) if template is None else None
            if specs is not None:
                self.widen(node, inputs, specs)
            elif template is None:
                self.keep(node, inputs, CALL)
            else:
                self.keep(node, self.fixed(template, inputs), TEMPLATE)

    def fixed(self, template: Template, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        """Operands as a template wants them."""
        packed = template.packed(self.layout_of, inputs)
        copy = self.copy_in_lines if template.by_lines else self.copy
        if template.ordered:
            copy = self.copy_in_order
        return tuple(copy(x) if i in packed else x for i, x in enumerate(inputs))

    def widen(self, node: Node, inputs: tuple[Any, ...], specs: tuple[Spec, ...]) -> None:
        """A template in float32 between conversions."""
        wide = tuple(self.cast(x, float32) if is_half(x) else x for x in inputs)
        operands = self.fixed(self.setting.template(node.record.name), wide)
        widened = self.builder.graph.add_node(node.record, operands, node.params, specs)
        self.settle(self.builder.graph.nodes[-1], TEMPLATE)
        results = [
            self.cast(x, old.spec.dtype) if old.spec.dtype.is_half else x
            for x, old in zip(widened, node.outputs, strict=True)
        ]
        self.builder.replace(node, tuple(results))

    def cast(self, x: Value, dtype: DType) -> Value:
        """The same elements in another dtype."""
        return self.settled(self.builder.emit(CAST, x, dtype=dtype), POINT)

    def layout_of(self, value: Value) -> Place:
        return self.layout[value]

    def keep(self, node: Node, inputs: tuple[Any, ...], kind: str) -> None:
        self.builder.keep(node, inputs)
        self.settle(self.builder.graph.nodes[-1], kind)

    def settle(self, node: Node, kind: str) -> None:
        self.kinds[node] = kind
        ordered = self.setting.is_laid_out(kind, node)
        for value in node.outputs:
            place = virtual(value)
            self.layout[value] = self.setting.laid_out(place, value) if ordered else place

    def settled(self, value: Value, kind: str) -> Value:
        assert value.node is not None
        self.settle(value.node, kind)
        return value

    def copy(self, x: Value) -> Value:
        """The same elements in row-major order."""
        return self.settled(self.builder.emit(CLONE, x, strides=None), POINT)

    def copy_in_order(self, x: Value) -> Value:
        """The same elements in the order that the target prefers."""
        order = self.setting.order(x)
        return self.copy(x) if order is None else self.copied_as(x, order)

    def copy_in_lines(self, x: Value) -> Value:
        """The same elements in columns where they lie in columns, else in rows."""
        place = self.layout[x]
        rank = len(place.shape)
        if rank < 2 or 1 in place.shape[-2:] or place.strides[-2] != 1 or place.strides[-1] == 1:
            return self.copy(x)
        return self.copied_as(x, (*range(rank - 2), rank - 1, rank - 2))

    def copied_as(self, x: Value, order: tuple[int, ...]) -> Value:
        """The same elements with dimensions in this order in memory, outermost first."""
        back = tuple(order.index(d) for d in range(len(order)))
        return self.show("permute", self.copy(self.show("permute", x, dims=order)), dims=back)

    def view(self, node: Node, inputs: tuple[Any, ...]) -> None:
        source = inputs[0]
        known = node.outputs[0].spec.dtype.name in self.setting.target.dtypes
        template = self.setting.template_for(node, inputs)
        in_parts = known and self.setting.target.reads_parts and reads_parts(self.source, node)
        if template is not None:
            self.keep(node, inputs, TEMPLATE)
            return
        if not known or not (in_parts or is_strided(node.record)):
            self.keep(node, inputs, CALL)
            return
        place = show(self.layout[source], node)
        if place is None:
            copied = self.copy(source)
            place = show(self.layout[copied], node)
            if place is None:
                self.strided(node, source)
                return
            inputs = (copied,)
        self.builder.keep(node, inputs)
        view = self.builder.graph.nodes[-1]
        self.kinds[view] = VIEW
        self.layout[view.outputs[0]] = place

    def strided(self, node: Node, x: Value) -> None:
        """as_strided of what does not lie in memory as it did: laid out so, then looked at."""
        params = node.params
        room = span(x.spec.shape, params["x_stride"])
        if params["offset"] < 0 or params["offset"] + span(params["size"], params["stride"]) > room:
            raise NotImplementedError(
                "as_strided: in a compiled function it can look beyond its operand only where that "
                "is part of a contiguous tensor. Call .contiguous() first."
            )
        spec = x.spec
        memory = self.emit(
            POINT, REGISTRY["full"], 0,
            shape=(room,), dtype=spec.dtype, device=spec.device, strides=None,
        )  # fmt: skip
        window = {"size": spec.shape, "stride": params["x_stride"], "offset": 0, "x_stride": (1,)}
        chain = ((node.record, window),)
        laid = self.emit(TEMPLATE, REGISTRY["view_scatter"], memory, x, chain=chain)
        shown = self.show("as_strided", laid, **{**params, "x_stride": (1,)})
        self.builder.replace(node, (shown,))

    def can_reduce(self, node: Node, x: Any) -> bool:
        """Whether the target's loops know the reduction."""
        return self.setting.target.reduces(node.record.name, reduced_dtype(node.record, x.spec))

    def reduction(self, node: Node, inputs: tuple[Any, ...]) -> None:
        """A reduction, which may become several."""
        dims, keepdim = node.params["dims"], node.params["keepdim"]
        if not dims:
            self.keep(node, inputs, CALL)
        else:
            self.builder.replace(node, (self.reduce(node.record, inputs[0], dims, keepdim),))

    def reduce(self, record: Record, x: Value, dims: tuple[int, ...], keepdim: bool) -> Value:
        """One loop nest per result; where results are few and long, first by parts."""
        shape, last = x.spec.shape, max(dims)
        results = prod(n for d, n in enumerate(shape) if d not in dims)
        length = prod(shape[d] for d in dims)
        target = self.setting.target
        few, long = target.few, target.long
        if target.few_rows and dims == tuple(range(len(shape) - len(dims), len(shape))):
            few, long = target.few_rows, target.long_rows
        by_parts = typical(results) < few and typical(length) > long
        if len(shape) - 1 not in dims and typical(results) < target.few_columns:
            by_parts = by_parts or typical(length) > target.long_columns
        if target.columns and dims == (len(shape) - 1,):
            self.reduced_rows.update(made_of(x))
        tall = by_parts and self.beside_rows(record, x, dims)
        if by_parts and is_half(x) and record.name in ("sum", "prod"):  # rounded once, at the end
            reduced = self.reduce(record, self.cast(x, float32), dims, keepdim)
            return self.cast(reduced, x.spec.dtype)
        if tall and len(dims) > 1:
            joined = (*shape[: dims[0]], length, *shape[last + 1 :])
            reduced = self.reduce(record, self.reshape(x, joined), (dims[0],), False)
            ones = tuple(1 if d in dims else n for d, n in enumerate(shape))
            return self.reshape(reduced, ones) if keepdim else reduced
        if len(dims) > 1 and by_parts and shape[last] > 1:
            x = self.emit(REDUCE, record, x, dims=self.first_step(shape, dims), keepdim=True)
        elif len(dims) == 1 and by_parts and self.setting.in_blocks:
            block = block_length(length, last < len(shape) - 1)
            x = reduced_blocks(self, record, x, last, block)
            return self.reduce(record, x, dims, keepdim)
        elif (
            len(dims) == 1
            and by_parts
            and (cut := divisor(content(length), self.near(length, tall, last < len(shape) - 1)))
        ):
            parts = (*shape[:last], length // cut, cut, *shape[last + 1 :])
            split = self.reshape(x, parts)
            x = self.emit(REDUCE, record, split, dims=(last + 1,), keepdim=False)
            return self.reduce(record, x, dims, keepdim)  # the parts may be many too
        return self.emit(REDUCE, record, x, dims=dims, keepdim=keepdim)

    def first_step(self, shape: tuple[int, ...], dims: tuple[int, ...]) -> tuple[int, ...]:
        """The dimensions that a reduction by parts begins with.

        Where that is the last one alone but for short rows, as many more as make them long: rows of
        a filter are three elements, rows of a picture one vector and a half.
        """
        target = self.setting.target
        for k in range(1, len(dims)) if target.together else ():
            left = prod(n for d, n in enumerate(shape) if d not in dims[k:])
            if typical(left) >= target.few:
                return dims[k:]
        if not target.together and dims[-1] == len(shape) - 1:
            for k in range(len(dims) - 1, 0, -1):
                row = prod(shape[d] for d in dims[k:])
                left = prod(n for d, n in enumerate(shape) if d not in dims[k:])
                if typical(row) >= LONG_ROW and typical(left) >= target.few:
                    return dims[k:]
        return dims[-1:]

    def near(self, length: int, tall: bool, columns: bool) -> int:
        """About how many elements a part of a long reduction has."""
        target = self.setting.target
        if tall:
            return max(target.part, typical(length) // 1024)
        return min(1024, max(64, typical(length) // 32)) if columns and target.few_columns else 1024

    def beside_rows(self, record: Record, x: Value, dims: tuple[int, ...]) -> bool:
        """Whether a kernel that reduces rows has what is summed here (Note [column sums])."""
        shape, columns = x.spec.shape, self.setting.target.columns
        summed = record.name == "sum" and (is_half(x) or x.spec.dtype is float32)
        if not columns or not summed or len(shape) - 1 in dims or not together(dims):
            return False
        return typical(shape[-1]) <= columns and not self.reduced_rows.isdisjoint(made_of(x))

    def emit(self, kind: str, record: Record, *inputs: Any, **params: Any) -> Value:
        return self.settled(self.builder.emit(record, *inputs, **params), kind)

    def position(self, node: Node, x: Value) -> None:
        """argmax: the least of the positions where x is its largest; a NaN is above everything."""
        dim, shape = node.params["dim"], x.spec.shape
        best = self.reduce(REGISTRY[node.record.position_of], x, (dim,), keepdim=True)
        hit = self.emit(POINT, REGISTRY["eq"], x, best)
        if x.spec.dtype.is_floating_point:
            # With the sign of the best, which is in the kernel already: so this stays in it too.
            signed = self.emit(POINT, REGISTRY["copysign"], x, best)
            nan = self.emit(POINT, REGISTRY["isnan"], signed)
            hit = self.emit(POINT, REGISTRY["logical_or"], hit, nan)
        fits = type(shape[dim]) is int and shape[dim] < NARROW
        narrow = fits and self.setting.target.narrow_positions
        at = self.emit(
            POINT, REGISTRY["arange"], start=0, step=1, length=shape[dim],
            dtype=int32 if narrow else int64, device=x.spec.device,
        )  # fmt: skip
        at = self.reshape(at, (shape[dim],) + (1,) * (len(shape) - dim - 1))
        there = self.emit(POINT, REGISTRY["where"], hit, at, NARROW if narrow else BEYOND)
        least = self.reduce(REGISTRY["amin"], there, (dim,), node.params["keepdim"])
        self.builder.replace(node, (self.cast(least, int64) if narrow else least,))

    def roll(self, node: Node, x: Value) -> None:
        """Two slices the other way round, along each dimension."""
        for shift, dim in zip(node.params["shifts"], node.params["dims"], strict=True):
            size = x.spec.shape[dim]
            first = -shift % size
            if not first:
                continue
            parts = []
            for window in ((first, size, 1), (0, first, 1)):
                index = tuple(window if d == dim else (0, n, 1) for d, n in enumerate(x.spec.shape))
                parts.append(self.show("slice", x, index=index))
            x = self.emit(TEMPLATE, REGISTRY["cat"], *parts, dim=dim)
        self.builder.replace(node, (x,))

    def alike(self, indices: Iterable[Value]) -> list[Value]:
        """Indices broadcast to one shape."""
        every = list(indices)
        shape = broadcast_shapes("index", *(x.spec.shape for x in every))
        return [x if x.spec.shape == shape else self.show("expand", x, shape=shape) for x in every]

    def pick(self, node: Node, inputs: tuple[Any, ...]) -> None:
        """Rows picked by indices of neighbouring dimensions: others are brought together."""
        dims, source = node.params["dims"], inputs[0]
        if dims != tuple(range(dims[0], dims[0] + len(dims))):
            rest = tuple(d for d in range(len(source.spec.shape)) if d not in dims)
            source = self.show("permute", source, dims=(*dims, *rest))
            dims = tuple(range(len(dims)))
        indices = self.alike(inputs[1:])
        rows = self.moved(POINT, node, (source, *indices), dims)
        self.builder.replace(node, (rows,))

    def moved(self, kind: str, node: Node, inputs: tuple[Any, ...], dims: tuple[int, ...]) -> Value:
        """An indexing whose dimensions were moved; errors tell of those that were asked for."""
        params = {**node.params, "dims": dims}
        spec = node.record.infer(*(x.spec for x in inputs), **params)
        params[ASKED] = node.params["dims"]
        return self.settled(
            self.builder.graph.add_node(node.record, inputs, params, (spec,))[0], kind
        )

    def can_move(self, node: Node, inputs: tuple[Any, ...]) -> bool:
        """Whether a template takes an indexing once its dimensions are brought to the front."""
        template = self.setting.target.templates.get(node.record.name)
        accepts = None if template is None else template.accepts_moved
        return accepts is not None and accepts(self.setting, node, inputs)

    def can_scatter(self) -> bool:
        """Whether there are templates for scatters that are substitutes."""
        return {"scatter", "scatter_reduce"} <= self.setting.target.templates.keys()

    def put(self, node: Node, inputs: tuple[Any, ...]) -> None:
        """Rows put at indices of the first dimensions: others are brought there and back."""
        dims, rank = node.params["dims"], len(inputs[0].spec.shape)
        base, values = inputs[:2]
        indices = self.alike(inputs[2:])
        wide = node.params["accumulate"] and is_half(base)  # summed in float32, rounded at the end
        if wide:
            base, values = self.cast(base, float32), self.cast(values, float32)
        template = self.setting.template("index_put")
        if not wide and self.setting.template_for(node, (base, values, *indices)) is not None:
            self.keep(node, self.fixed(template, (base, values, *indices)), TEMPLATE)
            return
        rest = tuple(d for d in range(rank) if d not in dims)
        order = (*dims, *rest)
        if order != tuple(range(rank)):
            block = len(indices[0].spec.shape)
            together = dims == tuple(range(dims[0], dims[0] + len(dims)))
            first = dims[0] if together else 0  # where the indices' dimensions are in the values
            picked = tuple(range(first, first + block))
            others = tuple(d for d in range(len(values.spec.shape)) if d not in picked)
            base = self.show("permute", base, dims=order)
            values = self.show("permute", values, dims=(*picked, *others))
        operands = self.fixed(template, (base, values, *indices))
        out = self.moved(TEMPLATE, node, operands, tuple(range(len(dims))))
        if order != tuple(range(rank)):
            back = tuple(order.index(d) for d in range(rank))
            out = self.show("permute", out, dims=back)
        if wide:
            out = self.cast(out, inputs[0].spec.dtype)
        self.builder.replace(node, (out,))

    def reshape(self, x: Value, shape: tuple[int, ...]) -> Value:
        return self.show("reshape", x, shape=shape)

    def show(self, name: str, x: Value, **params: Any) -> Value:
        """A view of a value, or of a copy where it must be."""
        view = self.builder.emit(REGISTRY[name], x, **params)
        assert view.node is not None
        place = show(self.layout[x], view.node)
        if place is None:
            self.builder.graph.nodes.pop()
            return self.show(name, self.copy(x), **params)
        self.kinds[view.node] = VIEW
        self.layout[view] = place
        return view

    # -- constants ------------------------------------------------------------------------------

    def free_fills(self) -> None:
        """A `full` that only loops read is a number to them; it needs no memory."""
        used: set[Value] = set(self.graph.outputs)
        for node in reversed(self.graph.nodes):
            kind = self.kinds[node]
            if kind == VIEW:
                if node.outputs[0] in used:
                    used.add(node.inputs[0])
            elif kind in (TEMPLATE, CALL) or node.record.indexed == "read":
                zeros = self.setting.template(node.record.name).zeros if kind == TEMPLATE else ()
                for i, x in enumerate(node.inputs):
                    if isinstance(x, Value) and not (i in zeros and is_zero(x)):
                        used.add(x)
            elif kind == POINT and node.outputs[0] not in used and is_free(node):
                self.kinds[node] = FREE


def is_zero(value: Value) -> bool:
    """Whether a value is zeros, as a node says that makes nothing else."""
    node = value.node
    return node is not None and node.record.name == "full" and node.inputs[0] == 0


def is_free(node: Node) -> bool:
    """Whether a value is known from its coordinates: a constant, a triangle of one, a range."""
    if node.record.name in ("triu", "tril"):
        source = node.inputs[0].node
        return source is not None and source.record.name == "full" and is_number(source.inputs[0])
    return node.record.name in ("full", "arange")


def is_number(x: Any) -> bool:
    """Whether a fill is a number, the host's or a literal."""
    return x.host if isinstance(x, Value) else isinstance(x, (bool, int, float))


def made_of(x: Value) -> set[Value]:
    """A value and those of its size that it is computed from, element by element."""
    size = prod(x.spec.shape)
    chain, stack = {x}, [x]
    while stack and len(chain) < CHAIN:
        node = stack.pop().node
        if node is None:
            continue
        record = node.record
        if not (record.is_view or record.family == "elementwise" or record.pointwise):
            continue
        for y in node.inputs:
            known = not isinstance(y, Value) or y.host or y in chain
            if not known and prod(y.spec.shape) == size:
                chain.add(y)
                stack.append(y)
    return chain


def together(dims: tuple[int, ...]) -> bool:
    """Whether dimensions are neighbours, in order."""
    return dims == tuple(range(dims[0], dims[0] + len(dims)))


def divisor(n: int, near: int = 1024) -> int:
    """A divisor of n near a number, or 0."""
    for cut in range(near, 4 * near):
        if n % cut == 0:
            return cut
    for cut in range(near - 1, near // 16, -1):
        if n % cut == 0:
            return cut
    return 0


def empty(node: Node, inputs: tuple[Any, ...]) -> bool:
    """Whether a node reads or writes tensors of no elements."""
    values = [x for x in inputs if isinstance(x, Value)]
    return any(0 in v.spec.shape for v in (*node.outputs, *values))


def is_point(setting: Setting, node: Node, inputs: tuple[Any, ...]) -> bool:
    """Whether a node computes each element from corresponding ones by a lowering there is."""
    record = node.record
    name = record.name
    if name in ("clone", "cast", "triu", "tril", "arange"):
        return True
    if name == "gather":
        return True
    if name == "require":
        return inputs[0].spec.shape == inputs[1].spec.shape
    if name == "random":
        return setting.target.draws(node.params["law"], node.params["args"], node.params["dtype"])
    if name == "scatter":  # one place per line: a comparison at every element
        shape, index = inputs[0].spec.shape, inputs[2].spec.shape
        dim = node.params["dim"]
        return len(shape) > 0 and index == (*shape[:dim], 1, *shape[dim + 1 :])
    if name == "full":
        return isinstance(inputs[0], (bool, int, float)) or (
            isinstance(inputs[0], Value) and inputs[0].host
        )
    if record.family != "elementwise":
        return False
    compute, _ = promote(
        record.promotion or "same", map(as_operand, inputs[record.promotes_from :])
    )
    return setting.target.computes(name, compute, node.params)

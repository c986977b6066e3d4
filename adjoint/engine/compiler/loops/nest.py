"""From a unit of fused nodes to a loop kernel: its references, its operations by stage.

Note [constants]
    A mean is a sum times a number that depends on sizes. So that layers of different sizes share
    their machine code, kernels that reduce are called with their factors, like the host's numbers;
    other constants are part of the code.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from adjoint.engine.compiler.fuse.fuse import REDUCE as REDUCES
from adjoint.engine.compiler.fuse.fuse import Unit
from adjoint.engine.compiler.fuse.spaces import Map, flatten, settle
from adjoint.engine.compiler.loops.ir import (
    COLUMN,
    HOST,
    INDEX,
    LOAD,
    POINT,
    REDUCE,
    AffineReference,
    LoopKernel,
    Op,
    can_fail,
)
from adjoint.engine.compiler.lower.indexed import Fault, aligned, bounds_fault, fault_of, pick_place
from adjoint.engine.compiler.memory.places import INPUT, Place, PlannedBuffer, expand_to, show
from adjoint.engine.core.dtype import DType, bool_, int64
from adjoint.engine.core.halves import half_of
from adjoint.engine.core.identity.number_key import number_key
from adjoint.engine.core.operations.record import Record
from adjoint.engine.core.promotion import promote
from adjoint.engine.core.spec import Spec, contiguous_strides
from adjoint.engine.graph.ir import Node, Value
from adjoint.engine.graph.sizes.extents import Extent, ExtentFloat, is_extent

PlaceOf = Callable[[Value], Place]
PLAIN = {0, 1, -1, 2, -2, 0.5, -0.5}  # factors that no size gives, or that code is simpler for
# Operations that `placed` has a form for: their elements depend on coordinates.
PLACED = {"triu", "tril", "random", "arange", "scatter"}
Applied = tuple[str, tuple[Any, ...], Any, str]  # name, arguments, parameters, dtype computed in
NOWHERE = PlannedBuffer(INPUT, int64, 0)  # of coordinates, which are places without memory


def strides_over(place_strides: tuple[int, ...], where: Map) -> dict[Any, int]:
    """Strides by atom of something indexed by a value's dimensions."""
    result: dict[Any, int] = {}
    for stride, dim in zip(place_strides, where, strict=True):
        for atom in reversed(settle(dim)):
            if stride:
                result[atom] = stride
            stride *= atom.size
    return result


class Nest:
    """Builds one kernel."""

    def __init__(self, unit: Unit, fusion: Any, place_of: PlaceOf) -> None:
        self.unit = unit
        self.fusion = fusion
        self.place_of = place_of
        self.ops: list[dict[str, Any]] = []
        self.refs: list[AffineReference] = []
        self.number: dict[Any, int] = {}  # value or load -> operation
        self.hosts: list[Value | float] = []  # the host's numbers, and constants (Note [constants])
        self.stores: list[tuple[int, AffineReference]] = []
        self.faults: dict[int, list[Fault]] = {}
        self.extents: list[int] = []  # sizes that indices of scatters must be below
        self.reduced = set(settle(unit.reduced or ()))

    # -- operations -----------------------------------------------------------------------------

    def add(self, key: Any, **op: Any) -> int:
        if key is not None and key in self.number:
            return self.number[key]
        self.ops.append(op)
        if key is not None:
            self.number[key] = len(self.ops) - 1
        return len(self.ops) - 1

    def load(self, place: Place, where: Map, dtype: Any) -> int:
        """A load of an element of a place whose dimensions lie as `where` says."""
        strides = strides_over(place.strides, where)
        key = ("load", place.buffer, place.offset, frozenset(strides.items()))
        if key in self.number:
            return self.number[key]
        self.refs.append(AffineReference(place.buffer, dtype, place.offset, strides))
        return self.add(
            key,
            kind=LOAD, name=dtype.name, args=(("r", len(self.refs) - 1),), params=None,
            compute=dtype.name, dtype=dtype.name,
            full=bool(self.reduced) and any(a in self.reduced for a in strides), stage=0,
        )  # fmt: skip

    def coordinate(self, where: Map, dim: int) -> int:
        """The index along one dimension."""
        strides = strides_over(tuple(int(d == dim) for d in range(len(where))), where)
        return self.linear_index(strides)

    def linear_index(self, strides: dict[Any, int], offset: int = 0) -> int:
        """A number that is affine in the loop indices."""
        self.refs.append(AffineReference(None, int64, offset, strides))
        return self.add(
            None,
            kind=INDEX, name="index", args=(("r", len(self.refs) - 1),), params=None,
            compute="int64", dtype="int64",
            full=bool(self.reduced) and any(a in self.reduced for a in strides), stage=0,
        )  # fmt: skip

    def operand(self, x: Any, node: Node, where: Map) -> tuple[str, Any]:
        """An argument of an operation: a number, or a value made or loaded here."""
        if is_extent(x):
            return ("v", self.host(x if integral(node) else x * 1.0))
        if not isinstance(x, Value):
            return ("c", x)
        if x.host:
            return ("v", self.host(x))
        base, views = self.fusion.rooted(x)
        if base in self.unit.maps:
            return ("v", self.number[base])
        if base in self.fusion.fills:
            return self.operand_free(x, views, node, where)
        shape = node.inputs[0].spec.shape if self.is_reduction(node) else node.outputs[0].spec.shape
        place = expand_to(aligned(node, x, self.place_of(x)), shape)
        return ("v", self.load(place, where, x.spec.dtype))

    def factor(self, x: Any, node: Node, where: Map) -> tuple[str, Any]:
        """An operand of a product or quotient of floats: Note [constants]."""
        if x.__class__ not in (int, float) or x in PLAIN or not self.reduced:
            return self.operand(x, node, where)
        if not node.outputs[0].spec.dtype.is_floating_point:
            return self.operand(x, node, where)
        return ("v", self.host(float(x)))

    def host(self, value: Value | float) -> int:
        """A number that the kernel is called with."""
        key = ("host", host_key(value))
        if key not in self.number:
            self.hosts.append(value)
        name = host_dtype(value)
        return self.add(
            key,
            kind=HOST, name=name, args=(("h", len(self.hosts) - 1),), params=None,
            compute=name, dtype=name, full=False, stage=0,
        )  # fmt: skip

    def operand_free(self, x: Value, views: list[Node], node: Node, where: Map) -> tuple[str, Any]:
        """What is known from its coordinates and needs no memory: `full`, triangles, `arange`."""
        base, _ = self.fusion.rooted(x)
        maker = base.node
        assert maker is not None
        name = base.spec.dtype.name
        if maker.record.name == "full":
            fill = maker.inputs[0]
            sized = isinstance(fill, Value) or is_extent(fill)
            arg = ("v", self.host(fill)) if sized else ("c", fill)
            number = self.add(
                base,
                kind=POINT, name="fill", args=(arg,), params=None, compute=name, dtype=name,
                full=False, stage=0,
            )  # fmt: skip
            return ("v", number)
        rank = len(base.spec.shape)
        triangle = maker.record.name != "arange"
        dims = (rank - 2, rank - 1) if triangle else (0,)
        indices = [self.shown_index(base, d, views, node, where) for d in dims]
        args = tuple(("v", k) for k in indices)
        if triangle:
            args = (self.operand_free(maker.inputs[0], [], node, where), *args)
        chosen = ("diagonal",) if triangle else ("start", "step")
        number = self.add(
            None,
            kind=POINT, name=maker.record.name, args=args,
            params=tuple((p, maker.params[p]) for p in chosen), compute=name, dtype=name,
            full=any(self.ops[k]["full"] for k in indices), stage=0,
        )  # fmt: skip
        return ("v", number)

    def shown_index(self, base: Value, dim: int, views: list[Node], node: Node, where: Map) -> int:
        """The index along a dimension of `base` of what views show of it to a node."""
        shape = node.inputs[0].spec.shape if self.is_reduction(node) else node.outputs[0].spec.shape
        unit = tuple(int(d == dim) for d in range(len(base.spec.shape)))
        place: Place | None = Place(NOWHERE, base.spec.shape, unit)
        for view in views:
            place = show(place, view) if place is not None else None
        assert place is not None
        whole = expand_to(place, shape)
        return self.linear_index(strides_over(whole.strides, where), place.offset)

    def is_full(self, where: Map) -> bool:
        """Whether a value has an element per inner combination.

        By its place, not by what it depends on: a constant may have to be stored everywhere.
        """
        return bool(self.reduced) and any(a in self.reduced for a in flatten(where))

    def is_reduction(self, node: Node) -> bool:
        return bool(self.fusion.kinds[node] == REDUCES)

    def stage_of(self, args: Any) -> int:
        """The first loop nest in which all arguments are there."""
        stage = 0
        for kind, x in args:
            if kind == "v":
                op = self.ops[x]
                stage = max(stage, op["stage"] + (op["kind"] == REDUCE))
        return stage

    def visit(self, node: Node) -> None:
        """Add a node's operation."""
        out = node.outputs[0]
        if node.record.indexed == "read":
            self.pick(node)
            return
        if self.is_reduction(node):
            where = self.unit.sources.get(node)
            arg = self.operand(node.inputs[0], node, where)  # type: ignore[arg-type]
            dtype = reduced_dtype(node.record, node.inputs[0].spec).name
            self.add(
                out,
                kind=COLUMN if node in self.unit.sums else REDUCE,
                name=node.record.name, args=(arg,), params=None,
                compute=dtype, dtype=out.spec.dtype.name, full=False, stage=self.stage_of((arg,)),
            )  # fmt: skip
            return
        where = self.unit.maps[out]
        name, args, params, compute = self.point(node, where)
        number = self.add(
            out,
            kind=POINT, name=name, args=args, params=params, compute=compute,
            dtype=out.spec.dtype.name, full=self.is_full(where), stage=self.stage_of(args),
        )  # fmt: skip
        if can_fail(name, compute):
            self.faults[number] = [fault_of(node)]

    def pick(self, node: Node) -> None:
        """A load whose place depends on values."""
        out, source = node.outputs[0], node.inputs[0]
        where = self.unit.maps[out]
        place = self.place_of(source)
        strides, picks = pick_place(node, place)
        indices = [self.operand(x, node, where) for x in node.inputs[1:]]
        by_atom = strides_over(strides, where)
        name = out.spec.dtype.name
        self.refs.append(
            AffineReference(place.buffer, out.spec.dtype, place.offset, by_atom, picks)
        )
        number = self.add(
            out,
            kind=LOAD, name=name, args=(("r", len(self.refs) - 1), *indices),
            params=node.params.get("wrap", node.record.name == "index"), compute=name, dtype=name,
            full=self.is_full(where), stage=self.stage_of(indices),
        )  # fmt: skip
        self.faults[number] = [bounds_fault(node, j) for j in range(len(indices))]

    def point(self, node: Node, where: Map) -> Applied:
        """An elementwise operation."""
        record, out = node.record, node.outputs[0]
        name = record.name
        if name in ("clone", "cast", "fill", "full"):
            source = node.inputs[0]
            arg = self.operand(source, node, where)
            have = out.spec.dtype.name
            if isinstance(source, Value):
                have = host_dtype(source) if source.host else source.spec.dtype.name
            elif is_extent(source):
                have = host_dtype(source if integral(node) else source * 1.0)
            return "cast", (arg,), None, have
        if name in PLACED:
            return self.placed(node, where)
        operand = self.factor if name in ("mul", "div") else self.operand
        args = tuple(operand(x, node, where) for x in node.inputs)
        if name == "require":
            return name, args, None, out.spec.dtype.name
        kinds = [as_operand(x) for x in node.inputs]
        compute, _ = promote(record.promotion or "same", kinds[record.promotes_from :])
        if compute.is_half:
            args = self.beside_halves(record, node.inputs, args, compute)
        return name, args, tuple(sorted(node.params.items())), compute.name

    def beside_halves(
        self, record: Record, inputs: Any, args: tuple[Any, ...], compute: DType
    ) -> tuple[Any, ...]:
        """Arguments with numbers rounded as Note [numbers beside halves] says."""
        rounded = list(args)
        for i in range(record.promotes_from, len(args)):
            kind, x = args[i]
            shape = inputs[i].spec.shape if isinstance(inputs[i], Value) else ()
            if i in record.unrounded and not shape:
                continue
            if kind == "c":
                rounded[i] = kind, half_of(x, compute)
            elif self.ops[x]["dtype"] != compute.name:
                cast = self.add(
                    ("rounded", x, compute),
                    kind=POINT, name="cast", args=(args[i],), params=None,
                    compute=self.ops[x]["dtype"], dtype=compute.name,
                    full=self.ops[x]["full"], stage=self.stage_of((args[i],)),
                )  # fmt: skip
                rounded[i] = kind, cast
        return tuple(rounded)

    def placed(self, node: Node, where: Map) -> Applied:
        """An operation whose elements depend on where they are: coordinates are arguments too."""
        name, p, out = node.record.name, node.params, node.outputs[0]
        operands = tuple(self.operand(x, node, where) for x in node.inputs)
        dims: tuple[int, ...] = ()
        params: tuple[Any, ...]
        if name == "random":
            at = self.linear_index(strides_over(contiguous_strides(out.spec.shape), where))
            return name, (*operands, ("v", at)), (p["law"], tuple(p["args"])), out.spec.dtype.name
        if name == "arange":
            dims, params = (0,), (("start", p["start"]), ("step", p["step"]))
        elif name == "scatter":
            dims, params = (p["dim"],), (("accumulate", p["accumulate"]),)
            self.extents.append(node.inputs[0].spec.shape[p["dim"]])
        else:
            dims, params = (len(where) - 2, len(where) - 1), (("diagonal", p["diagonal"]),)
        places = tuple(("v", self.coordinate(where, d)) for d in dims)
        return name, (*operands, *places), params, out.spec.dtype.name

    def store(self, value: Value, place: Place) -> None:
        """Have a value written to memory."""
        where = self.unit.maps[value]
        self.stores.append(
            (
                self.number[value],
                AffineReference(
                    place.buffer, value.spec.dtype, place.offset, strides_over(place.strides, where)
                ),
            )
        )

    def finish(self) -> LoopKernel:
        """The kernel, whose loops a target will put in order."""
        return LoopKernel(
            atoms=settle(self.unit.atoms),
            reduced=self.reduced,
            ops=tuple(Op(**op) for op in self.ops),
            refs=self.refs,
            stores=self.stores,
            hosts=tuple(self.hosts),
            extents=tuple(self.extents),
            faults=self.faults,
            origin=tuple(n.record.name for n in self.unit.nodes),
            columns=frozenset(settle(self.unit.columns or ())),
        )


def host_key(value: Value | float) -> Any:
    """What tells a kernel's numbers apart; extents of one value may differ at other sizes."""
    if isinstance(value, Extent):
        return frozenset(value.poly.items())
    if isinstance(value, ExtentFloat):
        fn, *parts = value.parts
        return (fn, *[host_key(part) for part in parts])
    return value if isinstance(value, Value) else number_key(value)


def integral(node: Node) -> bool:
    """Whether a node computes with whole numbers."""
    kinds = [as_operand(x) for x in node.inputs]
    record = node.record
    compute, _ = promote(record.promotion or "same", kinds[record.promotes_from :])
    return not (compute.is_floating_point or compute.is_complex)


def host_dtype(value: Value | float) -> str:
    """The dtype of a number that a kernel is called with: floats come whole, as Python has them."""
    if isinstance(value, Value):
        return "float64" if value.spec.dtype.is_floating_point else value.spec.dtype.name
    return "int64" if isinstance(value, int) else "float64"


def reduced_dtype(record: Record, operand: Spec) -> DType:
    """The dtype a reduction is computed in."""
    return bool_ if record.logical else operand.dtype


def as_operand(x: Any) -> Any:
    """What promotion looks at: a spec, or a number (for the host's, any of its kind)."""
    if not isinstance(x, Value):
        return x
    if not x.host:
        return x.spec
    category = x.spec.dtype.category
    return (False, 0, 0.0, 0j)[category]

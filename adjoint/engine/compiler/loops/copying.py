"""Launches of kernels, and the kernels of plain copies."""

from __future__ import annotations

from adjoint.engine.compiler.fuse.fuse import POINT, Unit
from adjoint.engine.compiler.fuse.spaces import flatten, fresh
from adjoint.engine.compiler.loops.ir import AffineReference, Kernel, LoopKernel
from adjoint.engine.compiler.loops.nest import Nest
from adjoint.engine.compiler.memory.places import Place
from adjoint.engine.compiler.package.work import PlannedWork
from adjoint.engine.compiler.schedule.steps import Launch, Touch, whole
from adjoint.engine.compiler.target import Target
from adjoint.engine.core.dtype import DType
from adjoint.engine.core.spec import Spec
from adjoint.engine.graph.ir import Node, Value
from adjoint.engine.ops.shape.convert import CLONE


def kernel_step(kernel: Kernel) -> Launch:
    """A launch of one kernel; `batch` may put several together."""
    stores = {r for _, r in kernel.form.stores}
    return Launch(
        function="",
        words=[],
        reads=tuple(
            touch(kernel, r) for k, r in enumerate(kernel.refs) if r.buffer and k not in stores
        ),
        writes=tuple(touch(kernel, kernel.refs[k]) for k in sorted(stores)),
        pieces=1,
        cost=kernel.work * max(len(kernel.form.ops), 1),
        label="+".join(kernel.origin),
        form=kernel.form,
        kernels=[kernel],
    )


def touch(kernel: Kernel, ref: AffineReference) -> Touch:
    """The elements a reference can reach."""
    if ref.picks or ref.dtype.itemsize != ref.buffer.dtype.itemsize:  # it counts other elements
        return whole(ref.buffer)
    sizes = (*kernel.outer, *kernel.inner)
    steps = [(n - 1) * ref.strides[d] for d, n in enumerate(sizes)]
    low = ref.offset + sum(s for s in steps if s < 0)
    high = ref.offset + sum(s for s in steps if s > 0)
    return Touch(ref.buffer, low, high + 1)


def copy_step(
    target: Target, source: Place, place: Place, label: str = "copy", dtype: DType | None = None
) -> Launch:
    """A launch that copies one place to another of its shape; dtype: where a buffer has another."""
    unit = copy_unit(source, dtype)
    one = _One(unit.nodes[0])
    step = kernel_step(target.schedule(copy_kernel(unit, one, source, place)))
    step.label = label
    step.works = [
        PlannedWork(unit.nodes, [(unit.nodes[0].outputs[0], place)], one, lambda _: source)
    ]
    return step


class _One:
    """What a nest asks of a fusion, for a kernel of one node."""

    def __init__(self, node: Node) -> None:
        self.kinds = {node: POINT}
        self.fills: set[Value] = set()

    def rooted(self, x: Value) -> tuple[Value, list[Node]]:
        return x, []


def copy_unit(source: Place, dtype: DType | None = None) -> Unit:
    """A unit of one node, which copies a place."""
    spec = Spec(source.shape, source.buffer.dtype if dtype is None else dtype)
    node = Node(CLONE, (Value("source", spec),), {"strides": None})
    node.outputs = (Value("copy", spec, node),)
    where = fresh(source.shape)
    return Unit("loop", 0, [node], {node.outputs[0]: where}, flatten(where))


def copy_kernel(unit: Unit, one: _One, source: Place, target: Place) -> LoopKernel:
    """The kernel of a unit that copies one place to another of its shape."""
    (node,) = unit.nodes
    nest = Nest(unit, one, lambda _: source)
    nest.visit(node)
    nest.store(node.outputs[0], target)
    return nest.finish()

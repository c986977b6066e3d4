"""Batching as a transform: the payload has one more dimension, in front."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjoint.engine.autodiff.levels.stack import entered, next_depth
from adjoint.engine.autodiff.levels.steps import (
    attempted,
    computes_alone,
    gives_floats,
    is_disturbed,
)
from adjoint.engine.core.operations.call import Call
from adjoint.engine.core.operations.families import composite
from adjoint.engine.core.operations.levels import Level
from adjoint.engine.core.operations.record import Record, Rule, is_tensor
from adjoint.engine.core.spec import Spec
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.value import TensorBase
from adjoint.engine.ops.shape.views import VIEW_SCATTER
from adjoint.engine.tensor.tensor import Tensor, alias, symbolic_view
from adjoint.engine.tensor.writing.mutation import make_level_tensor, payload, write


class VmapLevel(Level):
    """The payload is the batched value, its batch in dimension 0."""

    __slots__ = ("composes", "randomness", "size")

    def __init__(self, depth: int, size: int, randomness: str, *, composes: bool = False) -> None:
        super().__init__(depth)
        self.size = size
        self.randomness = randomness
        self.composes = composes  # whether it is a step of its own (Note [steps of levels])

    def process(self, record: Record, operands: tuple[Any, ...], params: dict[str, Any]) -> Any:
        if record.is_view:
            source = operands[0]
            return symbolic_view(source, record.infer(source._spec, **params), record, params)
        batched = [isinstance(x, TensorBase) and x._storage.level is self for x in operands]
        values = [payload(x) if b else x for x, b in zip(operands, batched, strict=True)]
        if not is_disturbed():
            found = self.attempt(record, operands, params)
            if found is not None:
                return found
        if record.compose is not None:
            if not any(map(is_differentiated, values)):
                return record.compose(*operands, **params)
            results = batched_call(self, record, values, batched, params)
        else:
            results = self.apply(record, values, batched, operands, params)
        return self.wrapped(results)

    def attempt(self, record: Record, operands: Any, params: dict[str, Any]) -> Any:
        if self.composes:
            return None
        step = record.batched
        if step is None:
            step = batched_record(record)
        if not step:
            return None
        batched = [isinstance(x, TensorBase) and x._storage.level is self for x in operands]
        values = [payload(x) if b else x for x, b in zip(operands, batched, strict=True)]
        found = attempted(step, values, self.as_step(record, batched, params))
        if found is None:
            return None
        if record.with_batch is None:
            return self.wrapped(found)
        there = record.with_batch(batched, params)
        if found.__class__ is tuple:
            return self.wrapped_where(found, there)
        return self.wrap_payload(found) if there[0] else found

    def wrapped_where(self, results: tuple[Any, ...], there: list[bool]) -> tuple[Any, ...]:
        """The same for those that have the batch."""
        return tuple(
            [
                self.wrap_payload(x) if one and x is not None else x
                for x, one in zip(results, there, strict=True)
            ]
        )

    def wrapped(self, results: Any) -> Any:
        """Tensors of this level for batched values."""
        if isinstance(results, tuple):
            return tuple([None if r is None else self.wrap_payload(r) for r in results])
        return self.wrap_payload(results)

    def as_step(
        self, record: Record, batched: list[bool], params: dict[str, Any]
    ) -> dict[str, Any]:
        """The parameters of an operation on batches: a layer more than the operation's own."""
        layer = self.size, tuple(batched), self.randomness
        if "layers" not in params:
            return {**params, "layers": (layer,)}
        if record is BATCHED or record in BASES:
            return {**params, "layers": (layer, *params["layers"])}
        beneath = params["layers"], params.get("layers_beneath")
        return {**params, "layers": (layer,), "layers_beneath": beneath}

    def apply(
        self, record: Record, values: list[Any], batched: list[bool], operands: Any, params: Any
    ) -> Any:
        """The operation on batched values."""
        if record.family == "elementwise" and record.batch is None:
            return record(*self.align(values, batched), **params)
        if record.batch_mixed is not None and not all(batched):
            return record.batch_mixed(self.size, values, batched, **params)
        full = [
            v if b or not is_tensor(v) else v.expand((self.size, *v.shape))
            for v, b in zip(values, batched, strict=True)
        ]
        if record.batch is not None:
            return record.batch(self.size, *full, **params)
        if record.batched_params is not None:
            return record(*full, **record.batched_params(params, self.size))
        return self.loop(record, full, params)

    def align(self, values: list[Any], batched: list[bool]) -> list[Any]:
        """Give batched operands one rank, so that their batches meet when broadcasting."""
        rank = max(
            (v.ndim - b for v, b in zip(values, batched, strict=True) if is_tensor(v)), default=0
        )
        aligned = []
        for v, b in zip(values, batched, strict=True):
            if b and v.ndim - 1 < rank:
                v = v.reshape((self.size, *(1,) * (rank - v.ndim + 1), *v.shape[1:]))
            aligned.append(v)
        return aligned

    def loop(self, record: Record, full: list[Any], params: dict[str, Any]) -> Any:
        """One call per element, for operations that state no batching."""
        from adjoint.engine.ops.shape.join import stack

        rows = [
            record(*[v.select(0, i) if is_tensor(v) else v for v in full], **params)
            for i in range(self.size)
        ]
        if rows and isinstance(rows[0], tuple):
            return tuple(stack(column) for column in zip(*rows, strict=True))
        return stack(rows)

    def lift(self, tensor: Tensor) -> Any:
        return tensor.expand((self.size, *tensor.shape))

    def window(self, payload: Tensor, record: Record, params: dict[str, Any]) -> Any:
        if record.batch is not None:
            return record.batch(self.size, payload, **params)
        return record(payload, **record.batched_params(params, self.size))  # type: ignore[misc]

    def scatter(self, payload: Tensor, chain: tuple[Any, ...], new: Tensor) -> Any:
        return VIEW_SCATTER.batch(self.size, payload, new, chain=chain)  # type: ignore[misc]

    def tensors(self, payload: Tensor) -> tuple[Tensor]:
        return (payload,)

    def overwrite(self, payload: Tensor, new: Tensor) -> Tensor:
        return write(payload, new)

    def wrap_payload(self, payload: Tensor) -> Tensor:
        """A tensor of this level for a batched value."""
        spec = payload._spec
        return make_level_tensor(self, Spec(spec.shape[1:], spec.dtype, spec.device), payload)

    def detach(self, tensor: Tensor) -> Tensor:
        """Constant at all levels below."""
        return self.wrap_payload(payload(tensor).detach())


# -- operations on batches ------------------------------------------------------------------------
#
# The composition of a composite batches by itself. But where a tape or a transform beneath the
# batching differentiates, the batched composite must be one operation still, whose derivative is
# the stated one, batched; that of its composition would be another. And whatever an operation is,
# of few elements that nothing beneath differentiates it is one (Note [steps of levels]).


def is_differentiated(x: Any) -> bool:
    """Whether a tape or a transform may differentiate by this operand."""
    if not is_tensor(x):
        return False
    return x._storage.level is not None or (CONTEXT.grad_enabled and x.requires_grad)


BASES: dict[Record, Record] = {}  # of operations on batches, what is done for each element


def batched_record(record: Record) -> Record | None:
    """An operation for each element of batches in front of operands, as a composite.

    Its parameter `layers` has the batches, the outermost first, each as (size, which operands have
    it, randomness); `layers_beneath` those of what is batched
    in turn by what it is made of (rules, or duals, of an operation on batches). None: it is not for
    programs, as what it does is more than its results.
    """
    if record.batched is None:
        record.batched = made_for_batches(record) if computes_alone(record) else False
    return record.batched or None


def made_for_batches(record: Record) -> Record:
    """The record of an operation on batches."""

    def compose(*xs: Any, **params: Any) -> Any:
        outs = _compose(record, xs, params)
        return outs if record.outputs != 1 else outs[0]

    def joint(xs: Any, outs: Any, gs: Any, needed: Any, params: Any) -> list[Any]:
        return _joint(record, xs, outs, gs, needed, params)

    def joint_without_results(xs: Any, gs: Any, needed: Any, params: Any) -> list[Any]:
        return _joint(record, xs, [None] * len(gs), gs, needed, params)

    rule = joint_without_results if record.part_by_part else joint

    def with_batch(batched: Sequence[bool], params: dict[str, Any]) -> list[bool]:
        return record.with_batch(batched, _within(record, params)[2])  # type: ignore[misc]

    made = Record(
        f"batched_{record.name}",
        "composite",
        infer=BATCHED.infer,
        operands=("*xs",),
        outputs=record.outputs,
        joint=Rule.of(rule) if record.differentiable else None,
        compose=compose,
        part_by_part=record.part_by_part,
        given_a_draw=record.given_a_draw,
        given_floats=gives_floats(record),
        with_batch=None if record.with_batch is None else with_batch,
        listed=False,
    )
    made.batched = made  # batches of batches: a layer more
    BASES[made] = record
    return made


def batched_call(
    level: VmapLevel, record: Record, values: list[Any], batched: list[bool], params: dict[str, Any]
) -> Any:
    """A composite with a stated derivative, as one operation on the batch."""
    given = level.as_step(record, batched, params)
    step = batched_record(record) if CONTEXT.capture is None else None
    if step is not None:
        return step(*values, **given)
    if record is BATCHED:
        return BATCHED(*values, **given)
    outs = BATCHED(*values, record=BASES.get(record, record), **given)
    return outs if record.outputs != 1 else outs[0]


def _within(record: Record, params: dict[str, Any]) -> tuple[Any, Record, dict[str, Any]]:
    """The first layer, and the operation and parameters it batches."""
    rest = dict(params)
    layer, *layers = rest.pop("layers")
    if not layers:
        if "layers_beneath" in rest:
            rest["layers"], further = rest.pop("layers_beneath")
            if further is not None:
                rest["layers_beneath"] = further
        return layer, record, rest
    rest["layers"] = tuple(layers)
    step = batched_record(record)
    return (layer, BATCHED, {"record": record, **rest}) if step is None else (layer, step, rest)


def _raise(level: VmapLevel, values: Sequence[Any], batched: Sequence[bool]) -> tuple[Any, ...]:
    """Values at the level, those that have its batch."""
    return tuple(
        level.wrap_payload(v) if b and v is not None else v
        for v, b in zip(values, batched, strict=True)
    )


def _lower(level: VmapLevel, value: Any) -> Any:
    """A value of the level with its batch in front, expanded where it has none."""
    return payload(value) if value._storage.level is level else level.lift(value)


def _compose(record: Record, xs: tuple[Any, ...], params: dict[str, Any]) -> tuple[Any, ...]:
    """The results of an operation on batches, by its composition where it has one."""
    (size, batched, randomness), inside, inner = _within(record, params)
    with entered(VmapLevel(next_depth(), size, randomness, composes=True)) as level:
        work: Any = inside if inside.compose is None else inside.compose
        outs = work(*_raise(level, xs, batched), **inner)
        found = outs if isinstance(outs, tuple) else (outs,)
        there = _with_batch(inside, batched, inner, len(found))
        lowered = [
            _lower(level, o) if one and o is not None else o
            for o, one in zip(found, there, strict=True)
        ]
    return tuple(lowered) if CONTEXT.capture is not None else _apart(lowered, xs)


def _apart(outs: list[Any], xs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Results that are tensors of their own: a tape puts each on it, which no operand may be."""
    seen = set(map(id, xs))
    for k, out in enumerate(outs):
        if id(out) in seen and out is not None:
            outs[k] = alias(out)
        seen.add(id(out))
    return tuple(outs)


def _with_batch(
    record: Record, batched: Sequence[bool], params: dict[str, Any], outs: int
) -> list[bool]:
    """Which results have the batch."""
    return [True] * outs if record.with_batch is None else record.with_batch(batched, params)


def _joint(
    record: Record,
    xs: Sequence[Any],
    outs: Any,
    gs: Sequence[Any],
    needed: Sequence[bool],
    params: dict[str, Any],
) -> list[Any]:
    """The stated rules, batched; the cotangents of what the batch shares add up.

    Those of results that have no batch count once, not once for each element: they go apart.
    """
    (size, batched, randomness), inside, inner = _within(record, params)
    there = _with_batch(inside, batched, inner, len(gs))
    total: list[Any] = [None] * len(xs)
    with entered(VmapLevel(next_depth(), size, randomness, composes=True)) as level:
        call = Call(inside, _raise(level, xs, batched), inner, _raise(level, outs, there))
        for shared in (False, True):
            given = [g if one is not shared else None for g, one in zip(gs, there, strict=True)]
            if all(g is None for g in given):
                continue
            pulled = call.pull(_raise(level, given, there), needed)
            for k, g in enumerate(pulled):
                if g is None:
                    continue
                if not shared:
                    g = _lower(level, g)
                    g = g if batched[k] else g.sum(0)
                elif g._storage.level is level:
                    raise AssertionError(f"{inside.name}: a batch where the results have none")
                total[k] = g if total[k] is None else total[k] + g
    return total


def _compose_recorded(*xs: Any, record: Record, **params: Any) -> tuple[Any, ...]:
    return _compose(record, xs, params)


def _joint_recorded(
    xs: Sequence[Any], outs: Any, gs: Sequence[Any], needed: Sequence[bool], params: Any
) -> list[Any]:
    rest = dict(params)
    return _joint(rest.pop("record"), xs, outs, gs, needed, rest)


# BATCHED(xs..., record=, layers=, parameters of the record...): the same as one record for all
# operations, which recordings and files know by its name, and what `batched_record` has none for.
BATCHED = composite(
    "batched", _compose_recorded, operands=("*xs",), outputs=0, joint=_joint_recorded
)
BATCHED.batched = BATCHED.pushed = False  # nobody knows what it stands for: perhaps for a draw

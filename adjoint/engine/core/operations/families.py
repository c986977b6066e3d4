"""Families of primitives: a mathematical kind from which the rules follow.

elementwise  one partial per operand; gives vjp, jvp and batching
linear       a transpose per operand; gives vjp and jvp (views and reductions by sum are linear)
bilinear     a transpose per operand; linear in each
reduction    elements over dimensions, combined two at a time (`core.operations.reductions`)
primitive    anything else: vjp written out; jvp too, or derived by transposing the vjp twice
composite    made of other operations
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import is_
from typing import Any

from adjoint.engine.core.dtype import BOOL, COMPLEX, FLOAT, DType
from adjoint.engine.core.errors import DeviceError, users_line
from adjoint.engine.core.operations.overrides import OVERRIDES
from adjoint.engine.core.operations.record import REGISTRY, Record, Rule, is_tensor
from adjoint.engine.core.promotion import promote, specs_of
from adjoint.engine.core.spec import Spec, UnknownShapeError, broadcast_shapes, same_shape
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.state.host import HostScalar
from adjoint.engine.core.value import TensorBase

Fn = Callable[..., Any]


class Inverse:
    """The partial 1 / divisor: tangents and cotangents are divided by it, not multiplied by 1 / it.

    That rounds once, not twice, as PyTorch's rules do, and where 1 / divisor is beyond the largest
    number a quotient need not be.
    """

    __slots__ = ("divisor",)

    def __init__(self, divisor: Any) -> None:
        self.divisor = divisor


class Unless:
    """A partial that is nothing where `none` holds, whatever else is multiplied there.

    A cotangent that is inf or NaN does not reach an operand that an element does not depend on.
    """

    __slots__ = ("none", "partial")

    def __init__(self, partial: Any, none: Any) -> None:
        self.partial = partial
        self.none = none


def elementwise(
    name: str,
    *partials: Fn | float | None,
    promotion: str = "same",
    infer_dtype: Fn | None = None,
    accepts: str = "bifc",
    tensors: int = 0,
    check: Fn | None = None,
    **options: Any,
) -> Record:
    """An operation on corresponding elements, with broadcasting.

    Each partial is d out / d operand: a function of what it needs, a constant, or None where
    there is no gradient. A partial that returns booleans selects rather than multiplies, one that
    is an `Inverse` divides, an `Unless` leaves elements out. For a real result of complex operands
    a partial p means that d out is the real part of p times dx.
    `accepts` names the categories of dtype it computes in (bool, int, float, complex), `tensors`
    says how many of the first operands cannot be numbers; `check` is called with the operands'
    specs and numbers where a refusal depends on more; `infer_dtype` gives the result's dtype
    where the kind of promotion does not.
    """

    skip = options.get("promotes_from", 0)

    def infer(*operands: Any, **params: Any) -> Spec:
        specs = specs_of(operands)
        if len(specs) < len(operands):
            require_operands(name, operands, tensors)
        shape = broadcast_shapes(name, *[s.shape for s in specs])
        if check is not None:
            check(*operands)
        computed, result = promote(promotion, operands[skip:])
        if "bifc"[computed.category] not in accepts:
            raise NotImplementedError(
                f"{name}: not implemented for {computed.name}, the common dtype of "
                f"{', '.join(map(describe_operand, operands))}. Convert the operands with .to(...)."
            )
        if infer_dtype is not None:
            result = infer_dtype(*operands, **params)
        return Spec(shape, result, device_of(name, specs))

    rules = tuple(_partial_rule(p) for p in (partials or (None,)))
    return Record(
        name,
        "elementwise",
        options.pop("infer", infer),
        promotion=promotion,
        partials=rules,
        keeps_layout=True,
        native_check=options.pop("native_check", True),
        **options,
    )


def _partial_rule(partial: Fn | float | None) -> Rule | float | None:
    """A partial as the record keeps it; that of a step function, 0, selects nothing."""
    if not isinstance(partial, (int, float)):
        return Rule.of(partial)
    return float(partial) if partial else Rule(lambda: False, ())


def require_operands(name: str, operands: Sequence[Any], tensors: int = 0) -> None:
    """Refuse what is neither a tensor nor a number, and numbers where tensors are wanted."""
    if not any(isinstance(x, Spec) for x in operands):
        tensors = max(tensors, 1)
    for position, x in enumerate(operands, 1):
        if isinstance(x, Spec):
            continue
        if position <= tensors:
            raise TypeError(f"{name}(): argument {position} must be Tensor, not {type(x).__name__}")
        if not isinstance(x, (bool, int, float, complex, HostScalar)):
            raise TypeError(
                f"{name}(): argument {position} must be Tensor or Number, not {type(x).__name__}"
            )


def describe_operand(x: Any) -> str:
    """A spec or a scalar in an error message."""
    return str(x) if isinstance(x, Spec) else type(x).__name__


def device_of(name: str, specs: Sequence[Spec]) -> Any:
    """The one device of all operands; a 0-d CPU tensor may join any device."""
    if len({s.device for s in specs}) == 1:
        return specs[0].device
    device = None
    for s in specs:
        if device is None or (s.device != device and device.type == "cpu"):
            device = s.device
    for s in specs:
        if s.device != device and (s.shape or s.device.type != "cpu"):
            raise DeviceError(
                f"{name}: expected all tensors to be on the same device, but found at least two "
                f"devices, {device} and {s.device}! Move one with .to({str(device)!r})."
            )
    return device


def linear(name: str, infer: Fn, *transposes: Fn | None, **options: Any) -> Record:
    """An operation linear in all its operands jointly; `transposes` map g to each operand's."""
    return Record(name, "linear", infer, vjp=tuple(Rule.of(t) for t in transposes), **options)


def bilinear(name: str, infer: Fn, *transposes: Fn | None, **options: Any) -> Record:
    """An operation linear in each of two operands."""
    return Record(name, "bilinear", infer, vjp=tuple(Rule.of(t) for t in transposes), **options)


def primitive(
    name: str,
    infer: Fn,
    *vjps: Fn | None,
    joint: Fn | None = None,
    jvp: Fn | None = None,
    **options: Any,
) -> Record:
    """An operation of no family: `vjps` map cotangents to each operand's gradient.

    Or `joint` does so for all operands together.
    """
    return Record(
        name,
        "primitive",
        infer,
        vjp=tuple(Rule.of(v) for v in vjps),
        joint=_joint_rule(name, joint, vjps),
        jvp=Rule.of(jvp),
        **options,
    )


def _joint_rule(name: str, joint: Fn | None, vjps: Sequence[Fn | None]) -> Rule | None:
    if joint is not None and any(v is not None for v in vjps):
        raise ValueError(f"record {name!r} states its derivatives twice: jointly and one by one")
    return Rule.of(joint)


def depends_on_values(name: str, remedy: str) -> Fn:
    """The `infer` and `batch` of an operation whose result's shape its operands' values decide.

    Such a record has native_check=True, so that eager execution never asks.
    """

    def refuse(*operands: Any, **_: Any) -> Any:
        given = next((f" ({x})" for x in operands if isinstance(x, Spec)), "")
        raise UnknownShapeError(
            f"{name}: the shape of the result, at {users_line()}, depends on the values of the "
            f"input{given}, which are not known inside vmap or while tracing. {remedy}"
        )

    return refuse


def no_derivative(name: str) -> Fn:
    """The rule of operands by which a derivative exists but is not stated.

    Results are on the tape, so that backward refuses instead of leaving a term out.
    """

    def refuse(g: Any) -> Any:
        raise NotImplementedError(
            f"{name}: the derivative is not implemented. Give it tensors that are detached."
        )

    return refuse


def sized_by_values(refuse: Fn, shape: Fn) -> Fn:
    """The `infer` of such an operation that says its results where such sizes may have names.

    `shape` is given what names the next size, the operands' specs and the parameters.
    """

    def infer(*operands: Any, **params: Any) -> Any:
        sizes = CONTEXT.value_sizes
        if sizes is None:
            return refuse(*operands, **params)
        return shape(sizes.next, *operands, **params)

    return infer


def composite(
    name: str, compose: Fn, *vjps: Fn | None, joint: Fn | None = None, **options: Any
) -> Record:
    """A named composition; one node in a graph, optionally with stable derivatives of its own."""

    def infer(*_: Any, **__: Any) -> Spec:
        raise NotImplementedError(f"{name}: a composite is inferred by tracing its composition")

    return Record(
        name,
        "composite",
        infer,
        vjp=tuple(Rule.of(v) for v in vjps),
        joint=_joint_rule(name, joint, vjps),
        compose=compose,
        **options,
    )


def pull_jointly(record: Record, needed: Sequence[bool], look_up: Fn) -> list[Any]:
    """The cotangents of all operands that are `needed`, by the rule that states them together."""
    return only_needed(record, record.joint(look_up), needed)  # type: ignore[misc]


def only_needed(record: Record, cotangents: Sequence[Any], needed: Sequence[bool]) -> list[Any]:
    """What a joint rule found, without what nobody asked for."""
    if len(cotangents) != len(needed):
        raise ValueError(
            f"{record.name}: its joint rule gave {len(cotangents)} cotangents for {len(needed)} "
            "operands. Return one for each, None where there is none."
        )
    return [g if n else None for g, n in zip(cotangents, needed, strict=True)]


def pull(record: Record, position: int, look_up: Fn) -> Any:
    """The cotangent of the operand at `position`: the vjp, whatever the family states it as.

    `look_up` also answers "spec", the operand's, and "position".
    """
    rule = record.rule_at(position)
    if rule is None:
        return None
    if record.family != "elementwise":
        return rule(look_up)  # type: ignore[operator]
    g = look_up("g")
    partial = rule if isinstance(rule, float) else partial_for(g, rule.fn, rule.arguments(look_up))
    return fit(apply_partial(g, partial, conjugate=True), look_up("spec"))


def partial_for(g: Any, fn: Fn, arguments: Sequence[Any]) -> Any:
    """A partial as its rule states it, in no less precision than the (co)tangent g has.

    Rules compute with operands as they are, and 1 / y of whole numbers or halves beside a wide x
    would round to their own precision.
    """
    usual = g._array.dtype
    for x in arguments:
        if isinstance(x, TensorBase) and x._array.dtype is not usual:
            return _wide_partial(g, fn, arguments)
    return fn(*arguments)


def _wide_partial(g: Any, fn: Fn, arguments: Sequence[Any]) -> Any:
    """The partial of operands of other dtypes than g's; one that is an operand loses nothing."""
    partial = fn(*arguments)
    made = partial.divisor if partial.__class__ is Inverse else partial
    if not isinstance(made, TensorBase) or made.dtype.category == BOOL:  # type: ignore[attr-defined]
        return partial
    if any(made is x for x in arguments):
        return partial
    wide = g.dtype.to_real()
    widened = [_widened(x, wide) for x in arguments]
    return partial if all(map(is_, widened, arguments)) else fn(*widened)


def _widened(x: Any, wide: DType) -> Any:
    """An operand in at least a precision; what is no tensor, or has it, as it is."""
    if not isinstance(x, TensorBase):
        return x
    have: DType = x.dtype  # type: ignore[attr-defined]
    if have is wide or (have.category >= FLOAT and have.to_real().itemsize >= wide.itemsize):
        return x
    return x.to(wide.to_complex() if have.is_complex else wide)  # type: ignore[attr-defined]


def apply_partial(g: Any, p: Any, conjugate: bool) -> Any:
    """A tangent times a partial, or a cotangent times its conjugate.

    Booleans select, so that 0 * inf cannot arise where an operation does not depend on its
    operand; a number multiplies as it does in the operation. 1 and -1 cost no multiplication.
    """
    if isinstance(p, TensorBase):
        category = p.dtype.category  # type: ignore[attr-defined]
        if category == BOOL:
            return g.where(p, 0)
        return g * (p.conj() if conjugate and category == COMPLEX else p)  # type: ignore[attr-defined]
    if p.__class__ is Inverse:
        return _divided(g, p.divisor, conjugate)
    if p.__class__ is Unless:
        return (g * p.partial).masked_fill(p.none, 0)
    if isinstance(p, HostScalar):  # comparing it would fix its value
        return g * p
    if p is False:  # the gradient is there, and zero
        return g.new_zeros(g.shape)
    if p == 1:
        return g
    if p == -1:
        return -g
    return g * (p.conjugate() if conjugate and isinstance(p, complex) else p)


def _divided(g: Any, divisor: Any, conjugate: bool) -> Any:
    """A tangent divided by what a partial is the inverse of, or a cotangent by its conjugate."""
    if isinstance(divisor, TensorBase):
        turned = conjugate and divisor.dtype.is_complex  # type: ignore[attr-defined]
        return g / (divisor.conj() if turned else divisor)  # type: ignore[attr-defined]
    return g / (divisor.conjugate() if conjugate and isinstance(divisor, complex) else divisor)


def fit(g: Any, spec: Spec) -> Any:
    """A cotangent made to match its operand: broadcast dimensions summed, dtype cast back."""
    if g is None:
        return None
    if not same_shape(g.shape, spec.shape):
        g = g.sum_to_size(spec.shape)
    own = g.dtype
    if own is not spec.dtype:
        if own.is_complex:
            g = g if spec.dtype.is_complex else g.real
        elif not OVERRIDES.active:  # what `to` comes to
            return REGISTRY["cast"](g, dtype=spec.dtype)
        g = g.to(spec.dtype)
    return g


def push(
    record: Record,
    operands: Sequence[Any],
    tangents: Sequence[Any],
    look_up: Fn,
    params: dict[str, Any],
) -> Any:
    """The tangent of the result from those of the operands (None: zero); the jvp.

    Returns NotImplemented where the record states no way, and the vjp must be transposed.
    """
    if record.jvp is not None:
        return record.jvp(look_up)
    if record.family == "elementwise":
        return _push_elementwise(record, tangents, look_up)
    if record.linear:
        return record(*_fill_tangents(record, operands, tangents), **params)
    if record.family == "bilinear":
        x, y = operands
        tx, ty = tangents
        terms = [record(tx, y, **params)] if tx is not None else []
        if ty is not None:
            terms.append(record(x, ty, **params))
        return terms[0] if len(terms) == 1 else terms[0] + terms[1]
    return NotImplemented


def _fill_tangents(record: Record, operands: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
    """Tangents with zeros made explicit; an operand without a rule (an index) stays itself."""
    return [
        t
        if t is not None
        else x.new_zeros(x.shape)
        if is_tensor(x) and record.rule_at(i) is not None
        else x
        for i, (x, t) in enumerate(zip(operands, tangents, strict=True))
    ]


def _push_elementwise(record: Record, tangents: Sequence[Any], look_up: Fn) -> Any:
    total = None
    out_spec = look_up("out_spec")
    for rule, t in zip(record.partials, tangents, strict=False):
        if t is None or rule is None:
            continue
        partial = (
            rule if isinstance(rule, float) else partial_for(t, rule.fn, rule.arguments(look_up))
        )
        term = apply_partial(t, partial, conjugate=False)
        total = term if total is None else total + term
    if total is None:
        return None
    if total.dtype is not out_spec.dtype:
        if total.dtype.is_complex and not out_spec.dtype.is_complex:
            total = total.real
        total = total.to(out_spec.dtype)
    return total.expand(out_spec.shape) if total.shape != out_spec.shape else total

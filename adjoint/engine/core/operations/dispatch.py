"""bind, beyond the fast path: autocast, transform levels, composites, capture, tape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy import ndarray

from adjoint.engine.core.operations.autocast import CALM_ON_CPU, LOWERED
from adjoint.engine.core.operations.large import DEVICE_LAYOUTS
from adjoint.engine.core.operations.levels import Level
from adjoint.engine.core.operations.record import HOOKS, Record, is_tensor
from adjoint.engine.core.state.context import CONTEXT, INFERENCE_VERSION
from adjoint.engine.core.value import TensorBase


def flat_tensors(operands: tuple[Any, ...]) -> list[Any]:
    """The tensors among operands."""
    return [x for x in operands if is_tensor(x)]


def highest_level(operands: tuple[Any, ...]) -> Level | None:
    """The deepest level any operand lives at."""
    top: Level | None = None
    for x in operands:
        if isinstance(x, TensorBase):
            level = x._storage.level
            if level is not None and (top is None or level.depth > top.depth):
                top = level
    if top is not None and not top.active:
        raise RuntimeError(
            f"a tensor from inside a finished {type(top).__name__} transform was used after it "
            "returned. Return the value from the function instead of keeping it."
        )
    return top


PLAIN = frozenset((int, float, bool, complex, str, tuple, list, dict, type(None)))


def is_library_scalar(x: Any) -> bool:
    """Whether an operand is a number of an array library's."""
    if x.__class__ in PLAIN or is_tensor(x):
        return False
    return getattr(x, "shape", None) == () and hasattr(x, "item")


def with_plain_numbers(operands: tuple[Any, ...]) -> tuple[Any, ...]:
    """Operands whose numbers are Python's: only those promote as numbers do."""
    for x in operands:  # not `any`: a transform asks this of every operation several times
        if x.__class__ in PLAIN or isinstance(x, TensorBase):
            continue
        if is_library_scalar(x):
            return tuple([x.item() if is_library_scalar(x) else x for x in operands])
    return operands


def is_on_device(operands: tuple[Any, ...]) -> bool:
    """Whether the first tensor is where operations are fragments whatever their size."""
    for x in operands:
        if is_tensor(x):
            return x._array.__class__ in DEVICE_LAYOUTS
    return False


def is_calm(record: Record, operands: tuple[Any, ...]) -> bool:
    """Whether autocast has nothing to say of an operation on the CPU, nor of any of its parts."""
    if record.policies is not None and "cpu" in record.policies:
        return False
    if record.compose is not None and record.name not in CALM_ON_CPU:
        return False
    tensors = [x._array for x in operands if isinstance(x, TensorBase)]
    return bool(tensors) and all(array.__class__ is ndarray for array in tensors)


def is_packed_alone(record: Record) -> bool:
    """Whether hooks for what the tape saves are all that is on, and an operation is one node.

    Note [packing afterwards]
        Hooks see what is saved, and nothing else of an operation. So it runs as it does without
        them, natively where it can, and what its node saved is packed when it is there.
    """
    get = CONTEXT.__dict__.get
    return (
        bool(get("saved_hooks"))
        and record.compose is None
        and record.attach is None
        and not (
            get("levels")
            or get("inference")
            or get("autocast") is not None
            or get("capture") is not None
            or get("anomaly")
            or get("reference")
            or get("observers")
            or get("takers")
        )
    )


def bind_packed(record: Record, operands: tuple[Any, ...], params: dict[str, Any]) -> Any:
    """Perform an operation, then pack what its node saved (Note [packing afterwards])."""
    context = CONTEXT
    since, hooks = HOOKS.sequence_now(), context.saved_hooks
    context.saved_hooks, context.settled, context.plain = (), True, True
    try:
        outs = HOOKS.run(record, operands, params)
    finally:
        context.saved_hooks, context.settled, context.plain = hooks, False, False
    HOOKS.pack_saved(outs, since)
    return outs


def bind(record: Record, operands: tuple[Any, ...], params: dict[str, Any]) -> Any:
    """Perform an operation in a context that is not plain."""
    context = CONTEXT
    if context.saved_hooks and is_packed_alone(record):
        return bind_packed(record, with_plain_numbers(operands), params)
    if (
        context.inferring
        and not context.grad_enabled
        and (context.autocast is None or (record.policies is None and record.compose is None))
    ):
        return for_inference(HOOKS.run, (record, operands, params), {}, operands)
    operands = with_plain_numbers(operands)
    if (
        context.settled
        and record.policies is None  # so autocast has nothing to say of it, nor of parts it has not
        and (
            record.on_device or record.is_view if is_on_device(operands) else record.compose is None
        )
    ):
        return HOOKS.run(record, operands, params)
    if context.settled and context.autocast is not None and is_calm(record, operands):
        # `context.having(autocast=None)`, at a fraction of its time
        policy, context.autocast, context.plain = context.autocast, None, True
        try:
            return HOOKS.run(record, operands, params)
        finally:
            context.autocast, context.plain = policy, False
    if context.takers and context.capture is None:
        *outer, taker = context.takers
        with context.having(takers=tuple(outer)):
            return taker(record, operands, params)
    if HOOKS.sparse is not None and HOOKS.sparse.among(operands):
        return HOOKS.sparse.process(record, operands, params)
    if context.capture is not None and context.capture.closes:
        operands = context.capture.enter(operands)
    if context.autocast is not None and record.policies is not None:
        if record.name in LOWERED and context.settled and is_on_device(operands):
            dtype = context.autocast.lower_on_device(operands)
            if dtype is not None:
                return HOOKS.run(LOWERED[record.name], operands, {**params, "dtype": dtype})
        cast = context.autocast(record, operands)
        if cast is not None:  # inside, precision is settled
            policy, context.autocast, context.plain = context.autocast, None, context.settled
            try:  # `context.having(autocast=None)`, at a fraction of its time
                return record(*cast, **params)
            finally:
                context.autocast, context.plain = policy, False
    if context.levels:
        level = highest_level(operands)
        if level is not None:
            if record.compose is not None and not record.differentiable:
                return record.compose(*operands, **params)
            return level.process(record, operands, params)
    if HOOKS.wrappers is not None and HOOKS.wrappers.among(operands):
        return HOOKS.wrappers.process(record, operands, params)
    if record.compose is not None:
        return bind_composite(record, operands, params)
    if context.capture is not None:
        outs = context.capture.record(record, operands, params)
    elif context.levels:
        outs = HOOKS.execute_beneath(record, operands, params)
    else:
        outs = HOOKS.execute(record, operands, params)
    return finish(record, operands, params, outs)


def bind_composite(record: Record, operands: tuple[Any, ...], params: dict[str, Any]) -> Any:
    """A composite outside transforms: one node if its derivative is stated, else inlined."""
    tracked = CONTEXT.grad_enabled and any(x.requires_grad for x in flat_tensors(operands))
    if tracked and not record.differentiable:
        return record.compose(*operands, **params)  # type: ignore[misc]
    before = CONTEXT.grad_enabled
    try:  # not `with`: a KeyboardInterrupt may come where its end is entered
        CONTEXT.grad_enabled = False
        if CONTEXT.capture is not None:
            outs = CONTEXT.capture.record_composite(record, operands, params)
        elif CONTEXT.levels:
            outs = HOOKS.execute_beneath(record, operands, params)
        else:
            outs = HOOKS.execute(record, operands, params)
    finally:
        CONTEXT.grad_enabled = before
    if tracked:
        own(outs, operands)
    return finish(record, operands, params, outs)


def own(outs: Any, operands: tuple[Any, ...]) -> None:
    """Make results of a composite, which may end in a view of its own memory, views of nothing.

    That memory nobody else can name: a write to the result is a write to a whole tensor, and not
    one through a view that was made without gradients, which would be refused.
    """
    for out in flat_tensors(outs if isinstance(outs, tuple) else (outs,)):
        if out._base is not None and all(
            out._storage is not x._storage for x in flat_tensors(operands)
        ):
            out._base = None


def for_inference(
    fn: Callable[..., Any], args: Any, kwargs: dict[str, Any], operands: tuple[Any, ...]
) -> Any:
    """A call in inference mode, where nothing else is on, of what writes to no operand.

    Note [inference mode]
        Off the tape inference mode differs from a plain context in one thing: new storages are
        marked. So an operation runs as in a plain context, on every short way there is, and what
        it made is marked afterwards: storages of results that are no operand's.
    """
    context, policy = CONTEXT.__dict__, CONTEXT.autocast
    context["inference"] = context["inferring"] = False
    context["settled"] = context["plain"] = True
    context["autocast"] = None  # it has said what it has to say
    try:  # `CONTEXT.having(inference=False)`, at a fraction of its time
        outs = fn(*args, **kwargs)
    finally:
        context["settled"] = context["plain"] = False
        context["autocast"] = policy
        context["inference"] = context["inferring"] = True
    mark_for_inference(outs, operands)
    return outs


def mark_for_inference(outs: Any, operands: tuple[Any, ...]) -> None:
    """Note in storages that no operand has that they were made in inference mode."""
    for t in outs if isinstance(outs, (tuple, list)) else (outs,):
        if isinstance(t, TensorBase):
            storage = t._storage
            if not is_among(storage, operands):
                storage.version = INFERENCE_VERSION


def is_among(storage: Any, operands: Any) -> bool:
    """Whether a storage is that of an operand, or of one in a list."""
    for x in operands:
        if isinstance(x, TensorBase):
            if x._storage is storage:
                return True
        elif x.__class__ in (list, tuple) and is_among(storage, x):
            return True
    return False


def mark_birth(storage: Any) -> None:
    """Note in a new storage the transform it was made in, or that it was made for inference."""
    if CONTEXT.levels:
        storage.birth = CONTEXT.levels[-1].depth
    if CONTEXT.inference:
        storage.version = INFERENCE_VERSION


def finish(record: Record, operands: tuple[Any, ...], params: dict[str, Any], outs: Any) -> Any:
    """Tape, birth marks and observers, after execution."""
    context = CONTEXT
    if context.capture is not None and context.capture.closes:
        outs = context.capture.seal(record, outs)
    if not record.is_view and (context.levels or context.inference):
        for t in outs if isinstance(outs, tuple) else (outs,):
            if t is not None:
                mark_birth(t._storage)
    if (context.grad_enabled and not context.inference) and (
        record.is_view or any(x.requires_grad for x in flat_tensors(operands))
    ):
        HOOKS.attach(record, operands, params, outs)
    for observe in context.observers:
        observe(record, operands, params, outs)
    return outs


HOOKS.bind = bind

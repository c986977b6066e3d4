"""Checkpointing: recompute in backward instead of saving.

Without reentry (the recommended form): a saved-tensor hook leaves a placeholder where the forward
pass would have saved a tensor. When backward asks for the first of them, the function runs again
and its saved tensors, in the same order, fill the placeholders. With reentry: a custom function
that saves its inputs and runs a backward of its own inside backward.
"""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any

from adjoint.engine.autodiff.levels.function import Function
from adjoint.engine.autodiff.tape.engine import running_for_targets
from adjoint.engine.autodiff.tape.reverse import backward
from adjoint.engine.autodiff.tape.saved import Packed, saved_tensors_hooks, stale
from adjoint.engine.core.device import Device
from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.state.rng import default_generator_of, defaults
from adjoint.engine.core.tree import flatten
from adjoint.engine.tensor.tensor import Tensor

Contexts = Callable[[], tuple[AbstractContextManager[Any], AbstractContextManager[Any]]]


# Contexts that functions called now run in once more when they are computed again: a sharded
# module's parameters are whole inside it only.
SURROUNDINGS: ContextVar[tuple[Callable[[], AbstractContextManager[Any]], ...]] = ContextVar(
    "surroundings", default=()
)


class CheckpointError(RuntimeError):
    """The recomputation did not do what the forward pass did."""


class _Enough(Exception):
    """Every placeholder is filled: the rest of the recomputation is not needed."""


class Ambience:
    """What besides its arguments a function's result depends on: random state, autocast, ..."""

    def __init__(self, *, preserve_rng: bool) -> None:
        self.autocast = CONTEXT.autocast
        self.surroundings = SURROUNDINGS.get()
        self.random = (
            [(d, default_generator_of(d).clone_state()) for d in defaults()] if preserve_rng else []
        )

    @contextmanager
    def again(self) -> Iterator[None]:
        """The same once more, then everything as it was."""
        now = [(d, default_generator_of(d).clone_state()) for d, _ in self.random]
        for device, state in self.random:
            default_generator_of(device).graphsafe_set_state(state.clone_state())
        try:
            with CONTEXT.having(autocast=self.autocast, grad_enabled=True), ExitStack() as stack:
                for surrounding in self.surroundings:
                    stack.enter_context(surrounding())
                yield
        finally:
            for device, state in now:
                default_generator_of(device).graphsafe_set_state(state)


def get_device_states(*args: Any) -> tuple[list[int], list[Tensor]]:
    """GPUs among the arguments' devices, and the states of their generators.

    For code that runs a part of a network again by itself, as reversible layers do.

    >>> import adjoint as ad
    >>> get_device_states(ad.ones(1))
    ([], [])
    """
    devices = {x.device for x in flatten(args)[0] if is_tensor(x)}
    gpus = sorted((d for d in devices if d.type == "cuda"), key=lambda d: d.index or 0)
    return [d.index or 0 for d in gpus], [default_generator_of(d).get_state() for d in gpus]


def set_device_states(
    devices: Sequence[int], states: Sequence[Tensor], *, device_type: str | None = None
) -> None:
    """Give the generators of GPUs states that `get_device_states` found."""
    for index, state in zip(devices, states, strict=True):
        default_generator_of(Device(device_type or "cuda", index)).set_state(state)


class KeptArgument:
    """A tensor argument kept for recomputation, by an outer checkpoint's hook if there is one."""

    __slots__ = ("requires_grad", "saved", "version")

    def __init__(self, tensor: Tensor) -> None:
        self.requires_grad = tensor.requires_grad
        self.version = tensor._storage.version
        self.saved: Any = Packed(tensor, None) if CONTEXT.saved_hooks else tensor

    def load(self) -> Any:
        """A leaf with the argument's elements."""
        tensor = self.saved
        if tensor.__class__ is Packed:
            tensor = tensor.load()
        elif tensor._storage.version != self.version:
            raise stale(tensor, self.version, "checkpoint")
        return tensor.detach().requires_grad_(self.requires_grad)


class Holder:
    """A placeholder for one saved tensor."""

    __slots__ = ("__weakref__", "spec")

    def __init__(self, spec: Any) -> None:
        self.spec = spec


class CheckpointedCall:
    """One checkpointed call."""

    def __init__(
        self, function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any],
        ambience: Ambience, context: AbstractContextManager[Any], *, check: bool, early_stop: bool,
    ) -> None:  # fmt: skip
        self.function = function
        self.args = [KeptArgument(a) if is_tensor(a) else a for a in args]
        self.kwargs = {k: KeptArgument(a) if is_tensor(a) else a for k, a in kwargs.items()}
        self.ambience = ambience
        self.context = context
        self.check = check
        self.early_stop = early_stop
        self.holders: list[weakref.ref[Holder]] = []
        # Freed one by one, as the tape lets go of the placeholders.
        self.values: weakref.WeakKeyDictionary[Holder, Tensor] = weakref.WeakKeyDictionary()

    def pack(self, tensor: Tensor) -> Holder:
        """Leave a placeholder."""
        holder = Holder(tensor._spec)
        self.holders.append(weakref.ref(holder))
        return holder

    def unpack(self, holder: Holder) -> Tensor:
        """The tensor a placeholder stands for."""
        if holder not in self.values:
            self.recompute()
        if holder not in self.values:
            raise CheckpointError(
                "checkpoint: A different number of tensors was saved during the original forward "
                "and recomputation. The function must do the same both times."
            )
        return self.values[holder]

    def recompute(self) -> None:
        """Run the function again, filling the placeholders still wanted."""
        count = 0

        def refill(tensor: Tensor) -> Tensor:
            nonlocal count
            holder = self.holders[count]() if count < len(self.holders) else None
            count += 1
            if holder is not None:
                if self.check and holder.spec != tensor._spec:
                    raise CheckpointError(
                        "checkpoint: Recomputed values for the following tensors have different "
                        f"metadata than during the forward pass: saved {holder.spec}, recomputed "
                        f"{tensor._spec}."
                    )
                self.values[holder] = tensor.detach()
            if self.early_stop and count == len(self.holders):
                raise _Enough
            return tensor

        args = [a.load() if isinstance(a, KeptArgument) else a for a in self.args]
        kwargs = {k: a.load() if isinstance(a, KeptArgument) else a for k, a in self.kwargs.items()}
        try:
            with (
                self.ambience.again(),
                self.context,
                CONTEXT.having(saved_hooks=()),
                saved_tensors_hooks(refill, lambda t: t),
            ):
                self.function(*args, **kwargs)
        except _Enough:
            return
        if count != len(self.holders) and self.check:
            raise CheckpointError(
                "checkpoint: A different number of tensors was saved during the original forward "
                f"and recomputation: {len(self.holders)} and {count}."
            )


class CheckpointFunction(Function):
    """The reentrant form."""

    @staticmethod
    def forward(ctx: Any, function: Any, preserve: bool, *args: Any) -> Any:
        ctx.ambience = Ambience(preserve_rng=preserve)
        ctx.function = function
        ctx.places = [i for i, a in enumerate(args) if is_tensor(a)]
        ctx.others = [None if is_tensor(a) else a for a in args]
        ctx.save_for_backward(*(args[i] for i in ctx.places))
        return function(*args)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        if running_for_targets():
            raise RuntimeError(
                "When use_reentrant=True, checkpoint is incompatible with .grad() or passing an "
                "`inputs` parameter to .backward(). To resolve this error, you can either set "
                "use_reentrant=False, or call .backward() without passing the `inputs` argument."
            )
        args = list(ctx.others)
        for i, t in zip(ctx.places, ctx.saved_tensors, strict=True):
            args[i] = t.detach().requires_grad_(t.requires_grad)
        with ctx.ambience.again():
            out = ctx.function(*args)
        outs = out if isinstance(out, (tuple, list)) else (out,)
        pairs = [
            (o, g)
            for o, g in zip(outs, grads, strict=True)
            if is_tensor(o) and o.requires_grad and g is not None
        ]
        if not pairs:
            raise RuntimeError(
                "none of output has requires_grad=True, this checkpoint() is not necessary"
            )
        backward([o for o, _ in pairs], [g for _, g in pairs])
        return (None, None, *(a.grad if is_tensor(a) else None for a in args))


def _no_contexts() -> tuple[AbstractContextManager[Any], AbstractContextManager[Any]]:
    return nullcontext(), nullcontext()


def _check_reentrant(kwargs: dict[str, Any], *, has_options: bool) -> None:
    """Raise for what the form that runs a backward within a backward does not take."""
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    if has_options:
        raise ValueError(
            "Passing `context_fn` or `debug` is only supported when use_reentrant=False."
        )


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Contexts = _no_contexts,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    preserve_rng_state: bool = True,
    **kwargs: Any,
) -> Any:
    """Call a function without keeping what its backward needs; backward runs it again.

    >>> import adjoint as ad
    >>> from adjoint.utils.checkpoint import checkpoint
    >>> x = ad.tensor([2.0], requires_grad=True)
    >>> checkpoint(lambda x: x * x * x, x, use_reentrant=False).backward()
    >>> x.grad
    tensor([12.])
    """
    if use_reentrant is None:
        warnings.warn(
            "checkpoint: the use_reentrant parameter should be passed explicitly. "
            "use_reentrant=False is recommended, but if you need to preserve the current default "
            "behavior, you can pass use_reentrant=True.",
            stacklevel=2,
        )
        use_reentrant = True
    if determinism_check not in ("default", "none"):
        raise ValueError(
            f"determinism_check should be one of ['default', 'none'], got {determinism_check}"
        )
    if use_reentrant:
        _check_reentrant(kwargs, has_options=context_fn is not _no_contexts or debug)
        tracked = any(is_tensor(a) and a.requires_grad for a in args)
        if CONTEXT.grad_enabled and not tracked:
            warnings.warn(
                "None of the inputs have requires_grad=True. Gradients will be None", stacklevel=2
            )
        if CONTEXT.levels:
            return function(*args)
        if CONTEXT.capture is None:
            return CheckpointFunction.apply(function, preserve_rng_state, *args)
        # A recorded backward has no place for what one inside it accumulates: the other form.
        if not tracked:
            with CONTEXT.having(grad_enabled=False):
                return function(*args)
    # A transform's tape is short-lived and its values cannot be replayed once it is over.
    if not CONTEXT.grad_enabled or CONTEXT.levels:
        return function(*args, **kwargs)
    now, then = context_fn()
    frame = CheckpointedCall(
        function, args, kwargs, Ambience(preserve_rng=preserve_rng_state), then,
        check=determinism_check != "none", early_stop=early_stop,
    )  # fmt: skip
    with saved_tensors_hooks(frame.pack, frame.unpack), now:
        return function(*args, **kwargs)


def checkpoint_sequential(
    functions: Any,
    segments: int,
    input: Any,
    use_reentrant: bool | None = None,
    preserve_rng_state: bool = True,
    **kwargs: Any,
) -> Any:
    """Run functions (or a Sequential's children) in order, checkpointed but for the last part."""
    if use_reentrant is None:
        warnings.warn(
            "checkpoint_sequential: the use_reentrant parameter should be passed explicitly.",
            stacklevel=2,
        )
        use_reentrant = True
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    children = getattr(functions, "children", None)
    parts = list(children()) if callable(children) else list(functions)

    def run(start: int, stop: int) -> Callable[[Any], Any]:
        def forward(x: Any) -> Any:
            for part in parts[start:stop]:
                x = part(x)
            return x

        return forward

    size = len(parts) // segments
    end = 0
    for _ in range(segments - 1):
        start, end = end, end + size
        input = checkpoint(
            run(start, end),
            input,
            use_reentrant=use_reentrant,
            preserve_rng_state=preserve_rng_state,
        )
    return run(end, len(parts))(input)

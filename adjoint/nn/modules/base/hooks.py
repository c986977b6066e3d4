"""Module hooks: handles, the tables of global hooks, and calling a module through its hooks."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

from adjoint.engine.autodiff.levels.function import Function
from adjoint.engine.autodiff.tape.accumulate import wait_for_leaves
from adjoint.engine.autodiff.tape.hooks import Handle
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.state.structure_version import TrackedDict
from adjoint.engine.ops.create.creation import empty_like, zeros_like
from adjoint.engine.tensor.tensor import Tensor

Table = TrackedDict


class HookHandle(Handle):
    """A handle that also forgets what was noted about its hook elsewhere."""

    __slots__ = ()

    def __init__(
        self, table: Table, hook: Any, *notes: tuple[bool, Table], prepend: bool = False
    ) -> None:
        super().__init__(table, hook)
        self.notes = [note for _, note in notes]
        for wanted, note in notes:
            if wanted:
                note[self.id] = True
        if prepend:
            table.move_to_end(self.id, last=False)


class GlobalHooks:
    """Hooks that every module calls before its own. There is one instance, `GLOBAL`."""

    def __init__(self) -> None:
        self.backward_pre: Table = TrackedDict()
        self.backward: Table = TrackedDict()
        self.full_backward: bool | None = None
        self.forward_pre: Table = TrackedDict()
        self.forward: Table = TrackedDict()
        self.forward_with_kwargs: Table = TrackedDict()
        self.forward_always: Table = TrackedDict()
        self.register_buffer: Table = TrackedDict()
        self.register_module: Table = TrackedDict()
        self.register_parameter: Table = TrackedDict()

    @property
    def any_call(self) -> bool:
        """Whether a call of a module has a global hook to run."""
        return bool(self.backward_pre or self.backward or self.forward_pre or self.forward)


GLOBAL = GlobalHooks()


# -- forward ----------------------------------------------------------------------------------


def call_with_hooks(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a module that has hooks, or while there are global ones."""
    called: set[int] = set()
    result: Any = None
    try:
        args, kwargs = _run_pre_hooks(module, args, kwargs)
        backward = _backward_hooks(module)
        if backward is not None:
            args = backward.enter(args)
        result = module.forward(*args, **kwargs)
        for key, hook, with_kwargs in _forward_hooks(module):
            called.add(key)
            result = _run_hook(hook, with_kwargs, module, args, kwargs, result)
        if backward is not None:
            result = backward.leave(result)
        _attach_plain_backward_hooks(module, args, result)
        return result
    except Exception:
        _run_remaining(module, args, kwargs, result, called)
        raise


def _run_pre_hooks(
    module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    table = [*GLOBAL.forward_pre.items(), *module._forward_pre_hooks.items()]
    for key, hook in table:
        if key in module._forward_pre_hooks_with_kwargs:
            replaced = hook(module, args, kwargs)
            if replaced is not None:
                if not (isinstance(replaced, tuple) and len(replaced) == 2):
                    raise RuntimeError(
                        "forward pre-hook must return None or a tuple of (new_args, new_kwargs), "
                        f"but got {replaced}."
                    )
                args, kwargs = replaced
        else:
            replaced = hook(module, args)
            if replaced is not None:
                args = replaced if isinstance(replaced, tuple) else (replaced,)
    return args, kwargs


def _forward_hooks(module: Any) -> list[tuple[int, Any, bool]]:
    every = [(key, hook, key in GLOBAL.forward_with_kwargs) for key, hook in GLOBAL.forward.items()]
    noted = module._forward_hooks_with_kwargs
    return every + [(key, hook, key in noted) for key, hook in module._forward_hooks.items()]


def _run_hook(
    hook: Any, with_kwargs: bool, module: Any, args: Any, kwargs: Any, result: Any
) -> Any:
    if with_kwargs:
        replaced = hook(module, args, kwargs, result)
    else:
        replaced = hook(module, args, result)
    return result if replaced is None else replaced


def _run_remaining(module: Any, args: Any, kwargs: Any, result: Any, called: set[int]) -> None:
    """After a failure: the hooks that are always called, and were not yet."""
    always = {*GLOBAL.forward_always, *module._forward_hooks_always_called}
    for key, hook, with_kwargs in _forward_hooks(module):
        if key in always and key not in called:
            try:
                result = _run_hook(hook, with_kwargs, module, args, kwargs, result)
            except Exception as error:
                warnings.warn(
                    "module forward hook with ``always_call=True`` raised an exception that was "
                    f"silenced as another error was raised in forward: {error}",
                    stacklevel=4,
                )


# -- backward ---------------------------------------------------------------------------------


class _Mark(Function):
    """The identity: a node of its own on the tape, for hooks to sit on."""

    @staticmethod
    def forward(ctx: Any, *tensors: Any) -> Any:
        ctx.mark_non_differentiable(*[t for t in tensors if not t.requires_grad])
        return tensors

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads


class BackwardHooks:
    """The full backward hooks of one call of a module.

    The tensors that go in and those that come out pass through one node each; the hooks run when
    the gradient leaves the first, with the gradients that entered the second.
    """

    def __init__(self, module: Any, hooks: list[Any], pre_hooks: list[Any]) -> None:
        self.module = module
        self.hooks = hooks
        self.pre_hooks = pre_hooks
        self.grad_outputs: tuple[Any, ...] | None = None
        self.inputs = 0
        self.input_places: list[int] | None = None  # None: no input wants a gradient
        self.constant: dict[int, Tensor] = {}  # inputs that want none, without their elements
        self.outputs = 0
        self.output_places: list[int] = []

    def enter(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Mark the tensors going in."""
        self.inputs = len(args)
        marked, places, node = _mark(args)
        if node is None:
            return args
        self.input_places = places
        self.constant = {
            i: empty_like(args[i], device="meta") for i in places if not args[i].requires_grad
        }
        node.register_hook(self._gradient_left)
        wait_for_leaves(node)  # hooks find the gradients of the module's parameters
        return marked

    def leave(self, result: Any) -> Any:
        """Mark the tensors coming out."""
        single = not isinstance(result, tuple)
        given = (result,) if single else result
        self.outputs = len(given)
        marked, self.output_places, node = _mark(given)
        if node is None:
            return result
        node.register_hook(self._gradient_entered)
        return marked[0] if single else marked

    def _gradient_entered(self, _: Any, grads: tuple[Any, ...]) -> Any:
        full = _spread(self.output_places, grads, self.outputs)
        for hook in self.pre_hooks:
            replaced = hook(self.module, full)
            if replaced is not None:
                full = self._checked(replaced, self.outputs, "grad_output")
        self.grad_outputs = full
        if self.input_places is None:
            warnings.warn(
                "Full backward hook is firing when gradients are computed with respect to module "
                "outputs since no inputs require gradients.",
                stacklevel=2,
            )
            blank = (None,) * self.inputs
            for hook in self.hooks:
                replaced = hook(self.module, blank, full)
                if replaced is not None and not (
                    isinstance(replaced, tuple) and all(r is None for r in replaced)
                ):
                    raise RuntimeError(
                        "Backward hook for Modules where no input requires gradient should always "
                        "return None or None for all gradients."
                    )
            self.grad_outputs = None
        return tuple(full[i] for i in self.output_places)

    def _gradient_left(self, grads: tuple[Any, ...], _: Any) -> Any:
        if self.grad_outputs is None:
            return None  # the gradient came by another way than through the module
        places = self.input_places or []
        device = next(g.device for g in grads if g is not None)
        given = list(_spread(places, grads, self.inputs))
        for i, like in self.constant.items():  # hooks are given zeros for these, as PyTorch's are
            given[i] = zeros_like(like, device=device)
        full = tuple(given)
        for hook in self.hooks:
            replaced = hook(self.module, full, self.grad_outputs)
            if replaced is not None:
                full = self._checked(replaced, self.inputs, "grad_input")
        self.grad_outputs = None
        return tuple(None if i in self.constant else full[i] for i in places)

    def _checked(self, replaced: Any, count: int, what: str) -> tuple[Any, ...]:
        values = replaced if isinstance(replaced, tuple) else (replaced,)
        if len(values) != count:
            raise RuntimeError(
                f"Backward {'pre ' if what == 'grad_output' else ''}hook returned an invalid "
                f"number of {what}, got {len(values)}, but expected {count}"
            )
        return values


def _spread(places: list[int], values: tuple[Any, ...], count: int) -> tuple[Any, ...]:
    """Values at their places among `count`, None elsewhere."""
    full: list[Any] = [None] * count
    for place, value in zip(places, values, strict=True):
        full[place] = value
    return tuple(full)


def _mark(values: tuple[Any, ...]) -> tuple[tuple[Any, ...], list[int], Any]:
    """The values with their tensors passed through a node; the node is None without gradients."""
    places = [i for i, value in enumerate(values) if isinstance(value, Tensor)]
    tensors = [values[i] for i in places]
    if not CONTEXT.grad_enabled or not any(t.requires_grad for t in tensors):
        return values, places, None
    out = _Mark.apply(*tensors)
    passed = list(values)
    for place, tensor in zip(places, out, strict=True):
        passed[place] = tensor
    node = next(t.grad_fn for t in out if t.grad_fn is not None)
    kind = type(values)
    rebuilt = kind(*passed) if hasattr(kind, "_fields") else tuple(passed)
    return rebuilt, places, node


def _backward_hooks(module: Any) -> BackwardHooks | None:
    full: list[Any] = []
    pre = [*GLOBAL.backward_pre.values(), *module._backward_pre_hooks.values()]
    if GLOBAL.full_backward is True:
        full += GLOBAL.backward.values()
    if module._is_full_backward_hook is True:
        full += module._backward_hooks.values()
    return BackwardHooks(module, full, pre) if full or pre else None


def _attach_plain_backward_hooks(module: Any, args: Any, result: Any) -> None:
    """Hooks of `register_backward_hook`: they see the last operation's gradients."""
    hooks: list[Any] = []
    if GLOBAL.full_backward is False:
        hooks += GLOBAL.backward.values()
    if module._is_full_backward_hook is False:
        hooks += module._backward_hooks.values()
    if not hooks:
        return
    value = result
    while not isinstance(value, Tensor):
        value = next(iter(value.values())) if isinstance(value, dict) else value[0]
    node = value.grad_fn
    if node is not None:
        for hook in hooks:
            node.register_hook(partial(hook, module))


# -- global registration ----------------------------------------------------------------------


def register_module_buffer_registration_hook(hook: Callable[..., Any]) -> Handle:
    """Call `hook(module, name, buffer)` on every buffer registration; it may return another."""
    return Handle(GLOBAL.register_buffer, hook)


def register_module_module_registration_hook(hook: Callable[..., Any]) -> Handle:
    """Call `hook(module, name, submodule)` on every submodule registration."""
    return Handle(GLOBAL.register_module, hook)


def register_module_parameter_registration_hook(hook: Callable[..., Any]) -> Handle:
    """Call `hook(module, name, parameter)` on every parameter registration."""
    return Handle(GLOBAL.register_parameter, hook)


def register_module_forward_pre_hook(hook: Callable[..., Any]) -> Handle:
    """Call `hook(module, args)` before every module's forward."""
    return Handle(GLOBAL.forward_pre, hook)


def register_module_forward_hook(
    hook: Callable[..., Any], *, with_kwargs: bool = False, always_call: bool = False
) -> Handle:
    """Call `hook(module, args, output)` after every module's forward."""
    return HookHandle(
        GLOBAL.forward,
        hook,
        (with_kwargs, GLOBAL.forward_with_kwargs),
        (always_call, GLOBAL.forward_always),
    )


def _need_kind(full: bool) -> None:
    if GLOBAL.full_backward is (not full):
        raise RuntimeError(
            "Cannot use both regular backward hooks and full backward hooks as a global Module "
            "hook. Please use only one of them."
        )
    GLOBAL.full_backward = full


def register_module_backward_hook(hook: Callable[..., Any]) -> Handle:
    """The older form of `register_module_full_backward_hook`."""
    _need_kind(full=False)
    return Handle(GLOBAL.backward, hook)


def register_module_full_backward_pre_hook(hook: Callable[..., Any]) -> Handle:
    """Call `hook(module, grad_output)` before every module's backward."""
    return Handle(GLOBAL.backward_pre, hook)


def register_module_full_backward_hook(hook: Callable[..., Any]) -> Handle:
    """Call `hook(module, grad_input, grad_output)` in every module's backward."""
    _need_kind(full=True)
    return Handle(GLOBAL.backward, hook)

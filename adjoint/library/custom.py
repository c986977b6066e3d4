"""Operations made of functions: one record for all of them, which every mode of Adjoint knows.

Note [custom operations]
    A function of one's own is opaque: it may call NumPy, a library or a kernel. So it is one
    operation, `CUSTOM`, whose parameters name it and say which of its arguments are tensors. What
    else a record has is what the user registered: the shapes of results (`register_fake`), the
    derivative (`register_autograd`), batching (`register_vmap`, else a call for each element).
    Eager execution, the tape, transforms, recordings and compiled programs then do with it what
    they do with any operation; a compiled program calls the function between its kernels.

    Operands are handed over read-only, and results may not share memory with them: a program moves
    memory about, and what a function wrote or kept of it would be another tensor's later.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from adjoint.amp.autocast_mode import is_autocast_enabled
from adjoint.engine.autodiff.levels.function import Function
from adjoint.engine.autodiff.tape.node import Edge
from adjoint.engine.backends.array.table import lowers
from adjoint.engine.core.device import KNOWN_TYPES
from adjoint.engine.core.dtype import DType, float64
from adjoint.engine.core.operations.families import primitive
from adjoint.engine.core.operations.record import HOOKS
from adjoint.engine.core.spec import Spec
from adjoint.engine.core.state.context import CONTEXT, concrete
from adjoint.engine.core.tree import map_tree
from adjoint.engine.ops.create.creation import empty
from adjoint.engine.ops.shape.join import stack
from adjoint.engine.tensor.tensor import Tensor
from adjoint.library.arguments import (
    LIST,
    TENSOR,
    Layout,
    arranged,
    filled,
    handed,
    tensors_in,
)
from adjoint.library.derivative import derived, put_on_tape
from adjoint.library.notation import mismatch, read_notation
from adjoint.library.registered import observed

OPERATIONS: dict[str, CustomOpDef] = {}  # "namespace::name"
EARLY: dict[str, dict[str, Callable[..., Any]]] = {}  # kernels of operations not yet defined
EARLY_ABOVE_TAPE: dict[str, dict[str, Callable[..., Any]]] = {}  # and what they do above the tape


def lowered(value: Any, device: str, dtype: DType) -> Any:
    """A value, in another dtype if it is a floating tensor on a device that autocast casts."""
    if not isinstance(value, Tensor) or value.device.type != device:
        return value
    return value.to(dtype) if value.is_floating_point() and value.dtype is not float64 else value


class CustomOpDef:
    """An operation made of a function, with what was registered for it."""

    capture_as_code = True

    def __init__(
        self,
        name: str,
        fn: Callable[..., Any] | None,
        mutates: Any,
        schema: Any,
        tags: Any = (),
    ) -> None:
        if name.count("::") != 1:
            raise ValueError(f"custom_op: the name must be 'namespace::name', received {name!r}")
        self._qualname = name
        self._init_fn = fn
        self._kernels: dict[str, Callable[..., Any]] = EARLY.pop(name, {})  # by device; "": any
        self._transparent = False  # no more than a name for a function of other operations
        # What is called in the operation's place where there is a tape; its parts are recorded.
        self._above_tape: dict[str, Callable[..., Any]] = EARLY_ABOVE_TAPE.pop(name, {})
        self._schema = _qualified(name, schema)
        self.tags = list(tags) if isinstance(tags, (list, tuple, set)) else [tags]
        self._for_all = fn is not None  # whether its function computes it on every device
        self._modes: dict[type, Callable[..., Any]] = {}  # what classes have it do instead
        self._notation = read_notation(schema) if isinstance(schema, str) else None
        written = self._notation.written if self._notation and not mutates else mutates
        self._mutates = tuple(written) if not isinstance(written, str) else written
        self._fake: Callable[..., Any] | None = None
        self._backward: Callable[..., Any] | None = None
        self._setup: Callable[..., Any] | None = None
        self._vmap: Callable[..., Any] | None = None
        self._casts: dict[str, DType] = {}  # inside autocast for a device, operands become these
        self._kind: type | None = None  # of its results: a tensor, a tuple or a list of them
        self._functions: dict[Layout, type[Function]] = {}  # on the tape, by where tensors are
        self._signature = None if fn is None else inspect.signature(fn)
        if self._signature is not None and not isinstance(self._mutates, str):
            unknown = sorted(set(self._mutates) - set(self._signature.parameters))
            if unknown:
                raise ValueError(
                    f"custom_op: {unknown} in mutates_args were not found in the signature "
                    f"{self._signature} of {name}"
                )
        self.__name__ = name.split("::")[1]
        self.__doc__ = None if fn is None else fn.__doc__
        OPERATIONS[name] = self

    @property
    def default(self) -> CustomOpDef:
        """Its form without a name."""
        return self

    def overloads(self) -> list[str]:
        """The names of its forms."""
        forms = [name.partition(".")[2] for name in OPERATIONS if name.startswith(self._form())]
        return ["default", *forms]

    def _form(self, name: str = "") -> str:
        return f"{self._qualname}.{name}"

    def __getattr__(self, name: str) -> CustomOpDef:
        """Another form of it, which was defined as "namespace::name.form"."""
        if name.startswith("_"):
            raise AttributeError(name)
        form = OPERATIONS.get(f"{self._qualname}.{name}")
        if form is None:
            raise AttributeError(f"the operation {self._qualname} has no form {name!r}")
        return form

    def register_kernel(self, device_types: Any, func: Callable[..., Any] | None = None) -> Any:
        """How to compute it on a device; as a decorator or directly."""

        def take(fn: Callable[..., Any]) -> Callable[..., Any]:
            kinds = (device_types,) if isinstance(device_types, str) else device_types or ("",)
            for kind in kinds:
                check_device_type(kind)
                self._kernels["" if kind == "default" else kind.lower()] = fn
            return fn

        return take if func is None else take(func)

    def register_fake(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """What its results look like, for tensors without elements."""
        self._fake = fn
        return fn

    def register_autograd(
        self,
        backward: Callable[..., Any],
        /,
        *,
        setup_context: Callable[..., Any] | None = None,
    ) -> None:
        """Its derivative: `backward(ctx, *grads)`, with what `setup_context` kept."""
        if self._mutates:
            raise RuntimeError(
                f"Cannot register autograd formula for non-functional operator {self._qualname}: "
                f"it writes to its arguments (mutates_args={self._mutates!r}). Make an operation "
                "that returns new tensors, and register the derivative there."
            )
        self._backward, self._setup = backward, setup_context

    def register_vmap(self, func: Callable[..., Any] | None = None) -> Any:
        """How to compute it for a batch: `func(info, in_dims, *args)` gives (results, out_dims)."""
        if func is None:
            return self.register_vmap
        self._vmap = func
        return func

    def register_autocast(self, device_type: str, cast_inputs: DType) -> None:
        """Have operands on a device cast, where autocast is on for it, before the operation."""
        if device_type not in ("cpu", "cuda"):
            raise ValueError(
                f"register_autocast: expected device_type 'cpu' or 'cuda', received {device_type!r}"
            )
        self._casts[device_type] = cast_inputs

    def register_torch_dispatch(
        self, torch_dispatch_class: type, func: Callable[..., Any] | None = None, /
    ) -> Any:
        """What it does inside a mode of a class: `func(mode, op, types, args, kwargs)`.

        For a class of tensors, what it does where one is among the arguments; `func` then gets
        the class first.
        """

        def take(fn: Callable[..., Any]) -> Callable[..., Any]:
            self._modes[torch_dispatch_class] = fn
            return fn

        return take if func is None else take(func)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        form = self._chosen(args, kwargs)
        if form is not self:
            return form(*args, **kwargs)
        if self._modes:
            rule = self._taken_over(args, kwargs)
            if rule is not None:
                return rule()
        for device, dtype in self._casts.items():
            if is_autocast_enabled(device):
                cast = functools.partial(lowered, device=device, dtype=dtype)
                args, kwargs = map_tree(cast, (args, kwargs))
                with CONTEXT.having(autocast=None):
                    return self._called(args, kwargs)
        return self._called(args, kwargs)

    def _chosen(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> CustomOpDef:
        """The form that takes these arguments: itself, or one defined as "namespace::name.form"."""
        if self._notation is None:
            return self
        wrong = mismatch(self._notation, args, kwargs)
        if wrong is None:
            return self
        forms = [f for name, f in OPERATIONS.items() if name.startswith(self._form())]
        for form in forms:
            if form._notation is not None and mismatch(form._notation, args, kwargs) is None:
                return form
        several = "Overloaded operator failed to match any schema: " if forms else ""
        raise RuntimeError(f"{several}{self._qualname}() {wrong} Declaration: {self._schema}")

    def _taken_over(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Callable[[], Any] | None:
        """What `register_torch_dispatch` has it do for the modes and tensors there are now."""
        types = tuple({type(x): None for x in tensors_in((*args, *kwargs.values()))})
        inner = getattr(CONTEXT.takers[-1], "__self__", None) if CONTEXT.takers else None
        if type(inner) in self._modes:
            fn = self._modes[type(inner)]
            return functools.partial(_outside, fn, inner, self, types, args, kwargs)
        for kind in types:
            if kind in self._modes:
                return functools.partial(self._modes[kind], kind, self, types, args, kwargs)
        return None

    def _called(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        values = self._bound(args, kwargs)
        if self._above_tape and not (CONTEXT.below_tape or CONTEXT.inference):
            kind = next((x.device.type for x in tensors_in(values)), "cpu")
            fn = observed(self._above_tape, kind) or observed(self._above_tape, "")
            if fn is not None:
                return handed(fn, values)
        if self._transparent:
            return handed(observed(self._kernels, ""), values)
        if self._mutates or self._returns_nothing():
            return self._computed(values)
        if self._notation is not None and "Tensor?" in self._notation.results:
            with CONTEXT.having(grad_enabled=False):  # no record has results that may be missing
                return self._computed(values)
        operands, layout = arranged(values)
        outs = CUSTOM(*operands, op=self._qualname, layout=layout)
        return outs[0] if self._kind is Tensor else (self._kind or tuple)(outs)

    def _bound(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        signature = self._signature
        if signature is None and kwargs:
            kernel = next(iter(self._kernels.values()), None)
            signature = None if kernel is None else inspect.signature(kernel)
        if signature is None:
            if kwargs:
                raise TypeError(f"{self._qualname}: pass arguments by position")
            return args
        given = signature.bind(*args, **kwargs)
        given.apply_defaults()
        return (*given.args, *given.kwargs.values())

    def _taken_by_name(self) -> tuple[str, ...]:
        """The arguments that are given by name alone, which come last."""
        if self._notation is not None:
            return tuple(a.name for a in self._notation.arguments if a.by_name)
        given = {} if self._signature is None else self._signature.parameters
        return tuple(name for name, p in given.items() if p.kind is p.KEYWORD_ONLY)

    def register_above_tape(self, kind: str, fn: Callable[..., Any]) -> None:
        """Have a function of others be called in its place on a device ("": any), taped in parts.

        The function may call the operation itself below the tape (`_AutoDispatchBelowAutograd`),
        as may one inside inference mode.
        """
        self._above_tape[kind] = fn

    def make_transparent(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """Have the operation be a function of others, which is followed into its parts."""
        self._kernels[""], self._transparent = fn, True
        return fn

    def _returns_nothing(self) -> bool:
        if self._notation is not None:
            return not self._notation.results
        return self._signature is not None and self._signature.return_annotation in (None, "None")

    def _computed(self, values: Sequence[Any]) -> Any:
        """`_compute` where no record does; observers see one operation all the same."""
        observers = CONTEXT.observers
        if not observers:
            return self._compute(values)
        with CONTEXT.having(observers=self._inner_observers()):
            out = self._compute(values)
        operands, layout = arranged(values)
        many = out if isinstance(out, (tuple, list)) else (out,)
        outs = tuple(x for x in many if isinstance(x, Tensor))
        for observe in observers:
            observe(CUSTOM, tuple(operands), {"op": self._qualname, "layout": layout}, outs)
        return out

    def _inner_observers(self) -> tuple[Any, ...]:
        """Who is shown what its function calls: all but those who take it as a whole."""
        return tuple(
            observe
            for observe in CONTEXT.observers
            if self not in getattr(getattr(observe, "__self__", None), "whole_operations", ())
        )

    def _compute(self, values: Sequence[Any]) -> Any:
        """What the kernel for the operands' device, or the function, makes of the arguments."""
        kind = next((x.device.type for x in tensors_in(values)), "cpu")
        if kind == "meta" and self._fake is not None:
            return handed(self._fake, values)
        kernel = observed(self._kernels, kind) or observed(self._kernels, "")
        if kernel is None and self._for_all:
            kernel = observed(vars(self), "_init_fn")
        if kernel is None:
            there = ", ".join(sorted(self._kernels)) or "no device"
            raise NotImplementedError(
                f"Could not run '{self._qualname}' with arguments from the '{kind.upper()}' "
                f"backend: no kernel is registered for {kind}; there are those for {there}. "
                "Register one with register_kernel."
            )
        return handed(kernel, values)

    def _results(self, returned: Any, by: str) -> tuple[Tensor, ...]:
        """The tensors that a function returned, in a kind of container that never changes."""
        kind = Tensor if isinstance(returned, Tensor) else type(returned)
        many = (returned,) if kind is Tensor else returned
        if kind not in (Tensor, tuple, list) or not all(isinstance(x, Tensor) for x in many):
            raise TypeError(
                f"{self._qualname}: {by} must return a tensor, or a tuple or list of tensors, "
                f"received {type(returned).__name__}"
            )
        if self._kind not in (None, kind):
            raise RuntimeError(
                f"{self._qualname}: {by} returned a {kind.__name__}, where it, or its fake, "
                f"returned a {self._kind.__name__} before"
            )
        self._kind = kind
        return tuple(many)

    def _specs(self, specs: Sequence[Spec], layout: Layout) -> tuple[Spec, ...]:
        """What results look like, by the fake, or by the function itself on empty operands."""
        fake = self._fake or self._kernels.get("", self._init_fn)
        try:
            if fake is None:
                raise NotImplementedError("it has no function")
            with concrete(), CONTEXT.having(grad_enabled=False, autocast=None):
                meta = [empty(s.shape, dtype=s.dtype, device="meta") for s in specs]
                returned = handed(fake, filled(layout, meta))
        except Exception as error:
            if self._fake is not None:
                raise
            raise RuntimeError(
                f"{self._qualname}: what its results look like cannot be told from tensors without "
                f"elements ({type(error).__name__}: {error}). Register it: "
                f"@{self.__name__}.register_fake, a function of the same arguments that returns "
                "empty tensors of the results' shapes and dtypes."
            ) from error
        return tuple(x._spec for x in self._results(returned, "its fake"))

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._qualname})>"


def _outside(fn: Callable[..., Any], mode: Any, *given: Any) -> Any:
    """What a function has a mode do, where the mode itself takes over nothing."""
    with CONTEXT.having(takers=CONTEXT.takers[:-1]):
        return fn(mode, *given)


def _qualified(name: str, schema: Any) -> Any:
    """A notation with the operation's whole name."""
    if not isinstance(schema, str):
        return schema
    return name + schema.strip()[schema.strip().index("(") :] if "(" in schema else schema


# Devices that PyTorch has; here those beside Adjoint's own have kernels that are never called.
DEVICE_TYPES = frozenset(
    "cpu cuda ipu xpu mkldnn opengl opencl ideep hip ve fpga maia xla lazy vulkan mps meta hpu "
    "mtia privateuseone privateuse1".split()
)


def check_device_type(kind: str) -> None:
    """Refuse a kind of device that nobody knows."""
    name = kind.lower()
    if name not in ("", "default") and name not in DEVICE_TYPES and kind not in KNOWN_TYPES:
        raise RuntimeError(
            f"Expected one of {', '.join(sorted(DEVICE_TYPES | KNOWN_TYPES))} device type at start "
            f"of device string: {kind}"
        )


# -- the record ------------------------------------------------------------------------------------


def _infer(*specs: Spec, op: str, layout: Layout) -> tuple[Spec, ...]:
    result_specs = OPERATIONS[op]._specs(specs, layout)
    if not specs:
        return result_specs
    return tuple(Spec(s.shape, s.dtype, specs[0].device) for s in result_specs)


def _attach(
    operands: Sequence[Any],
    params: dict[str, Any],
    outs: tuple[Any, ...],
    edges: list[Edge | None],
) -> None:
    put_on_tape(OPERATIONS[params["op"]], params["layout"], operands, outs, edges)


def _joint(
    gs: Sequence[Any], xs: Sequence[Any], outs: Sequence[Any], needed: Sequence[bool], params: Any
) -> list[Any]:
    return derived(OPERATIONS[params["op"]], params["layout"], gs, xs, outs, needed)


def _batch(size: int, *full: Tensor, op: str, layout: Layout) -> tuple[Any, ...]:
    """A batch by the registered rule, or one call for each of its elements."""
    operation = OPERATIONS[op]
    rule = observed(vars(operation), "_vmap")
    if rule is None:
        rows = [CUSTOM(*[x.select(0, i) for x in full], op=op, layout=layout) for i in range(size)]
        if not rows:
            raise RuntimeError(
                f"{op}: vmap over an empty batch needs a rule of its own. Register one with "
                "register_vmap."
            )
        return tuple(stack(column) for column in zip(*rows, strict=True))
    dims = [
        0 if kind == TENSOR else [0] * count if kind == LIST else None for kind, count in layout
    ]
    info = SimpleNamespace(batch_size=size, randomness="error")
    returned, where = rule(info, tuple(dims), *filled(layout, full))
    outs = operation._results(returned, "its vmap rule")
    places = where if isinstance(where, (tuple, list)) else (where,) * len(outs)
    return tuple(
        out.expand((size, *out.shape)) if place is None else out.movedim(place, 0)
        for out, place in zip(outs, places, strict=True)
    )


# CUSTOM(tensors..., op="namespace::name", layout=...): a function of the user's. Its results may
# differ in number, so they are always a tuple; eager execution does not ask for the fake.
CUSTOM = primitive(
    "custom_op",
    _infer,
    operands=("*xs",),
    outputs=0,
    joint=_joint,
    attach=_attach,
    batch=_batch,
    native_check=True,
    fails="values",
    opaque=True,
)


@lowers(CUSTOM)
def custom(xp: Any, *arrays: Any, op: str, layout: Layout) -> tuple[Any, ...]:
    """The function itself, on tensors that it can only read."""
    operation = OPERATIONS[op]
    operands = [HOOKS.array.wrap(_read_only(x)) for x in arrays]
    values = filled(layout, operands)
    seen_by = operation._inner_observers()
    with concrete(), CONTEXT.having(grad_enabled=False, autocast=None, observers=seen_by):
        outs = operation._results(operation._compute(values), "its function")
        _check(operation, operands, outs, layout)
    return tuple(out._array for out in outs)


def _read_only(array: Any) -> Any:
    if not isinstance(array, np.ndarray):
        return array
    view = array.view()
    view.flags.writeable = False
    return view


def _check(
    operation: CustomOpDef, operands: list[Tensor], outs: tuple[Tensor, ...], layout: Layout
) -> None:
    """Refuse results that share memory with operands, or look unlike what the fake said."""
    for out in outs:
        for x in operands:
            shared = isinstance(x._array, np.ndarray) and np.may_share_memory(x._array, out._array)
            if out is x or shared:
                raise RuntimeError(
                    f"{operation._qualname}: the output of this custom operator (1) must not also "
                    "be an input to this custom operator and (2) may not alias any inputs to it. "
                    "Return a clone, x.clone()."
                )
    if operation._fake is None:
        return
    promised = operation._specs([x._spec for x in operands], layout)
    if [(s.shape, s.dtype) for s in promised] != [(tuple(o.shape), o.dtype) for o in outs]:
        returned = ", ".join(f"{o.dtype.name}{list(o.shape)}" for o in outs)
        said = ", ".join(f"{s.dtype.name}{list(s.shape)}" for s in promised)
        raise RuntimeError(
            f"{operation._qualname}: the function returned {returned}, where its fake says {said}"
        )

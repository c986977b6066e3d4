"""Operations of one's own: PyTorch's `torch.library`.

Example:
    >>> import adjoint as ad
    >>> @custom_op("docs::twice", mutates_args=())
    ... def twice(x: ad.Tensor) -> ad.Tensor:
    ...     return x * 2
    >>> twice.register_autograd(lambda ctx, g: g * 2)
    >>> x = ad.ones(2, requires_grad=True)
    >>> twice(x).sum().backward()
    >>> x.grad, ad.ops.docs.twice(x).tolist()
    (tensor([2., 2.]), [2.0, 2.0])
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

from adjoint.autograd.function import Function
from adjoint.engine.autodiff.tape.modes import no_grad
from adjoint.engine.tensor.tensor import Tensor

__all__ = [
    "CustomOpDef",
    "Library",
    "custom_op",
    "define",
    "impl",
    "register_autograd",
    "register_fake",
    "register_kernel",
    "register_vmap",
    "triton_op",
    "wrap_triton",
]

OPERATIONS: dict[str, CustomOpDef] = {}  # "namespace::name"


class CustomOpDef:
    """An operation made of a function, with a derivative if one was registered."""

    def __init__(self, name: str, fn: Callable[..., Any] | None, mutates: Any, schema: Any) -> None:
        if name.count("::") != 1:
            raise ValueError(f"custom_op: the name must be 'namespace::name', received {name!r}")
        self._qualname = name
        self._init_fn = fn
        self._kernels: dict[str, Callable[..., Any]] = {}
        self._mutates = mutates
        self._schema = schema
        self._fake: Callable[..., Any] | None = None
        self._backward: Callable[..., Any] | None = None
        self._setup: Callable[..., Any] | None = None
        self._vmap: Callable[..., Any] | None = None
        self.__name__ = name.split("::")[1]
        self.__doc__ = None if fn is None else fn.__doc__
        OPERATIONS[name] = self

    @property
    def default(self) -> CustomOpDef:
        """Its one form."""
        return self

    def register_kernel(self, device_types: Any, func: Callable[..., Any] | None = None) -> Any:
        """How to compute it on a device; as a decorator or directly."""

        def take(fn: Callable[..., Any]) -> Callable[..., Any]:
            kinds = (device_types,) if isinstance(device_types, str) else device_types or ("",)
            for kind in kinds:
                self._kernels[kind.lower()] = fn
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
        self._backward, self._setup = backward, setup_context

    def register_vmap(self, func: Callable[..., Any] | None = None) -> Any:
        """How to compute it for a batch."""
        if func is None:
            return self.register_vmap
        self._vmap = func
        return func

    register_torch_dispatch = register_kernel

    def _compute(self, *args: Any) -> Any:
        tensors = [value for value in args if isinstance(value, Tensor)]
        kind = tensors[0].device.type if tensors else "cpu"
        if kind == "meta" and self._fake is not None:
            return self._fake(*args)
        kernel = self._kernels.get(kind, self._kernels.get("", self._init_fn))
        if kernel is None:
            raise NotImplementedError(f"{self._qualname}: no kernel is registered for {kind}")
        return kernel(*args)

    def _bound(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        if self._init_fn is None:
            if kwargs:
                raise TypeError(f"{self._qualname}: pass arguments by position")
            return args
        given = inspect.signature(self._init_fn).bind(*args, **kwargs)
        given.apply_defaults()
        return (*given.args, *given.kwargs.values())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        values = self._bound(args, kwargs)
        if self._backward is None:
            if any(isinstance(v, Tensor) and v.requires_grad for v in values):
                with no_grad():  # PyTorch's too have no derivative unless one is registered
                    return self._compute(*values)
            return self._compute(*values)
        return self._function().apply(*values)

    def _function(self) -> Any:
        operation = self

        class Differentiable(Function):
            """A custom operation on the tape."""

            @staticmethod
            def forward(*args: Any) -> Any:
                """Compute it."""
                return operation._compute(*args)

            @staticmethod
            def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
                """Keep what the derivative needs."""
                if operation._setup is not None:
                    names = inspect.signature(operation._setup).parameters
                    if "keyword_only_inputs" in names:
                        operation._setup(
                            ctx=ctx, inputs=inputs, keyword_only_inputs={}, output=output
                        )
                    else:
                        operation._setup(ctx, inputs, output)
                ctx.operands = len(inputs)

            @staticmethod
            def backward(ctx: Any, *grads: Any) -> Any:
                """Apply it."""
                found = operation._backward(ctx, *grads)  # type: ignore[misc]
                given = found if isinstance(found, tuple) else (found,)
                return (*given, *(None,) * (ctx.operands - len(given)))

        return Differentiable

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._qualname})>"


def custom_op(
    name: str,
    fn: Callable[..., Any] | None = None,
    /,
    *,
    mutates_args: str | Iterable[str] = (),
    device_types: Any = None,
    schema: str | None = None,
    tags: Any = None,
) -> Any:
    """Make an operation of a function; it is then also `ops.namespace.name`.

    Args:
        name: "namespace::name".
        fn: the function, unless used as a decorator.
        mutates_args: the names of arguments it writes to.
        device_types: the devices the function is for; all unless given.
        schema: PyTorch's notation of its arguments; not needed here.
        tags: accepted as PyTorch has it.
    """

    def make(fn: Callable[..., Any]) -> CustomOpDef:
        made = CustomOpDef(name, fn, mutates_args, schema)
        if device_types is not None:
            made.register_kernel(device_types, fn)
            made._kernels.pop("", None)
        return made

    return make if fn is None else make(fn)


triton_op = custom_op


def wrap_triton(kernel: Any) -> Any:
    """The kernel itself."""
    return kernel


def _find(op: Any) -> CustomOpDef:
    if isinstance(op, CustomOpDef):
        return op
    found = OPERATIONS.get(str(op).removesuffix(".default"))
    if found is None:
        raise RuntimeError(f"operator {op} does not exist: define it first")
    return found


def define(qualname: str, schema: Any = None, *, lib: Any = None, tags: Any = ()) -> Any:
    """Announce an operation, whose kernels `impl` then gives."""
    if isinstance(schema, str) or schema is None:
        CustomOpDef(qualname, None, (), schema)
        return None
    return custom_op(qualname)


def impl(qualname: str, types: Any, func: Callable[..., Any] | None = None, **_: Any) -> Any:
    """Give an operation its kernel for devices."""
    kinds = (
        ""
        if types in ("default", "CompositeExplicitAutograd", "CompositeImplicitAutograd")
        else types
    )
    return _find(qualname).register_kernel(kinds, func)


def register_kernel(op: Any, device_types: Any, func: Any = None, /, **_: Any) -> Any:
    """How to compute an operation on a device."""
    return _find(op).register_kernel(device_types, func)


def register_fake(op: Any, func: Any = None, /, **_: Any) -> Any:
    """What an operation's results look like."""
    return _find(op).register_fake if func is None else _find(op).register_fake(func)


impl_abstract = register_fake


def register_autograd(
    op: Any, backward: Callable[..., Any], /, *, setup_context: Any = None, **_: Any
) -> None:
    """An operation's derivative."""
    _find(op).register_autograd(backward, setup_context=setup_context)


def register_vmap(op: Any, func: Any = None, /, **_: Any) -> Any:
    """How to compute an operation for a batch."""
    return _find(op).register_vmap(func)


class Library:
    """A namespace of operations; PyTorch's lower interface."""

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        self.ns, self.kind = ns, kind

    def define(self, schema: str, alias_analysis: str = "", *, tags: Any = ()) -> str:
        """Announce an operation."""
        name = schema.split("(", maxsplit=1)[0].strip()
        CustomOpDef(f"{self.ns}::{name}", None, (), schema)
        return name

    def impl(self, op_name: Any, fn: Callable[..., Any], dispatch_key: str = "", **_: Any) -> None:
        """Give an operation its kernel; a derivative's key is refused."""
        name = str(op_name).split("::")[-1]
        key = dispatch_key.lower()
        if key == "autograd":
            raise NotImplementedError("Library.impl: use register_autograd for derivatives")
        if key == "meta":
            _find(f"{self.ns}::{name}").register_fake(fn)
            return
        _find(f"{self.ns}::{name}").register_kernel(key if key in ("cpu", "cuda") else "", fn)

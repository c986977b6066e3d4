"""Moving and converting a module's tensors: to, cuda, half, apply, train, zero_grad."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Self

from adjoint.__future__ import (
    get_overwrite_module_params_on_conversion,
    get_swap_module_params_on_conversion,
)
from adjoint.engine.autodiff.tape.modes import no_grad
from adjoint.engine.core import dtype as dt
from adjoint.engine.core.device import Device
from adjoint.engine.core.dtype import DType, as_dtype
from adjoint.engine.core.errors import DTypeTypeError
from adjoint.engine.ops.create.creation import empty_like
from adjoint.engine.tensor.identity import swap_tensors
from adjoint.engine.tensor.tensor import Tensor, meta_of
from adjoint.nn.parameter import Parameter, is_lazy

if TYPE_CHECKING:
    from adjoint.nn.modules.module import Module


def _renewed(
    parameter: Parameter, elements: Any, fn: Callable[[Any], Any], swap: bool
) -> Parameter:
    """A parameter of converted elements: another object, or one changed places with."""
    grad = parameter.grad
    with no_grad():
        converted = Parameter(elements, requires_grad=parameter.requires_grad)
        moved = None if grad is None else fn(grad).requires_grad_(grad.requires_grad)
    if swap:
        parameter.grad = None
        before = parameter._grad_meta
        swap_tensors(parameter, converted)
        converted = parameter
        if before is not None and (before.hooks or before.accumulate_hooks):
            now = meta_of(parameter)  # hooks are the parameter's, not its elements'
            now.hooks, before.hooks = before.hooks, None
            now.accumulate_hooks, before.accumulate_hooks = before.accumulate_hooks, None
    converted.grad = moved
    return converted


class Conversion:
    """The part of Module that changes all its tensors or flags at once."""

    training: bool
    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    if TYPE_CHECKING:

        def children(self) -> Iterator[Module]: ...
        def parameters(self, recurse: bool = True) -> Iterator[Parameter]: ...

    def _apply(self, fn: Callable[[Any], Any], recurse: bool = True) -> Self:
        """Replace the elements of every parameter, gradient and buffer by fn of them.

        A parameter stays the object it is, so that optimizers and ties keep hold of it, unless
        `__future__.set_overwrite_module_params_on_conversion` says otherwise.
        """
        if recurse:
            for module in self.children():
                module._apply(fn)
        parameter: Any
        anew = get_overwrite_module_params_on_conversion()
        swap = get_swap_module_params_on_conversion()
        for name, parameter in self._parameters.items():
            if parameter is None:
                continue
            if is_lazy(parameter):
                parameter.data = fn(parameter.data)
                continue
            grad = parameter.grad
            with no_grad():
                converted = fn(parameter)
            # What holds tensors of its own has no elements that could be written over.
            exchange = swap or hasattr(type(converted), "__tensor_flatten__")
            if anew or exchange:
                self._parameters[name] = _renewed(parameter, converted, fn, exchange)
                continue
            with no_grad():
                parameter.data = converted
                if grad is not None:
                    wanted = grad.requires_grad
                    grad.data = fn(grad)
                    parameter.grad = grad.requires_grad_(wanted)
        for name, buffer in self._buffers.items():
            if is_lazy(buffer):
                buffer.data = fn(buffer.data)  # type: ignore[union-attr]
            elif buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    def share_memory(self) -> Self:
        """Move parameters and buffers to memory that processes started later write to together."""
        for module in self.children():
            module.share_memory()
        for tensor in (*self._parameters.values(), *self._buffers.values()):
            if tensor is not None:
                tensor.share_memory_()
        return self

    def apply(self, fn: Callable[[Any], Any]) -> Self:
        """Call `fn(module)` on every module below this one, then on this one.

        Example:
            >>> import adjoint as ad
            >>> net = ad.nn.Sequential(ad.nn.Identity())
            >>> _ = net.apply(lambda module: print(type(module).__name__))
            Identity
            Sequential
        """
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    # -- device and dtype ---------------------------------------------------------------------

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Move and convert parameters and buffers, in place.

        `to(device)`, `to(dtype)`, `to(device, dtype)`, `to(tensor)`, and the options
        `non_blocking` and `memory_format` (of 4-d and 5-d tensors). A dtype applies to
        floating-point and complex tensors only.

        Example:
            >>> import adjoint as ad
            >>> ad.nn.Linear(2, 2).to(ad.float64).weight.dtype
            adjoint.float64
        """
        device, dtype, non_blocking, memory_format = _parse_to(args, kwargs)
        if dtype is not None and not dtype.is_inexact:
            raise DTypeTypeError(
                "nn.Module.to only accepts floating point or complex dtypes, but got desired "
                f"dtype={dtype}"
            )

        def convert(tensor: Any) -> Any:
            fits = tensor.dtype.is_inexact
            options: dict[str, Any] = {"non_blocking": non_blocking}
            if memory_format is not None and tensor.dim() in (4, 5):
                options["memory_format"] = memory_format
            where = tensor.device if device is None else device
            return tensor.to(where, dtype if fits else None, **options)

        return self._apply(convert)

    def cpu(self) -> Self:
        """Move parameters and buffers to the CPU."""
        return self._apply(lambda tensor: tensor.cpu())

    def cuda(self, device: int | str | Device | None = None) -> Self:
        """Move parameters and buffers to a GPU."""
        return self._apply(lambda tensor: tensor.cuda(device))

    def type(self, dst_type: DType | str) -> Self:
        """Convert all parameters and buffers to a dtype."""
        return self._apply(lambda tensor: tensor.type(dst_type))

    def _floating(self, dtype: DType) -> Self:
        return self._apply(
            lambda tensor: tensor.to(dtype) if tensor.dtype.is_floating_point else tensor
        )

    def float(self) -> Self:
        """Convert floating-point parameters and buffers to float32."""
        return self._floating(dt.float32)

    def double(self) -> Self:
        """Convert floating-point parameters and buffers to float64."""
        return self._floating(dt.float64)

    def half(self) -> Self:
        """Convert floating-point parameters and buffers to float16."""
        return self._floating(dt.float16)

    def bfloat16(self) -> Self:
        """Convert floating-point parameters and buffers to bfloat16."""
        return self._floating(dt.bfloat16)

    def to_empty(self, *, device: Any, recurse: bool = True) -> Self:
        """Move parameters and buffers without copying their elements."""
        return self._apply(lambda tensor: empty_like(tensor, device=device), recurse=recurse)

    # -- flags --------------------------------------------------------------------------------

    def train(self, mode: bool = True) -> Self:
        """Set training mode (or evaluation mode) on this module and all below it."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self) -> Self:
        """Set evaluation mode: dropout off, batch statistics fixed."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Ask for the gradients of all parameters, or stop asking."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters, or set them to zero."""
        for parameter in self.parameters():
            if set_to_none:  # without reading: a captured step need not know what there was
                parameter.grad = None
                continue
            grad = parameter.grad
            if grad is None:
                continue
            if grad.grad_fn is not None:
                parameter.grad = grad.detach().zero_()
            else:
                grad.requires_grad_(False).zero_()


def _parse_to(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any, bool, Any]:
    """The device, dtype, non_blocking and memory format that `to` was given."""
    kwargs = dict(kwargs)
    device, dtype = kwargs.pop("device", None), kwargs.pop("dtype", None)
    non_blocking = kwargs.pop("non_blocking", False)
    memory_format = kwargs.pop("memory_format", None)
    other = kwargs.pop("tensor", None) or kwargs.pop("other", None)
    if kwargs:
        raise TypeError(f"to(): received unexpected keyword arguments {sorted(kwargs)}")
    rest = [as_dtype("to", arg) if type(arg) is type else arg for arg in args]
    if type(dtype) is type:
        dtype = as_dtype("to", dtype)
    if rest and isinstance(rest[0], Tensor):
        other = rest.pop(0)
    elif rest and isinstance(rest[0], DType):
        dtype = rest.pop(0)
    elif rest:
        device = rest.pop(0)
        if rest and (rest[0] is None or isinstance(rest[0], DType)):
            dtype = rest.pop(0)
    if rest:
        non_blocking = bool(rest.pop(0))
    if len(rest) > 1:
        raise TypeError(f"to(): received too many arguments: {args}")
    if other is not None:
        device, dtype = other.device, other.dtype
    return device, dtype, non_blocking, memory_format

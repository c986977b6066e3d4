"""Fake tensors: shapes of a device's results without its elements, through the device "meta"."""

from __future__ import annotations

from typing import Any

from adjoint.engine.core.device import CPU, Device
from adjoint.engine.core.operations.overrides import disabled_torch_function
from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.core.tree import flatten, unflatten
from adjoint.engine.tensor.meta import META, is_meta
from adjoint.engine.tensor.tensor import Tensor
from adjoint.utils._python_dispatch import TorchDispatchMode


class FakeTensor(Tensor):
    """A tensor that says it is on a device, and has no elements.

    Attributes:
        fake_mode: the mode that made it.
        fake_device: where it says it is.
    """

    __torch_function__ = staticmethod(disabled_torch_function)
    fake_mode: FakeTensorMode
    fake_device: Device
    shape_only: Tensor  # the tensor of the device "meta" that computes its results

    def __new__(cls, fake_mode: FakeTensorMode, elem: Tensor, device: Any) -> Any:
        fake = Tensor._make_wrapper_subclass(
            cls, elem.shape, strides=elem.stride(), dtype=elem.dtype, device=device
        )
        fake.fake_mode, fake.fake_device, fake.shape_only = fake_mode, Device(device), elem
        return fake

    def __init__(self, fake_mode: FakeTensorMode, elem: Tensor, device: Any) -> None:
        """All is done by `__new__`."""

    @classmethod
    def __torch_dispatch__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Run an operation for its shapes."""
        fakes = [x for x in flatten((args, kwargs))[0] if isinstance(x, FakeTensor)]
        return fakes[0].fake_mode.compute(func, args, kwargs or {})

    def __repr__(self) -> str:
        size = ", ".join(map(str, self.shape))
        return f"FakeTensor(..., device='{self.fake_device}', size=({size}))"


class FakeTensorMode(TorchDispatchMode):
    """Inside its `with` block, tensors are made and computed for their shapes alone.

    Example:
        >>> import adjoint as ad
        >>> with FakeTensorMode() as mode:
        ...     x = ad.zeros(1000, 1000, 1000)
        ...     y = x @ mode.from_tensor(ad.ones(1000, 5))
        >>> y
        FakeTensor(..., device='cpu', size=(1000, 1000, 5))
    """

    def __init__(
        self, *, allow_fallback_kernels: bool = True, allow_non_fake_inputs: bool = False, **_: Any
    ) -> None:
        super().__init__()
        self.allow_non_fake_inputs = allow_non_fake_inputs

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Run an operation for its shapes; one on tensors by their class, below the tape."""
        leaves, structure = flatten((args, kwargs or {}))
        if not any(map(is_tensor, leaves)):
            return self.compute(func, args, kwargs or {})
        fakes = [self._entered(x) if is_tensor(x) else x for x in leaves]
        args, kwargs = unflatten(structure, fakes)
        return func(*args, **kwargs)

    def _entered(self, tensor: Tensor) -> Tensor:
        """A tensor from outside as a fake one."""
        if isinstance(tensor, FakeTensor):
            return tensor
        if tensor.requires_grad and not self.allow_non_fake_inputs:
            raise RuntimeError(
                "Please convert all Tensors to FakeTensors first or instantiate FakeTensorMode "
                "with 'allow_non_fake_inputs': a tensor that wants a gradient is none."
            )
        return self.from_tensor(tensor)

    def from_tensor(self, tensor: Tensor, *_: Any, **__: Any) -> FakeTensor:
        """A fake tensor that looks like one."""
        if isinstance(tensor, FakeTensor):
            return tensor
        fake = FakeTensor(self, _shape_only(tensor), tensor.device)
        fake.requires_grad_(tensor.requires_grad)
        return fake

    def compute(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The fake results of an operation."""
        leaves, structure = flatten((args, kwargs))
        fakes = [x for x in leaves if isinstance(x, FakeTensor)]
        devices = [x.fake_device for x in fakes if x.ndim] or [x.fake_device for x in fakes]
        asked = kwargs.get("device")
        device = asked if isinstance(asked, Device) else (devices or [CPU])[0]
        plain = [_shape_only(x) if is_tensor(x) else x for x in leaves]
        args, kwargs = unflatten(structure, plain)
        if isinstance(asked, Device):
            kwargs = {**kwargs, "device": META}
        results, shape = flatten(func(*args, **kwargs))
        return unflatten(
            shape, [FakeTensor(self, x, device) if is_tensor(x) else x for x in results]
        )


def _shape_only(tensor: Tensor) -> Tensor:
    """A tensor of the device "meta" that looks like another."""
    if isinstance(tensor, FakeTensor):
        return tensor.shape_only
    return tensor if is_meta(tensor) else tensor.detach().to("meta")


def is_fake(x: Any) -> bool:
    """Whether a tensor is fake."""
    return isinstance(x, FakeTensor)

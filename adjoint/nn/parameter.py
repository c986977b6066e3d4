"""Parameters and buffers: the tensors a module owns, and those whose shape is not known yet."""

from __future__ import annotations

from typing import Any

from adjoint.engine.core.device import Device
from adjoint.engine.core.dtype import DType
from adjoint.engine.core.operations.overrides import disabled_torch_function, overrides
from adjoint.engine.core.operations.small_calls import NEWCOMERS
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.state.structure_version import STRUCTURE_VERSION
from adjoint.engine.ops.create.creation import empty
from adjoint.engine.tensor.reading.printing import to_string
from adjoint.engine.tensor.tensor import PLAIN, Tensor, TensorType, alias, alias_noted, wrap


class _ParameterMeta(TensorType):
    """Makes isinstance true for tensors of other classes that were made parameters."""

    def __instancecheck__(cls, instance: object) -> bool:
        if type.__instancecheck__(cls, instance):
            return True
        return (
            cls is Parameter
            and isinstance(instance, Tensor)
            and "_is_param" in instance.__dict__
            and bool(instance.__dict__["_is_param"])
        )


class Parameter(Tensor, metaclass=_ParameterMeta):
    """A tensor that is registered when assigned to an attribute of a module.

    Args:
        data: the elements, shared with the tensor given.
        requires_grad: whether the parameter is trained.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.Parameter(ad.ones(2))
        Parameter containing:
        tensor([1., 1.], requires_grad=True)
    """

    __slots__ = ()
    __torch_function__ = staticmethod(disabled_torch_function)

    def __new__(cls, data: Any = None, requires_grad: bool = True) -> Any:
        if data is None:
            data = empty(0)
        if not isinstance(data, Tensor):
            raise TypeError(f"Parameter: data must be a Tensor, received {type(data).__name__}")
        # Made of other tensors: it knows how. (To ask Tensor itself for a name it has not is slow.)
        if type(data) is not Tensor and hasattr(type(data), "__tensor_flatten__"):
            tensor: Any = data.detach()
            tensor._is_param = True
            return tensor.requires_grad_(requires_grad)
        kind: type[Tensor] = cls
        if type(data) is not Tensor and not isinstance(data, Parameter):
            kind = type(data)  # a subclass of the user's stays one
            if overrides(kind):  # and may carry its attributes along
                own: Any = data.detach()
                if type(own) is kind and own is not data:
                    own.__dict__["_is_param"] = True
                    NEWCOMERS.begins_anew = True
                    return own.requires_grad_(requires_grad)
        if CONTEXT.capture is None:
            instance: Any = alias(data, kind)
        else:
            instance = alias_noted(data).as_subclass(kind)
        if not issubclass(kind, Parameter):
            if hasattr(kind, "__torch_dispatch__"):  # what it stands for is in its attributes
                instance.__dict__.update(data.__dict__)
            instance._is_param = True
        NEWCOMERS.begins_anew = True
        return instance.requires_grad_(requires_grad)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """All is done by `__new__`, to which a subclass may give arguments of its own."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.data.clone(), self.requires_grad)
        return memo[id(self)]

    def __repr__(self) -> str:
        return "Parameter containing:\n" + to_string(self)


class _BufferMeta(TensorType):
    """Makes isinstance true for tensors marked as buffers."""

    def __instancecheck__(cls, instance: object) -> bool:
        if type.__instancecheck__(cls, instance):
            return True
        return (
            cls is Buffer
            and isinstance(instance, Tensor)
            and bool(instance.__dict__.get("_is_buffer", False))
        )


class Buffer(Tensor, metaclass=_BufferMeta):
    """A tensor that a module keeps as a buffer when it is assigned to an attribute.

    Args:
        data: the elements, shared with the tensor given.
        persistent: whether the buffer is part of the module's state dict.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.Buffer(ad.zeros(2), persistent=False)
        tensor([0., 0.])
    """

    __slots__ = ()

    def __new__(cls, data: Any = None, *, persistent: bool = True) -> Any:
        if data is None:
            data = empty(0)
        if not isinstance(data, Tensor):
            raise TypeError(f"Buffer: data must be a Tensor, received {type(data).__name__}")
        buffer: Any = data.detach().requires_grad_(data.requires_grad)
        buffer.persistent = persistent
        buffer._is_buffer = True
        return buffer


class UninitializedTensorMixin:
    """What parameters and buffers without a shape have in common.

    Device and dtype are those of an empty tensor that only `data` gives; every operation asks for
    the array of its operands, and is refused.
    """

    __slots__ = ()
    cls_to_become: type[Tensor]

    @property
    def _array(self) -> Any:
        raise ValueError(
            "Attempted to use an uninitialized parameter or buffer. It belongs to a lazy module "
            "that has not been called: call `forward` once with an input of the wanted shape, or "
            "`materialize`, first."
        )

    @_array.setter
    def _array(self, value: Any) -> None:
        _ARRAY.__set__(self, value)

    @property
    def data(self) -> Any:
        """An empty tensor of the device and dtype this one will have."""
        return wrap(_ARRAY.__get__(self))

    @data.setter
    def data(self: Any, value: Any) -> None:
        _ARRAY.__set__(self, value._array)
        self._storage, self._chain = value._storage, value._chain
        STRUCTURE_VERSION.count += 1

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self.data.dtype

    @property
    def device(self) -> Device:
        """Where the elements will be."""
        return self.data.device

    def is_floating_point(self) -> bool:
        """Whether the elements will be real numbers."""
        return self.dtype.is_floating_point

    def is_complex(self) -> bool:
        """Whether the elements will be complex."""
        return self.dtype.is_complex

    def materialize(self: Any, shape: Any, device: Any = None, dtype: DType | None = None) -> None:
        """Give the tensor a shape; its elements are not initialised."""
        options = {
            "device": self.device if device is None else device,
            "dtype": self.dtype if dtype is None else dtype,
        }
        self.data = empty(shape, **options)
        self.__class__ = self.cls_to_become

    @property
    def shape(self) -> Any:
        """Not known yet: an error."""
        raise RuntimeError(
            "Can't access the shape of an uninitialized parameter or buffer. Call `forward` to "
            "initialize the parameters before accessing their attributes."
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"


PLAIN.add(Parameter)
_ARRAY: Any = Tensor.__dict__["_array"]


class UninitializedParameter(UninitializedTensorMixin, Parameter):
    """A parameter of a lazy module: device and dtype, no shape until `materialize`.

    Example:
        >>> import adjoint as ad
        >>> p = ad.nn.UninitializedParameter()
        >>> p.materialize((2, 3))
        >>> p.shape
        adjoint.Size([2, 3])
    """

    __slots__ = ()
    cls_to_become = Parameter

    def __new__(
        cls, requires_grad: bool = True, device: Device | None = None, dtype: DType | None = None
    ) -> Any:
        blank = empty(0, device=device, dtype=dtype)
        return alias_noted(blank).as_subclass(cls).requires_grad_(requires_grad)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """All is done by `__new__`."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.requires_grad, self.data.device, self.data.dtype)
        return memo[id(self)]

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return (_rebuild, (type(self), self.requires_grad, str(self.device), self.dtype))


class UninitializedBuffer(UninitializedTensorMixin, Tensor):
    """A buffer of a lazy module: device and dtype, no shape until `materialize`."""

    __slots__ = ()
    cls_to_become = Tensor

    def __new__(
        cls,
        requires_grad: bool = False,
        device: Device | None = None,
        dtype: DType | None = None,
        persistent: bool = True,
    ) -> Any:
        blank = empty(0, device=device, dtype=dtype)
        buffer = alias_noted(blank).as_subclass(cls).requires_grad_(requires_grad)
        buffer.persistent = persistent
        buffer._is_buffer = True
        return buffer

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """All is done by `__new__`."""

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return (_rebuild, (type(self), self.requires_grad, str(self.device), self.dtype))

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.requires_grad, self.data.device, self.data.dtype)
        return memo[id(self)]


def _rebuild(cls: Any, requires_grad: bool, device: str, dtype: DType) -> Any:
    return cls(requires_grad, device, dtype)


def is_lazy(tensor: Any) -> bool:
    """Whether a parameter or buffer still waits for its shape."""
    return isinstance(tensor, UninitializedTensorMixin)

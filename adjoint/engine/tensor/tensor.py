"""The Tensor class: a window on a storage, with its place on the tape."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from numpy import ndarray

from adjoint.engine.core.annotations import define
from adjoint.engine.core.device import CPU, Device
from adjoint.engine.core.dtype import DTYPES, STORAGE_DTYPES, DType
from adjoint.engine.core.errors import DeviceError
from adjoint.engine.core.operations.overrides import OVERRIDES, PASS, asking, taken
from adjoint.engine.core.operations.record import HOOKS
from adjoint.engine.core.ownership import REPLACED, is_written_here
from adjoint.engine.core.spec import Size, Spec, contiguous_strides
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.tensor.methods import TensorMethods
from adjoint.engine.tensor.storage import Storage, Window

_new = object.__new__
_new_tuple = tuple.__new__

# Array dtype -> DType. The array backend adds its dtypes; windows carry DTypes already.
DTYPE_OF: dict[Any, DType] = {d: d for d in (*DTYPES, *STORAGE_DTYPES)}
# Array type -> function giving the device of such an array. NumPy's is the default.
DEVICE_OF: dict[type, Any] = {Window: lambda window: window.device}
ONLY_DEVICE: dict[type, Any] = {}  # of classes whose arrays are all on one


OWN_DTYPE: Any = object()  # gradients have the dtype of their tensor


class AutogradMeta:
    """What few tensors need: the gradient, hooks, whether a non-leaf keeps its gradient."""

    __slots__ = (
        "accumulate_hooks",
        "accumulator",
        "detached",
        "grad",
        "grad_dtype",
        "hooks",
        "leaf_extra",
        "name",
        "retains_grad",
    )

    def __init__(self) -> None:
        self.grad: Any = None
        self.grad_dtype: Any = OWN_DTYPE
        self.hooks: dict[int, Any] | None = None
        self.accumulate_hooks: dict[int, Any] | None = None
        self.accumulator: Any = None  # weak reference to the node that stands for a leaf
        self.leaf_extra: Any = None  # that node's hooks
        self.retains_grad: Any = None  # of a non-leaf: the hook that keeps its gradient
        self.name: str | None = None
        # Of a base taken off the tape: its node's id and its version then (Note [view aliasing]).
        self.detached: tuple[int, int] | None = None


class TensorType(type):
    """Tensor's type: says which names it has not, and notes which are others' by now.

    It has members of its own besides, by which Tensor shows its asking methods
    (`tensor.overriding`).
    """

    def __new__(
        mcs, name: str, bases: tuple[Any, ...], namespace: dict[str, Any], **kwargs: Any
    ) -> Any:
        bases = HOOKS.bases_of(bases, namespace)
        return super().__new__(mcs, name, bases, namespace, **kwargs)

    if not TYPE_CHECKING:  # by which a checker would take any name for one that can be set

        def __setattr__(cls, name: str, value: Any) -> None:
            if cls.__base__ is TensorMethods:  # not who derives from the class
                if is_written_here(value):
                    REPLACED.pop(name, None)
                elif name in REPLACED or any(name in base.__dict__ for base in cls.__mro__):
                    REPLACED[name] = value
            super().__setattr__(name, value)

    def __delattr__(cls, name: str) -> None:
        super().__delattr__(name)
        if cls.__base__ is TensorMethods:
            REPLACED.pop(name, None)

    def __getattr__(cls, name: str) -> Any:
        member = HOOKS.find_method(cls, name)
        return member.__get__(None, cls) if hasattr(member, "__get__") else member


class AwaitedMethod:
    """In the place of a method of a family that loads on first use (`Tensor.det`).

    A `__getattr__` of tensors would find such methods too, but a class that has one is looked up
    in the interpreter's slow way: a tensor's array took 55 ns to get instead of 15, a method 170.
    """

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, tensor: Any, cls: type) -> Any:
        HOOKS.load_rest()
        member = HOOKS.find_method(cls, self.name)
        return member.__get__(tensor, cls) if hasattr(member, "__get__") else member


class Tensor(TensorMethods, metaclass=TensorType):
    """A multi-dimensional array of one dtype, on one device, that can be differentiated."""

    __slots__ = (
        "__dict__",
        "__weakref__",
        "_array",  # the strided array this window shows, or a Window where there is none
        "_base",  # (root, root's node when last seen) for a differentiable view
        "_chain",  # ((record, params), ...) from the storage's root to this window
        "_grad_meta",
        "_node",
        "_nr",
        "_requires_grad",
        "_storage",
    )
    _array: Any
    _base: tuple[Tensor, Any] | None
    _chain: tuple[tuple[Any, dict[str, Any]], ...]
    _grad_meta: AutogradMeta | None
    _node: Any
    _nr: int
    _requires_grad: bool
    _storage: Storage

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        HOOKS.subclassed(cls)

    def __new__(cls, *args: Any, **kwargs: Any) -> Tensor:
        return HOOKS.array.legacy_constructor(cls, *args, **kwargs)

    # -- what it is ---------------------------------------------------------------------------

    @property
    def shape(self) -> Size:
        """The sizes of the dimensions."""
        return _new_tuple(Size, self._array.shape)

    @property
    def dtype(self) -> DType:
        """The element type."""
        return DTYPE_OF[self._array.dtype]

    @property
    def device(self) -> Device:
        """Where the elements are."""
        kind = type(self._array)
        where: Device | None = ONLY_DEVICE.get(kind)
        if where is not None:
            return where
        find = DEVICE_OF.get(kind)
        return CPU if find is None else find(self._array)

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self._array.shape)

    @property
    def _spec(self) -> Spec:
        array = self._array
        kind = array.__class__
        if kind is ndarray:
            return _new_tuple(Spec, (array.shape, DTYPE_OF[array.dtype], CPU))  # quicker
        if kind is Window:
            spec: Spec = array.spec
            return spec
        where = ONLY_DEVICE.get(kind)
        if where is None:
            find = DEVICE_OF.get(kind)
            where = CPU if find is None else find(array)
        return _new_tuple(Spec, (tuple(array.shape), DTYPE_OF[array.dtype], where))

    def stride(self, dim: int | None = None) -> Any:
        """Steps between elements along each dimension, in elements."""
        array = self._array
        if HOOKS.steps is not None and array.__class__ is ndarray:
            strides = HOOKS.steps(array, array.itemsize)
            if strides is not None:
                return strides if dim is None else strides[dim]
        if array.__class__ is Window:
            strides = array.strides
        else:
            size = array.itemsize
            strides = tuple([s // size for s in array.strides])
            if not array.size:  # libraries disagree on empty arrays; mostly it is row-major
                strides = contiguous_strides(array.shape)
            elif 0 in strides:
                strides = unit_strides(array.shape, strides)
        return strides if dim is None else strides[dim]

    # -- autograd -----------------------------------------------------------------------------

    @property
    def requires_grad(self) -> bool:
        """Whether gradients are computed for this tensor."""
        if self._base is not None:
            sync_view(self)
        return self._requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if (
            value
            and (self._node is not None or self._base is not None)
            and self.grad_fn is not None
        ):
            raise RuntimeError("you can only change requires_grad flags of leaf variables.")
        self.requires_grad_(value)

    @property
    def is_leaf(self) -> bool:
        """Whether the tensor was made by the user rather than by an operation being recorded."""
        return not self.requires_grad or self._node is None

    @property
    def grad_fn(self) -> Any:
        """The node that computes this tensor's gradient; None for a leaf."""
        if self._base is not None:
            sync_view(self)
        return self._node

    @property
    def grad(self) -> Any:
        """The accumulated gradient, or None."""
        if CONTEXT.capture is not None:
            return CONTEXT.capture.read_grad(self)
        if self._node is not None and (
            self._grad_meta is None or self._grad_meta.retains_grad is None
        ):
            warn_of_lost_grad()
        return None if self._grad_meta is None else self._grad_meta.grad

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is not None and not is_plain_grad(self, value):
            check_grad(self, value)
        set_grad(self, value)

    @grad.deleter
    def grad(self) -> None:
        set_grad(self, None)

    # PyTorch's inner names, which programs assign (`shared._grad = own.grad`).
    _grad = grad
    _grad_fn = grad_fn

    # -- protocol -----------------------------------------------------------------------------

    def __len__(self) -> Any:
        if OVERRIDES.active and (given := taken(Tensor.__len__, self)) is not PASS:
            return given
        if not self._array.shape:
            raise TypeError("len() of a 0-d tensor")
        return int(self._array.shape[0])

    def __iter__(self) -> Iterator[Tensor]:
        if not self._array.shape:
            raise TypeError("iteration over a 0-d tensor")
        return iter(self.unbind(0))

    __hash__ = object.__hash__
    __array_priority__ = 1000  # NumPy's operators leave mixed expressions to ours


asking(Tensor.__len__)
define(Tensor)
# Classes that keep their array where Tensor does, and show it so (Note [looked at natively]).
PLAIN: set[type] = {Tensor}


def unit_strides(shape: tuple[int, ...], strides: tuple[int, ...]) -> tuple[int, ...]:
    """Strides where libraries put 0 for a new dimension of size 1, and PyTorch the natural step."""
    fixed = list(strides)
    for d in reversed(range(len(shape))):
        if fixed[d] == 0 and shape[d] <= 1:
            fixed[d] = fixed[d + 1] * max(shape[d + 1], 1) if d + 1 < len(shape) else 1
    return tuple(fixed)


def meta_of(tensor: Tensor) -> AutogradMeta:
    """The tensor's autograd extras, made on first use."""
    if tensor._grad_meta is None:
        tensor._grad_meta = AutogradMeta()
    return tensor._grad_meta


def warn_of_lost_grad() -> None:
    """PyTorch's warning on reading the gradient of a non-leaf."""
    warnings.warn(
        "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad "
        "attribute won't be populated during autograd.backward(). If you indeed want the .grad "
        "field to be populated for a non-leaf Tensor, use .retain_grad() on the non-leaf Tensor.",
        stacklevel=3,
    )


def is_plain_grad(tensor: Tensor, grad: Any) -> bool:
    """Whether an array of the host's is assigned that lies in the tensor's shape and dtype."""
    if not isinstance(grad, Tensor) or grad is tensor:
        return False
    array, own, meta = grad._array, tensor._array, tensor._grad_meta
    return (
        array.__class__ is ndarray
        and own.__class__ is ndarray
        and array.dtype is own.dtype
        and array.shape == own.shape
        and (meta is None or meta.grad_dtype is OWN_DTYPE)
    )


def check_grad(tensor: Tensor, grad: Tensor) -> None:
    """Refuse a gradient that does not fit its tensor."""
    if not isinstance(grad, Tensor):
        raise TypeError(
            f"assigned grad expected to be a Tensor or None but got grad of type "
            f"{type(grad).__name__}"
        )
    if grad is tensor:
        raise RuntimeError("can't assign Variable as its own grad")
    meta = tensor._grad_meta
    wanted = tensor.dtype if meta is None or meta.grad_dtype is OWN_DTYPE else meta.grad_dtype
    if grad.shape != tensor.shape or (wanted is not None and grad.dtype is not wanted):
        own = wanted is None or wanted is tensor.dtype
        raise RuntimeError(
            f"grad: assigned gradient {grad._spec} does not match the tensor's {tensor._spec}"
            + ("" if own else f" (grad_dtype {wanted.name})")
        )
    if grad.device != tensor.device:
        raise DeviceError(f"grad: gradient is on {grad.device}, the tensor on {tensor.device}")


def set_grad(tensor: Tensor, grad: Tensor | None) -> None:
    """Store a gradient, noting it in the journal of an active capture."""
    if CONTEXT.capture is not None:
        CONTEXT.capture.touch_grad(tensor)
    meta_of(tensor).grad = grad


def wrap(array: Any) -> Tensor:
    """A tensor that owns `array`."""
    t = _new(Tensor)
    t._array = array
    s = _new(Storage)
    s.buffer = array
    s.version = 0
    s.level = None
    s.payload = None
    s.trace = None
    s.birth = 0
    t._storage = s
    t._chain = ()
    t._base = None
    t._requires_grad = False
    t._node = None
    t._nr = 0
    t._grad_meta = None
    return t


def wrap_all(arrays: Iterable[Any]) -> list[Tensor]:
    """`wrap` of each array, for callers who count microseconds."""
    new, tensor, storage = _new, Tensor, Storage
    tensors = []
    for array in arrays:
        t = new(tensor)
        t._array = array
        t._storage = s = new(storage)
        s.buffer = array
        s.version = s.birth = t._nr = 0
        s.level = s.payload = s.trace = t._base = t._node = t._grad_meta = None
        t._chain = ()
        t._requires_grad = False
        tensors.append(t)
    return tensors


def wrap_places(arrays: Sequence[Any], places: Iterable[int]) -> list[Tensor]:
    """`wrap` of the arrays at these places."""
    return wrap_all([arrays[k] for k in places])


LONG = 16  # links of a chain of views, from which on fewer are looked for (Note [long chains])


def window(source: Tensor, array: Any, record: Any, params: dict[str, Any]) -> Tensor:
    """A view: `array` shows part of `source`'s storage, through one more view operation."""
    t = _new(Tensor)
    t._array = array
    t._storage = source._storage
    t._chain = chain = (*source._chain, (record, params))
    if len(chain) >= LONG:
        t._chain = HOOKS.shortened(source, array, chain)
    t._base = None
    t._requires_grad = False
    t._node = None
    t._nr = 0
    t._grad_meta = None
    return t


def alias(source: Tensor, kind: type[Tensor] = Tensor) -> Tensor:
    """The same window, off the tape."""
    t = _new(kind)
    t._array = source._array
    t._storage = source._storage
    t._chain = source._chain
    t._base = None
    t._requires_grad = False
    t._node = None
    t._nr = 0
    t._grad_meta = None
    return t


def alias_noted(source: Tensor) -> Tensor:
    """The same window, off the tape; a capture knows that it was made there."""
    t = alias(source)
    if CONTEXT.capture is not None:
        CONTEXT.capture.derive(t, source)
    return t


def alias_with_history(source: Tensor) -> Tensor:
    """The same window at the same place on the tape."""
    t = alias_noted(source)
    t._node, t._nr, t._requires_grad = source._node, source._nr, source._requires_grad
    return t


def root_of(view: Tensor) -> Tensor:
    """The base of a view; one that became a view itself (`base.t_()`) leads on to what it was."""
    root = view._base[0]  # type: ignore[index]
    while root._base is not None:
        root = root._base[0]
    return root


def symbolic(spec: Spec, storage: Storage, strides: tuple[int, ...] | None = None) -> Tensor:
    """A tensor without elements: the root window of a level's or a capture's storage.

    `strides` are those the elements will have, row-major unless given: they decide what `reshape`
    views and what it copies.
    """
    t = _new(Tensor)
    if strides is None:
        strides = contiguous_strides(spec.shape)
    t._array = Window(spec, strides, 0)
    t._storage = storage
    t._chain = ()
    t._base = None
    t._requires_grad = False
    t._node = None
    t._nr = 0
    t._grad_meta = None
    return t


def symbolic_view(source: Tensor, spec: Spec, record: Any, params: dict[str, Any]) -> Tensor:
    """A view of a tensor whose value is symbolic (or treated so): its window is computed."""
    strides, offset = record.window(source, **params)
    return window(source, Window(spec, strides, offset), record, params)


class _NoGrad:
    """Marks a view made while gradients were off."""

    def __repr__(self) -> str:
        return "NO_GRAD"


NO_GRAD = _NoGrad()


def mark_view(view: Tensor, source: Tensor) -> None:
    """Make `view` a differentiable view of `source`'s root, at the root's present node."""
    root = source if source._base is None else root_of(source)
    if source._base is not None and source._base[1] is NO_GRAD:
        view._base = (root, NO_GRAD)
    else:
        view._base = (root, root._node if CONTEXT.grad_enabled else NO_GRAD)


def sync_view(view: Tensor) -> None:
    """Bring a view's place on the tape up to date with writes to its base.

    Note [view aliasing]
        A write through any window of a storage gives the root a new node. A view knows the node
        its own was derived from; when the root has moved on, the view's node is derived again by
        replaying the chain from the root.

        `base.detach_()` takes the root alone off the tape: its views stay where they were until
        the storage is written to. The root notes the id of its node, not the node, which would keep
        the graph alive; a view that saw it holds it, so that no other node has that id.
    """
    seen = view._base[1]  # type: ignore[index]
    root = root_of(view)
    if seen is NO_GRAD or root._node is seen:
        return
    meta = root._grad_meta if root._node is None else None
    if meta is not None and meta.detached == (id(seen), root._storage.version):
        return
    current = alias_with_history(root)
    with CONTEXT.having(grad_enabled=True):
        for record, params in view._chain[len(root._chain) :]:
            current = record(current, **params)
    if CONTEXT.capture is not None:
        CONTEXT.capture.touch(view)
    view._node, view._nr = current._node, current._nr
    view._requires_grad = current._requires_grad
    view._base = (root, root._node)

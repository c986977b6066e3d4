"""SparseTensor: what the layouts have in common, and what they refuse."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

from adjoint.engine.autodiff.tape.flags import detach as detach_elements
from adjoint.engine.autodiff.tape.hooks import Handle
from adjoint.engine.core.layout import (
    Layout,
    sparse_bsc,
    sparse_bsr,
    sparse_coo,
    sparse_csc,
    sparse_csr,
)
from adjoint.engine.core.operations.public import INPLACE, METHODS, PROPERTIES
from adjoint.engine.core.spec import Spec
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.state.structure_version import STRUCTURE_VERSION
from adjoint.engine.ops.shape.convert import _read_to
from adjoint.engine.sparse.printing import to_string
from adjoint.engine.tensor.copying import NO_DEEPCOPY
from adjoint.engine.tensor.storage import Storage, Window
from adjoint.engine.tensor.tensor import Tensor

_new = object.__new__


# From COO to other layouts; each layout's module enters its own.
CONVERSIONS: dict[Layout, Callable[..., Any]] = {}


class SparseTensor(Tensor):
    """A tensor that keeps only some elements, in one dense tensor; the others are zero.

    Its place on the tape is its elements' place: `requires_grad`, `grad`, hooks and `detach` are
    theirs, seen at the same positions.
    """

    __slots__ = ("_elements",)
    _elements: Tensor

    # -- what a layout states -------------------------------------------------------------------

    @abstractmethod
    def with_elements(self, elements: Tensor) -> Any:
        """Other elements at the same positions."""

    @abstractmethod
    def tensors(self) -> tuple[Tensor, ...]:
        """The dense tensors it is made of, the elements last."""

    @abstractmethod
    def rest(self) -> tuple[Any, ...]:
        """The size, and what else it is made of."""

    @staticmethod
    @abstractmethod
    def assemble(*parts: Any) -> Any:
        """The tensor of its `tensors` and the `rest`."""

    @abstractmethod
    def to_dense(self, dtype: Any = None, *, masked_grad: bool | None = None) -> Tensor:
        """All elements, zeros included."""

    @abstractmethod
    def at(self) -> tuple[Tensor, ...]:
        """Where the elements are: an index for each dimension that is not dense, of a shape that
        expands to theirs."""

    @abstractmethod
    def spread(self) -> Any:
        """The elements with their coordinates, in whatever order they are kept."""

    @abstractmethod
    def in_order(self) -> Any:
        """The elements with their coordinates, row by row if that takes no more than sorting."""

    @abstractmethod
    def to_sparse_coo(self) -> Any:
        """The tensor with coordinates."""

    @abstractmethod
    def in_layout(self, sparse: Any) -> Any:
        """A tensor of coordinates in this tensor's layout."""

    @abstractmethod
    def moved(self, device: Any) -> Any:
        """The tensor on another device."""

    # -- what it is ---------------------------------------------------------------------------

    def _nnz(self) -> int:
        """How many elements are kept."""
        return int(self._elements.shape[0])

    def _values(self) -> Tensor:
        """The elements kept, off the tape."""
        return detach_elements(self._elements)

    def dense_dim(self) -> int:
        """How many of the last dimensions each kept element has."""
        return self._elements.ndim - 1

    def sparse_dim(self) -> int:
        """How many of the first dimensions are indexed."""
        return self.ndim - self.dense_dim()

    def batch_dim(self) -> int:
        """How many of the first dimensions are of a batch: none, but in layouts of lines."""
        return 0

    def stride(self, dim: int | None = None) -> NoReturn:
        """Refused: elements do not lie at regular steps."""
        raise refusal("stride", self)

    def is_contiguous(self, memory_format: Any = None) -> bool:
        """False: elements do not lie at regular steps."""
        return False

    def type(self, dtype: Any = None, non_blocking: bool = False) -> Any:
        """The name of the type as PyTorch writes it, or the tensor in another dtype."""
        elements = self._elements.type(dtype)
        if dtype is None:
            return elements.replace("torch.", "torch.sparse.", 1)
        return self.with_elements(elements)

    # -- the tape -----------------------------------------------------------------------------

    @property
    def requires_grad(self) -> bool:
        """Whether gradients are computed for this tensor."""
        return self._elements.requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self._elements.requires_grad = value

    def requires_grad_(self, requires_grad: bool = True) -> Any:
        """Ask for this tensor's gradient (or stop asking); returns the tensor."""
        self._elements.requires_grad_(requires_grad)
        return self

    @property
    def is_leaf(self) -> bool:
        """Whether the tensor was made by the user rather than by an operation being recorded."""
        return self._elements.is_leaf

    @property
    def grad_fn(self) -> Any:
        """The node that computes this tensor's gradient; None for a leaf."""
        return self._elements.grad_fn

    @property
    def grad(self) -> Any:
        """The accumulated gradient at this tensor's positions, or None."""
        grad = self._elements.grad
        return None if grad is None else self.as_gradient(grad)

    @grad.setter
    def grad(self, value: Any) -> None:
        if value is None:
            self._elements.grad = None
            return
        if type(value) is not type(self) or value._nnz() != self._nnz():
            raise RuntimeError(
                f"grad: expected a gradient of layout {self.layout!r} with {self._nnz()} elements, "
                f"received {value!r}"
            )
        self._elements.grad = value._values()

    @grad.deleter
    def grad(self) -> None:
        self._elements.grad = None

    def as_gradient(self, elements: Tensor) -> Any:
        """A gradient of the elements as one of this tensor."""
        return self.with_elements(elements)

    def retain_grad(self) -> None:
        """Keep the gradient of a non-leaf in `.grad`."""
        self._elements.retain_grad()

    def register_hook(self, hook: Callable[[Any], Any]) -> Handle:
        """Call `hook(grad)` when the gradient of this tensor is computed; it may return another."""

        def seen(g: Tensor | None) -> Any:
            replaced = hook(None if g is None else self.as_gradient(g))
            return None if replaced is None else replaced._elements

        return self._elements.register_hook(seen)

    def detach(self) -> Any:
        """The same tensor off the tape; it shares the elements."""
        return self.with_elements(detach_elements(self._elements))

    def detach_(self) -> Any:
        """Take this tensor off the tape: it becomes a leaf."""
        self._elements = detach_elements(self._elements)
        return self

    @property
    def data(self) -> Any:
        """The same tensor off the tape."""
        return self.detach()

    @data.setter
    def data(self, value: Any) -> None:
        self.take(value)

    # -- conversion ---------------------------------------------------------------------------

    def to_sparse(
        self,
        sparse_dim: Any = None,
        *,
        layout: Any = None,
        blocksize: Any = None,
        dense_dim: int | None = None,
    ) -> Any:
        """The tensor with coordinates, or in another sparse layout; itself if that is its own."""
        if layout is None and isinstance(sparse_dim, Layout):
            layout, sparse_dim = sparse_dim, None
        if layout is self.layout and blocksize is None:
            return self
        if layout is not None and layout is not sparse_coo:
            return conversion("to_sparse", layout)(self.in_order(), blocksize, self.batch_dim())
        coordinates = self.to_sparse_coo()
        if sparse_dim is None or sparse_dim == coordinates.sparse_dim():
            return coordinates
        return self.to_dense().to_sparse(sparse_dim)

    def to_sparse_csr(self, dense_dim: int | None = None) -> Any:
        """The matrix row by row."""
        return self.to_sparse(layout=sparse_csr)

    def to_sparse_csc(self, dense_dim: int | None = None) -> Any:
        """The matrix column by column."""
        return self.to_sparse(layout=sparse_csc)

    def to_sparse_bsr(self, blocksize: Any, dense_dim: int | None = None) -> Any:
        """The matrix in blocks, one row of blocks after the other."""
        return self.to_sparse(layout=sparse_bsr, blocksize=blocksize)

    def to_sparse_bsc(self, blocksize: Any, dense_dim: int | None = None) -> Any:
        """The matrix in blocks, one column of blocks after the other."""
        return self.to_sparse(layout=sparse_bsc, blocksize=blocksize)

    def to(self, *args: Any, **kwargs: Any) -> Any:
        """Convert dtype and/or device; the tensor itself where nothing changes."""
        given = _read_to(args, kwargs)
        device, dtype = given.get("device"), given.get("dtype")
        converted = self if device is None else self.moved(device)
        if dtype is not None and dtype is not converted.dtype:
            converted = converted.with_elements(converted._elements.to(dtype))
        if converted is self and given.get("copy"):
            return self.clone()
        return converted

    def cpu(self, memory_format: Any = None) -> Any:
        """The tensor in main memory."""
        return self.to("cpu")

    def cuda(self, device: Any = None, non_blocking: bool = False) -> Any:
        """The tensor on a GPU."""
        return self.to("cuda" if device is None else device)

    # -- writing ------------------------------------------------------------------------------

    def take(self, other: Any) -> Any:
        """Become `other`: the one way a sparse tensor changes."""
        if type(other) is not type(self) or other.shape != self.shape:
            raise RuntimeError(
                f"{type(self).__name__}: cannot hold {other._spec} of layout {other.layout!r} in a "
                f"tensor of layout {self.layout!r} and shape {tuple(self.shape)}. Assign a new "
                "tensor."
            )
        if CONTEXT.grad_enabled and self.requires_grad and self.is_leaf:
            raise RuntimeError(
                "a leaf Variable that requires grad is being used in an in-place operation. "
                "Wrap the write in no_grad(), or work on a clone."
            )
        if other.dtype is not self.dtype:
            other = other.to(self.dtype)
        for cls in type(self).__mro__[: type(self).__mro__.index(Tensor)]:
            for slot in cls.__dict__.get("__slots__", ()):
                setattr(self, slot, getattr(other, slot))
        self._storage.version += 1
        STRUCTURE_VERSION.count += 1  # a captured step knows the elements by their memory
        return self

    def copy_(self, other: Any, non_blocking: bool = False) -> Any:
        """Take over the elements of another tensor of the same layout."""
        if not isinstance(other, SparseTensor):
            raise RuntimeError(
                "copy_() between dense and sparse Tensors is not implemented! Found "
                f"self of layout {self.layout!r} and source of layout {other.layout!r}. "
                "Convert one with to_sparse() or to_dense()."
            )
        return self.take(other.to(self.device).clone())

    # -- protocol -----------------------------------------------------------------------------

    def __repr__(self, **_: Any) -> str:
        return to_string(self)

    def __format__(self, spec: str) -> str:
        return to_string(self)

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        detached = self.detach()
        return (_rebuilt, (type(self), detached.tensors(), self.rest(), self.requires_grad))

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) in memo:
            return memo[id(self)]
        if not self.is_leaf:
            raise RuntimeError(NO_DEEPCOPY)
        out = memo[id(self)] = self.detach().clone().requires_grad_(self.requires_grad)
        return out

    def __copy__(self) -> Any:
        return self.with_elements(self._elements)


def _rebuilt(cls: type[Any], tensors: Any, rest: Any, requires_grad: bool) -> Any:
    return cls.assemble(*tensors, *rest).requires_grad_(requires_grad)


@dataclass(frozen=True, slots=True)
class Pattern:
    """A sparse tensor without its tensors: what makes it of others, as the node of a tree."""

    cls: type[Any]
    rest: tuple[Any, ...]

    def __call__(self, *tensors: Tensor) -> Any:
        return self.cls.assemble(*tensors, *self.rest)


def bare(cls: type[Any], elements: Tensor, size: tuple[int, ...]) -> Any:
    """A tensor of a sparse class with all that Tensor asks for, and its elements."""
    tensor = _new(cls)
    # No strides and no buffer: nothing that reads memory mistakes it for a dense tensor.
    spec = Spec(size, elements.dtype, elements.device)
    tensor._array = Window(spec, (0,) * len(size), 0)
    tensor._storage = Storage(None)
    tensor._chain = ()
    tensor._base = tensor._node = tensor._grad_meta = None
    tensor._requires_grad = False
    tensor._nr = 0
    tensor._elements = elements
    return tensor


def conversion(name: str, layout: Any) -> Callable[..., Any]:
    """What makes a tensor of this layout of coordinates."""
    if layout not in CONVERSIONS:
        raise RuntimeError(f"{name}: {layout!r} is no sparse layout")
    return CONVERSIONS[layout]


def refusal(name: str, operand: Any) -> NotImplementedError:
    """The error for an operation that has no meaning, or no rule, for a sparse tensor."""
    return NotImplementedError(
        f"{name}: not implemented for a tensor of layout {operand.layout!r}, received "
        f"{operand._spec}. Convert it with .to_dense() first."
    )


# Methods that look at memory or attributes of Tensor, and are right for sparse tensors as they are.
_SHARED = frozenset(
    """
    backward dim ndimension numel nelement size get_device is_complex is_floating_point is_signed
    is_conj is_neg resolve_conj resolve_neg is_same_size is_distributed is_cpu is_cuda is_mps
    is_xpu is_xla is_mtia is_maia is_ipu is_vulkan is_meta is_nested is_quantized is_mkldnn
    is_inference name volatile grad_dtype retains_grad _cdata
    element_size itemsize output_nr _version _is_view new_tensor layout float double half bfloat16
    int long short char byte bool cfloat cdouble type_as is_sparse is_sparse_csr is_coalesced
    indices crow_indices col_indices ccol_indices row_indices
    """.split()
)

# Operations that look at strides before they reach a record, or make a dense tensor like this one.
_DENSE = frozenset(
    """
    view reshape view_as reshape_as flatten ravel unflatten contiguous new_zeros new_ones new_full
    new_empty new_empty_strided new_arange
    """.split()
)


_OF_NUMPY = ("numpy", "__array__")  # a TypeError is what PyTorch raises, and NumPy passes on


def _refuse(name: str) -> Any:
    def method(self: SparseTensor, *args: Any, **kwargs: Any) -> Any:
        error = refusal(name, self)
        raise TypeError(str(error)) if name in _OF_NUMPY else error

    method.__name__ = name
    method.__doc__ = "Refused for sparse tensors."
    return method


def _in_place(name: str, fn: Callable[..., Any]) -> Any:
    def method(self: SparseTensor, *args: Any, **kwargs: Any) -> Any:
        return self.take(fn(self, *args, **kwargs))

    method.__name__ = f"{name}_"
    method.__doc__ = f"In-place form of `{name}`."
    return method


_OPERATORS = "add sub mul truediv floordiv mod pow and or xor lshift rshift".split()


def _operator(name: str) -> Any:
    plain = getattr(Tensor, f"__{name}__")

    def method(self: SparseTensor, other: Any) -> Any:
        return self.take(plain(self, other))

    return method


def complete(cls: type[SparseTensor]) -> None:
    """Refuse the methods of dense tensors that read memory, and give the in-place forms.

    What is defined in `adjoint.engine.ops` reaches an operation's record, where `rules` decides.
    """
    for name, fn in METHODS.items():
        if name in _SHARED or hasattr_own(cls, name):
            continue
        if name.endswith("_") or name in _DENSE or not _is_operation(fn):
            setattr(cls, name, _refuse(name))
    for name, fn in INPLACE.items():
        if not hasattr_own(cls, f"{name}_"):
            setattr(cls, f"{name}_", _in_place(name, fn))
    for name in PROPERTIES:
        if (
            name not in _SHARED
            and not hasattr_own(cls, name)
            and not _is_operation(PROPERTIES[name])
        ):
            setattr(cls, name, property(_refuse(name)))
    for name in _OPERATORS:
        setattr(cls, f"__i{name}__", _operator(name))


def hasattr_own(cls: type, name: str) -> bool:
    """Whether a sparse class itself, not Tensor, defines a name."""
    return any(name in c.__dict__ for c in cls.__mro__[: cls.__mro__.index(Tensor)])


def _is_operation(fn: Any) -> bool:
    module = getattr(getattr(fn, "fget", fn), "__module__", "")
    return module.startswith("adjoint.engine.ops")

"""Writing whole objects: Python's pickler, with tensors and classes under PyTorch's names."""

from __future__ import annotations

import pickle
from collections import OrderedDict
from collections.abc import Callable
from itertools import pairwise
from types import FunctionType
from typing import Any

from adjoint.engine.core.device import Device
from adjoint.engine.core.dtype import DType
from adjoint.engine.core.layout import Layout
from adjoint.engine.core.operations.return_types import RETURN_TYPES
from adjoint.engine.core.spec import Size
from adjoint.engine.core.state.structure_version import TrackedDict
from adjoint.engine.tensor.memory import UntypedStorage
from adjoint.engine.tensor.tensor import Tensor
from adjoint.io import objects
from adjoint.io.other_tensors import is_quantized
from adjoint.io.pickler import Global, Persistent
from adjoint.io.running import find

# Dicts of Adjoint's that are plain ones in PyTorch's files.
AS_DICTS = frozenset({"adjoint.optim.stepping.groups.ParamGroup"})
Reduced = tuple[str, tuple[Any, ...]]
PythonPickler: Any = pickle._Pickler  # what it consists of is not in Python's stubs


def rebuilt_by_name(value: Any, reduce_tensor: Callable[[Any], Reduced]) -> Any:
    """How a value of Adjoint's is written: a name and arguments; NotImplemented for all others."""
    if isinstance(value, Tensor) or is_quantized(value):
        if isinstance(value, Tensor) and objects.reduces_itself(value):
            return NotImplemented
        name, args = reduce_tensor(value)
    elif type(value) is Size:
        name, args = "torch Size", (tuple(value),)
    elif type(value) is Device:
        index = () if value.index is None else (value.index,)
        name, args = "torch device", (value.type, *index)
    elif type(value) is Layout:
        name, args = "torch.serialization _get_layout", (f"torch.{value.name}",)
    elif isinstance(value, tuple) and RETURN_TYPES.get(type(value).__name__) is type(value):
        name, args = f"torch.return_types {type(value).__name__}", (tuple(value), {})
    else:
        return NotImplemented
    return Global(name), args


def _full_name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


class ObjectPickler(PythonPickler):  # type: ignore[misc]
    """Python's own pickler in Python: it lets names be written of modules that are not there.

    Args:
        file: has `write`.
        protocol: of the pickle.
        reduce_tensor: gives (name of a rebuilding function, its arguments) for a tensor.
        reduce_storage: gives the persistent id of a storage.
    """

    dispatch: dict[Any, Any] = dict(PythonPickler.dispatch)

    def __init__(
        self,
        file: Any,
        protocol: int,
        reduce_tensor: Callable[[Any], Reduced],
        reduce_storage: Callable[[Any], tuple[Any, ...]],
    ) -> None:
        super().__init__(file, protocol)
        self.reduce_tensor = reduce_tensor
        self.reduce_storage = reduce_storage
        self.inside: list[Any] = []  # what is being written, each inside the one before it

    def dump(self, obj: Any) -> None:
        """Write a whole pickle; an error says where the value is that cannot be written."""
        try:
            super().dump(obj)
        except Exception as error:
            if self.inside:
                kind = type(self.inside[-1])
                error.add_note(
                    f"save: cannot save {kind.__module__}.{kind.__qualname__} at {self._place()}"
                )
            raise

    def save(self, obj: Any, save_persistent_id: bool = True) -> None:
        """Write a value, or a reference if it was written before."""
        self.inside.append(obj)
        super().save(obj, save_persistent_id)
        self.inside.pop()

    def _place(self) -> str:
        """Where in the whole the value is that is written now."""
        found = []
        for outer, inner in pairwise(self.inside):
            pairs: Any = outer.items() if isinstance(outer, dict) else ()
            if isinstance(outer, (list, tuple)):
                pairs = enumerate(outer)
            found += [f"[{key!r}]" for key, value in pairs if value is inner][:1]
        return "".join(found) or "its top"

    def persistent_id(self, obj: Any) -> Any:
        """What stands for a storage, whose bytes are outside the pickle."""
        if isinstance(obj, Persistent):
            return obj.pid
        return self.reduce_storage(obj) if isinstance(obj, UntypedStorage) else None

    def reducer_override(self, obj: Any) -> Any:
        """Values of Adjoint's, by the names PyTorch has for what builds them."""
        if isinstance(obj, dict) and _full_name(type(obj)) in AS_DICTS:
            self.dispatch[type(obj)] = self.dispatch[dict]
        return rebuilt_by_name(obj, self.reduce_tensor)

    def save_global(self, obj: Any, name: str | None = None) -> None:
        """Write the name of a class or function, PyTorch's for one of Adjoint's."""
        known = objects.torch_name(obj) if name is None else None
        if known is None:
            super().save_global(obj, name)
            return
        self.save_name(Global(known))
        self.memoize(obj)

    def save_name(self, value: Global) -> None:
        """Write a name as it is given."""
        module, name = value.name.split(" ")
        self.write(pickle.GLOBAL + f"{module}\n{name}\n".encode())

    def save_class(self, obj: Any) -> None:
        """Write a class."""
        if obj in (type(None), type(NotImplemented), type(...)):
            self.save_type(obj)
        else:
            self.save_global(obj)

    def save_dtype(self, obj: DType) -> None:
        """Write a dtype: a name of PyTorch's top module."""
        self.save_name(Global(f"torch {obj.name}"))
        self.memoize(obj)

    def save_table(self, obj: TrackedDict) -> None:
        """Write a module's table: PyTorch's of hooks are ordered ones, which handles refer to."""
        if all(isinstance(key, int) for key in obj):
            self.save_reduce(OrderedDict, (), None, None, iter(obj.items()), obj=obj)
        else:
            self.save_dict(obj)

    dispatch |= {
        Global: save_name,
        DType: save_dtype,
        FunctionType: save_global,
        type: save_class,
        TrackedDict: save_table,
    }


def named(module: str, name: str) -> Any:
    """What a name of PyTorch's stands for: files of other pickle modules call this."""
    return find(module, name)


def foreign_pickler(
    pickle_module: Any,
    file: Any,
    protocol: int,
    reduce_tensor: Callable[[Any], Reduced],
    reduce_storage: Callable[[Any], tuple[Any, ...]],
) -> Any:
    """A pickler of another module than Python's, which writes names by looking them up.

    Its files say `adjoint.io.object_pickler.named`, so only Adjoint reads them.
    """

    class Foreign(pickle_module.Pickler):  # type: ignore[misc]
        def persistent_id(self, obj: Any) -> Any:
            if isinstance(obj, Persistent):
                return obj.pid
            return reduce_storage(obj) if isinstance(obj, UntypedStorage) else None

        def reducer_override(self, obj: Any) -> Any:
            if isinstance(obj, Global):
                return named, tuple(obj.name.split(" "))
            found = rebuilt_by_name(obj, reduce_tensor)
            base = getattr(super(), "reducer_override", None)
            return base(obj) if found is NotImplemented and base is not None else found

    return Foreign(file, protocol)

"""Parametrisations: a parameter or buffer computed from others each time it is read.

    register_parametrization(layer, "weight", Symmetric())

moves `layer.weight` to `layer.parametrizations.weight.original` and makes `layer.weight` a property
that computes it, through a class of the module's own that derives from the one it had.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from adjoint.engine.autodiff.tape.modes import no_grad
from adjoint.engine.core.errors import DTypeValueError
from adjoint.engine.core.ownership import module_of
from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn.modules.container import ModuleDict, ModuleList
from adjoint.nn.modules.module import Module
from adjoint.nn.parameter import Parameter


class _Cache:
    """Computed tensors, kept while `cached()` is active."""

    def __init__(self) -> None:
        self.depth = 0
        self.values: dict[tuple[int, str], Any] = {}


_CACHE = _Cache()


@contextmanager
def cached() -> Iterator[None]:
    """Compute every parametrised tensor once within the block, however often it is read."""
    _CACHE.depth += 1
    try:
        yield
    finally:
        _CACHE.depth -= 1
        if not _CACHE.depth:
            _CACHE.values.clear()


def _register(module: Module, name: str, tensor: Tensor) -> None:
    if isinstance(tensor, Parameter):
        module.register_parameter(name, tensor)
    else:
        module.register_buffer(name, tensor)


def _check_same(what: str, before: Any, after: Any, names: tuple[str, str]) -> None:
    """Refuse a change of dtype or shape."""
    for field in ("dtype", "shape"):
        old, new = getattr(before, field), getattr(after, field)
        if old != new:
            raise ValueError(
                what.format(field) + f"\n{names[0]}{field}: {old}\n{names[1]}{field}: {new}"
            )


class _Look:
    """A tensor's dtype and shape, remembered."""

    def __init__(self, tensor: Any) -> None:
        self.dtype = tensor.dtype
        self.shape = tensor.shape


class ParametrizationList(ModuleList):
    """The parametrisations of one tensor, in the order applied, and what they start from.

    That is `original`, or `original0`, `original1` ... if the first one's `right_inverse` gives
    several tensors.
    """

    def __init__(self, modules: Sequence[Module], original: Tensor, unsafe: bool = False) -> None:
        if not len(modules):
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        look = _Look(original)
        new = self._invert_where_possible(original)
        if not isinstance(new, (Tensor, Sequence)):
            raise ValueError(
                "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). "
                f"Got {type(new).__name__}"
            )
        self.is_tensor = isinstance(new, Tensor)
        self.ntensors = 1 if isinstance(new, Tensor) else len(new)
        if isinstance(new, Tensor):
            self._keep_one(original, new)
        else:
            self._keep_several(original, new)
        if not unsafe:
            result = self()
            if not isinstance(result, Tensor):
                raise ValueError(
                    f"A parametrization must return a tensor. Got {type(result).__name__}."
                )
            _check_same(
                "Registering a parametrization may not change the {} of the tensor, unless "
                "`unsafe` flag is enabled.",
                look,
                result,
                ("unparametrized ", "parametrized "),
            )

    def _invert_where_possible(self, original: Tensor) -> Any:
        """What the parametrisations would give the original for; themselves where none says."""
        new: Any = original
        with no_grad():
            for module in reversed(self):
                if hasattr(module, "right_inverse"):
                    try:
                        new = module.right_inverse(new)
                    except NotImplementedError:
                        continue
        return new

    def _keep_one(self, original: Tensor, new: Tensor) -> None:
        for field in ("dtype", "device"):
            old, now = getattr(original, field), getattr(new, field)
            if old != now:
                raise ValueError(
                    f"When `right_inverse` outputs one tensor, it may not change the {field}.\n"
                    f"original.{field}: {old}\nright_inverse(original).{field}: {now}"
                )
        _show(original, new)  # the same object still: an optimizer may hold it
        _register(self, "original", original)

    def _keep_several(self, original: Tensor, new: Sequence[Any]) -> None:
        for i, tensor in enumerate(new):
            if not isinstance(tensor, Tensor):
                raise ValueError(
                    "'right_inverse' must return a Tensor or a Sequence of tensors (list, "
                    f"tuple...). Got element {i} of the sequence with type "
                    f"{type(tensor).__name__}."
                )
            if isinstance(original, Parameter):
                tensor = Parameter(tensor, original.requires_grad)
            tensor.requires_grad_(original.requires_grad)
            _register(self, f"original{i}", tensor)

    def right_inverse(self, value: Any) -> None:
        """Set the originals so that the parametrised tensor becomes `value`."""
        with no_grad():
            for module in reversed(self):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(
                        f"parametrization {type(module).__name__} does not implement right_inverse."
                    )
                value = module.right_inverse(value)
        values = [value] if self.is_tensor else value
        if not isinstance(values, Sequence) or len(values) != self.ntensors:
            raise ValueError(
                f"'right_inverse' must return a sequence of tensors of length {self.ntensors}. Got "
                f"{type(value).__name__}."
            )
        for i, tensor in enumerate(values):
            name = "original" if self.is_tensor else f"original{i}"
            original = getattr(self, name)
            if not isinstance(tensor, Tensor):
                raise ValueError(
                    f"`right_inverse` should return a tensor. Got {type(tensor).__name__}"
                )
            if tensor.dtype != original.dtype:
                raise DTypeValueError(
                    f"The tensor returned by `right_inverse` has dtype {tensor.dtype} while "
                    f"`{name}` has dtype {original.dtype}"
                )
            _show(original, tensor)

    def forward(self) -> Any:
        if self.is_tensor:
            x = self[0](self.original)
        else:
            x = self[0](*(getattr(self, f"original{i}") for i in range(self.ntensors)))
        for i in range(1, len(self)):
            x = self[i](x)
        return x


def _show(target: Any, source: Tensor) -> None:
    """Make a tensor show another's elements, staying the object it is."""
    if target is not source:
        target.data = source.detach()


# -- the class of a parametrised module -------------------------------------------------------


def _deepcopy(self: Any, memo: dict[int, Any]) -> Any:
    if id(self) in memo:
        return memo[id(self)]
    replica = memo[id(self)] = object.__new__(type(self))
    replica.__dict__.update(copy.deepcopy(self.__dict__, memo))
    return replica


def _refuse_pickling(self: Any) -> Any:
    raise RuntimeError(
        "Serialization of parametrized modules is only supported through state_dict()."
    )


def _give_own_class(module: Any) -> None:
    """Let the module's class be one of its own, for properties to be put on."""
    kind = type(module)
    members: dict[str, Any] = {"__getstate__": _refuse_pickling, "__module__": module_of(kind)}
    if not hasattr(kind, "__deepcopy__"):
        members["__deepcopy__"] = _deepcopy
    module.__class__ = type(f"Parametrized{kind.__name__}", (kind,), members)


def _give_property(module: Module, name: str) -> None:
    def read(self: Any) -> Any:
        if not _CACHE.depth:
            return self.parametrizations[name]()
        key = (id(self), name)
        if key not in _CACHE.values:
            _CACHE.values[key] = self.parametrizations[name]()
        return _CACHE.values[key]

    def write(self: Any, value: Any) -> None:
        self.parametrizations[name].right_inverse(value)

    setattr(type(module), name, property(read, write))


# -- the functions ----------------------------------------------------------------------------


def register_parametrization(
    module: Any, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Any:
    """Compute a parameter or buffer by a module each time it is read.

    Args:
        module: the module the tensor is of.
        tensor_name: the tensor.
        parametrization: its forward gives the tensor's value from the original; its
            `right_inverse`, if it has one, the original for a value.
        unsafe: whether the value may differ from the original in dtype and shape.

    Example:
        >>> import adjoint as ad
        >>> class Symmetric(ad.nn.Module):
        ...     def forward(self, x):
        ...         return x.triu() + x.triu(1).T
        >>> layer = ad.nn.Linear(3, 3)
        >>> _ = ad.nn.utils.parametrize.register_parametrization(layer, "weight", Symmetric())
        >>> bool((layer.weight == layer.weight.T).all())
        True
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        if not unsafe:
            _check_further(module, tensor_name, parametrization)
        module.parametrizations[tensor_name].append(parametrization)
        module.parametrizations[tensor_name].unsafe |= unsafe
    elif tensor_name in module._buffers or tensor_name in module._parameters:
        original = getattr(module, tensor_name)
        parametrizations = ParametrizationList([parametrization], original, unsafe=unsafe)
        delattr(module, tensor_name)
        if not is_parametrized(module):
            _give_own_class(module)
            module.parametrizations = ModuleDict()
        _give_property(module, tensor_name)
        module.parametrizations[tensor_name] = parametrizations
    else:
        raise ValueError(
            f"Module '{module}' does not have a parameter, a buffer, or a parametrized element "
            f"with name '{tensor_name}'"
        )
    return module


def _check_further(module: Any, name: str, parametrization: Any) -> None:
    """Refuse a second parametrisation that changes what the first gives in kind."""
    value = getattr(module, name)
    result = parametrization(value)
    if not isinstance(result, Tensor):
        raise ValueError(f"A parametrization must return a tensor. Got {type(result).__name__}.")
    _check_same(
        "Registering a parametrization may not change the {} of the tensor, unless the `unsafe` "
        "flag is enabled.",
        value,
        result,
        (f"module.{name}.", f"parametrization(module.{name})."),
    )
    if hasattr(parametrization, "right_inverse"):
        try:
            back = parametrization.right_inverse(result)
        except NotImplementedError:
            return
        if not isinstance(back, Tensor):
            raise ValueError(
                f"parametrization.right_inverse must return a tensor. Got: {type(back).__name__}"
            )
        _check_same(
            "The tensor returned by parametrization.right_inverse must have the same {} as "
            f"module.{name}, unless the `unsafe` flag is enabled.",
            value,
            back,
            (f"module.{name}.", "returned "),
        )


def is_parametrized(module: Any, tensor_name: str | None = None) -> bool:
    """Whether a module (or one tensor of it) is parametrised."""
    parametrizations = getattr(module, "parametrizations", None)
    if not isinstance(parametrizations, ModuleDict):
        return False
    return len(parametrizations) > 0 if tensor_name is None else tensor_name in parametrizations


def remove_parametrizations(module: Any, tensor_name: str, leave_parametrized: bool = True) -> Any:
    """Make a parametrised tensor an ordinary one again.

    Args:
        module: the module the tensor is of.
        tensor_name: the tensor.
        leave_parametrized: whether it keeps its present value, rather than the original's.
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    parametrization = module.parametrizations[tensor_name]
    if parametrization.is_tensor:
        original = parametrization.original
        if leave_parametrized:
            with no_grad():
                _show(original, getattr(module, tensor_name))
    elif leave_parametrized:
        value = getattr(module, tensor_name)
        original = Parameter(value) if value.requires_grad else value
    else:
        raise ValueError(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is "
            "parametrized in terms of a sequence of tensors."
        )
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    _register(module, tensor_name, original)
    if not is_parametrized(module):
        del module.parametrizations
        module.__class__ = type(module).__bases__[0]
    return module


def type_before_parametrizations(module: Any) -> type:
    """The class of a module, as it was before it was parametrised."""
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(
    from_module: Any, to_module: Any, tensor_name: str | None = None
) -> Any:
    """Give a module the parametrisations of another, with copies of the originals.

    Args:
        from_module: where they are.
        to_module: where they go; tensors it lacks are made.
        tensor_name: one tensor; all that are parametrised by default.
    """
    if not is_parametrized(from_module):
        return to_module
    names = from_module.parametrizations if tensor_name is None else [tensor_name]
    for name in list(names):
        source = from_module.parametrizations[name]
        if not hasattr(to_module, name):
            setattr(to_module, name, Parameter(getattr(from_module, name)))
        for parametrization in source:
            register_parametrization(to_module, name, copy.deepcopy(parametrization), unsafe=True)
        target = to_module.parametrizations[name]
        for key in ["original"] if source.is_tensor else _numbered(source.ntensors):
            setattr(target, key, copy.deepcopy(getattr(source, key)))
    return to_module


def _numbered(count: int) -> list[str]:
    return [f"original{i}" for i in range(count)]

"""Pruning: parameters multiplied by masks of zeros and ones.

`l1_unstructured(layer, "weight", 0.3)` moves the parameter to `weight_orig`, keeps the mask as the
buffer `weight_mask`, and makes `weight` their product before each forward.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from numbers import Integral, Real
from typing import Any

from adjoint.engine.autodiff.tape.modes import no_grad
from adjoint.engine.core.errors import ShapeValueError
from adjoint.engine.ops.create.creation import ones_like, zeros_like
from adjoint.engine.ops.random.random import rand, rand_like
from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn.modules.module import Module
from adjoint.nn.utils.convert_parameters import parameters_to_vector


class BasePruningMethod(ABC):
    """A way to choose what to prune; a subclass defines `compute_mask` and `PRUNING_TYPE`."""

    PRUNING_TYPE: str  # "unstructured", "structured" (with an attribute `dim`) or "global"
    _tensor_name: str | None = None

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self._named(module), self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask for a tensor (or its importance scores), on top of the one there is."""

    def _named(self, module: Module) -> str:
        if self._tensor_name is None:
            raise AssertionError(f"Module {module} has to be pruned")
        return self._tensor_name

    def apply_mask(self, module: Module) -> Tensor:
        """The original times the mask."""
        name = self._named(module)
        original = getattr(module, name + "_orig")
        masked: Tensor = getattr(module, name + "_mask").to(dtype=original.dtype) * original
        return masked

    @classmethod
    def apply(
        cls, module: Module, name: str, *args: Any, importance_scores: Any = None, **kwargs: Any
    ) -> BasePruningMethod:
        """Prune a tensor of a module, on top of earlier prunings."""
        method: BasePruningMethod = cls(*args, **kwargs)
        method._tensor_name = name
        method = _with_earlier(module, name, method)
        original = getattr(module, name)
        scores = original if importance_scores is None else importance_scores
        if scores.shape != original.shape:
            raise AssertionError(
                f"importance_scores should have the same shape as parameter {name} of {module}, "
                f"got {scores.shape} vs {original.shape}"
            )
        first = not isinstance(method, PruningContainer)
        with no_grad():
            present = (
                ones_like(original) if first else getattr(module, name + "_mask").detach().clone()
            )
            mask = method.compute_mask(scores, default_mask=present)
        if first:
            module.register_parameter(name + "_orig", original)
            del module._parameters[name]
        module.register_buffer(name + "_mask", mask)
        setattr(module, name, method.apply_mask(module))
        module.register_forward_pre_hook(method)
        return method

    def prune(
        self, t: Tensor, default_mask: Tensor | None = None, importance_scores: Any = None
    ) -> Tensor:
        """The tensor times the mask this method computes for it."""
        scores = t if importance_scores is None else importance_scores
        if scores.shape != t.shape:
            raise AssertionError(
                "importance_scores should have the same shape as tensor t, got "
                f"{scores.shape} vs {t.shape}"
            )
        present = ones_like(t) if default_mask is None else default_mask
        pruned: Tensor = t * self.compute_mask(scores, default_mask=present)
        return pruned

    def remove(self, module: Any) -> None:
        """Make the pruned tensor the parameter."""
        name = self._named(module)
        weight = self.apply_mask(module)
        if hasattr(module, name):
            delattr(module, name)
        original = module._parameters[name + "_orig"]
        original.data = weight.data
        del module._parameters[name + "_orig"]
        del module._buffers[name + "_mask"]
        setattr(module, name, original)


def _with_earlier(module: Module, name: str, method: BasePruningMethod) -> BasePruningMethod:
    """The method combined with those that prune the tensor already, whose hook is taken off."""
    earlier = [
        (key, hook)
        for key, hook in module._forward_pre_hooks.items()
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name
    ]
    if len(earlier) > 1:
        raise AssertionError(
            f"Avoid adding multiple pruning hooks to the same tensor {name} of module {module}. "
            "Use a PruningContainer."
        )
    for key, hook in earlier:
        del module._forward_pre_hooks[key]
        container = hook if isinstance(hook, PruningContainer) else PruningContainer(hook)
        container.add_pruning_method(method)
        return container
    return method


class PruningContainer(BasePruningMethod):
    """Several prunings of one tensor, one after the other."""

    def __init__(self, *args: BasePruningMethod) -> None:
        self._pruning_methods: tuple[BasePruningMethod, ...] = ()
        if len(args) == 1:
            self._tensor_name = args[0]._tensor_name
        for method in args:
            self.add_pruning_method(method)

    def add_pruning_method(self, method: BasePruningMethod | None) -> None:
        """Add a method of the same tensor."""
        if not isinstance(method, BasePruningMethod):
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        if self._tensor_name != method._tensor_name:
            raise ValueError(
                "Can only add pruning methods acting on the parameter named "
                f"'{self._tensor_name}' to PruningContainer {self}. Found "
                f"'{method._tensor_name}'"
            )
        self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Iterator[BasePruningMethod]:
        return iter(self._pruning_methods)

    def __getitem__(self, idx: int) -> BasePruningMethod:
        return self._pruning_methods[idx]

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The latest method's mask of what earlier ones left."""
        method = self._pruning_methods[-1]
        where = _left_over(method, t, default_mask)
        new = default_mask.to(t.dtype).clone()
        part = method.compute_mask(t[where], default_mask=default_mask[where])
        new[where] = part.to(new.dtype)
        return new


def _left_over(method: Any, t: Tensor, mask: Tensor) -> Any:
    """The index of the part of a tensor a further method looks at."""
    match method.PRUNING_TYPE:
        case "unstructured":
            return mask == 1
        case "global":
            return (slice(None),) * t.dim()
        case "structured":
            if not hasattr(method, "dim"):
                raise AttributeError(
                    'Pruning methods of PRUNING_TYPE "structured" need to have the attribute '
                    "`dim` defined."
                )
            dim = method.dim + t.dim() if method.dim < 0 else method.dim
            if dim < 0:
                raise IndexError(f"Index is out of bounds for tensor with dimensions {t.dim()}")
            others = [d for d in range(t.dim()) if d != dim]
            return _along(t, dim, mask.sum(dim=others) != 0)
        case other:
            raise ValueError(f"Unrecognized PRUNING_TYPE {other}")


def _along(t: Tensor, dim: int, index: Any) -> tuple[Any, ...]:
    """An index that selects along one dimension."""
    where: list[Any] = [slice(None)] * t.dim()
    where[dim] = index
    return tuple(where)


def _validate_pruning_amount_init(amount: Any) -> None:
    if not isinstance(amount, Real):
        raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
    whole = isinstance(amount, Integral)
    if (whole and amount < 0) or (not whole and not 0.0 <= float(amount) <= 1.0):
        raise ValueError(
            f"amount={amount} should either be a float in the range [0, 1] or a non-negative "
            "integer"
        )


def _validate_pruning_amount(amount: Any, tensor_size: int) -> None:
    if isinstance(amount, Integral) and int(amount) > tensor_size:
        raise ValueError(
            f"amount={amount} should be smaller than the number of parameters to "
            f"prune={tensor_size}"
        )


def _compute_nparams_toprune(amount: Any, tensor_size: int) -> int:
    """How many of `tensor_size` an amount means."""
    return int(amount) if isinstance(amount, Integral) else round(amount * tensor_size)


def _validate_structured_pruning(t: Tensor) -> None:
    if t.dim() <= 1:
        raise ShapeValueError(
            "Structured pruning can only be applied to multidimensional tensors. Found tensor of "
            f"shape {t.shape} with {t.dim()} dims"
        )


def _validate_pruning_dim(t: Tensor, dim: int) -> None:
    if dim >= t.dim():
        raise IndexError(f"Invalid index {dim} for tensor of size {t.shape}")


def _compute_norm(t: Tensor, n: Any, dim: int) -> Tensor:
    """The norm of each slice along a dimension."""
    kept_dim = dim % t.dim()
    return t.norm(n, [d for d in range(t.dim()) if d != kept_dim])


class Identity(BasePruningMethod):
    """Prunes nothing, but makes the mask."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask there is."""
        return default_mask


class RandomUnstructured(BasePruningMethod):
    """Prunes elements at random: a number of them, or a fraction."""

    PRUNING_TYPE = "unstructured"

    def __init__(self, amount: float) -> None:
        _validate_pruning_amount_init(amount)
        self.amount = amount

    def _ranks(self, t: Tensor) -> Tensor:
        """What the lowest elements of are pruned."""
        return rand_like(t)

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask there is, with the lowest-ranked elements at zero."""
        _validate_pruning_amount(self.amount, t.nelement())
        count = _compute_nparams_toprune(self.amount, t.nelement())
        mask = default_mask.clone().reshape(-1)
        if count:
            lowest = self._ranks(t).reshape(-1).topk(count, largest=False).indices
            mask[lowest] = 0
        return mask.reshape(default_mask.shape)


class L1Unstructured(RandomUnstructured):
    """Prunes the elements of least magnitude: a number of them, or a fraction."""

    def _ranks(self, t: Tensor) -> Tensor:
        return t.abs()


class RandomStructured(BasePruningMethod):
    """Prunes slices along a dimension at random."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: float, dim: int = -1) -> None:
        _validate_pruning_amount_init(amount)
        self.amount = amount
        self.dim = dim

    def _ranks(self, t: Tensor) -> Tensor:
        """One number per slice; the slices of the lowest are pruned."""
        return rand(t.shape[self.dim])

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask there is, with the lowest-ranked slices at zero."""
        _validate_structured_pruning(t)
        _validate_pruning_dim(t, self.dim)
        size = t.shape[self.dim]
        _validate_pruning_amount(self.amount, size)
        count = _compute_nparams_toprune(self.amount, size)
        if not count:
            return default_mask
        mask = zeros_like(t)
        mask[_along(t, self.dim, self._ranks(t).topk(size - count).indices)] = 1
        return mask * default_mask.to(dtype=mask.dtype)


class LnStructured(RandomStructured):
    """Prunes the slices along a dimension whose norms are least."""

    def __init__(self, amount: float, n: Any, dim: int = -1) -> None:
        super().__init__(amount, dim)
        self.n = n

    def _ranks(self, t: Tensor) -> Tensor:
        return _compute_norm(t, self.n, self.dim)


class CustomFromMask(BasePruningMethod):
    """Prunes what a given mask says."""

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask there is, times the one given."""
        if default_mask.shape != self.mask.shape:
            raise AssertionError(
                f"default_mask shape {default_mask.shape} must match self.mask shape "
                f"{self.mask.shape}"
            )
        combined: Tensor = default_mask * self.mask.to(dtype=default_mask.dtype)
        return combined


# -- the functions ----------------------------------------------------------------------------


def identity(module: Any, name: str) -> Any:
    """Give a parameter a mask of ones."""
    Identity.apply(module, name)
    return module


def random_unstructured(module: Any, name: str, amount: float) -> Any:
    """Prune elements at random: a number (int) or a fraction (float) of those left."""
    RandomUnstructured.apply(module, name, amount=amount)
    return module


def l1_unstructured(
    module: Any, name: str, amount: float, importance_scores: Tensor | None = None
) -> Any:
    """Prune the elements of least magnitude: a number (int) or a fraction (float) of those left.

    Args:
        module: the module the parameter is of.
        name: the parameter.
        amount: how many, or what fraction.
        importance_scores: what to rank by, rather than the parameter.

    Example:
        >>> import adjoint as ad
        >>> layer = ad.nn.utils.prune.l1_unstructured(ad.nn.Linear(4, 2), "weight", 3)
        >>> int((layer.weight == 0).sum())
        3
    """
    L1Unstructured.apply(module, name, amount=amount, importance_scores=importance_scores)
    return module


def random_structured(module: Any, name: str, amount: float, dim: int) -> Any:
    """Prune slices along `dim` at random."""
    RandomStructured.apply(module, name, amount=amount, dim=dim)
    return module


def ln_structured(
    module: Any,
    name: str,
    amount: float,
    n: Any,
    dim: int,
    importance_scores: Tensor | None = None,
) -> Any:
    """Prune the slices along `dim` whose norms of order n are least."""
    LnStructured.apply(
        module, name, amount=amount, n=n, dim=dim, importance_scores=importance_scores
    )
    return module


def custom_from_mask(module: Any, name: str, mask: Tensor) -> Any:
    """Prune what a mask says."""
    CustomFromMask.apply(module, name, mask=mask)
    return module


def global_unstructured(
    parameters: Iterable[tuple[Any, str]],
    pruning_method: type[BasePruningMethod],
    importance_scores: dict[tuple[Any, str], Tensor] | None = None,
    **kwargs: Any,
) -> None:
    """Prune several parameters as if they were one.

    Args:
        parameters: pairs of module and name.
        pruning_method: an unstructured method, constructed with the keyword arguments.
        importance_scores: by pair, what to rank by, rather than the parameter.
    """
    if not isinstance(parameters, Iterable):
        raise TypeError("global_unstructured(): parameters is not an Iterable")
    given = {} if importance_scores is None else importance_scores
    if not isinstance(given, dict):
        raise TypeError("global_unstructured(): importance_scores must be of type dict")
    pairs = list(parameters)
    method = pruning_method(**kwargs)
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. Found method '
            f"{pruning_method} of type {method.PRUNING_TYPE}"
        )
    with no_grad():
        tensors = [getattr(module, name) for module, name in pairs]
        scores = [given.get(pair, t) for pair, t in zip(pairs, tensors, strict=True)]
        masks = [
            getattr(module, name + "_mask", ones_like(t))
            for (module, name), t in zip(pairs, tensors, strict=True)
        ]
        container = PruningContainer(method)
        final = container.compute_mask(parameters_to_vector(scores), parameters_to_vector(masks))
    start = 0
    for (module, name), t in zip(pairs, tensors, strict=True):
        stop = start + t.numel()
        custom_from_mask(module, name, mask=final[start:stop].view(t.shape))
        start = stop


def remove(module: Any, name: str) -> Any:
    """Make a pruned tensor the parameter, for good."""
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            return module
    raise ValueError(
        f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed"
    )


def is_pruned(module: Any) -> bool:
    """Whether a module or one below it is pruned."""
    return any(
        isinstance(hook, BasePruningMethod)
        for below in module.modules()
        for hook in below._forward_pre_hooks.values()
    )

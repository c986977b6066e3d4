"""Spectral normalisation by a hook: a weight divided by its largest singular value."""

from __future__ import annotations

from typing import Any, TypeVar

from adjoint.engine.autodiff.tape.modes import no_grad
from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn.modules.module import Module
from adjoint.nn.parameter import Parameter, is_lazy

M = TypeVar("M", bound=Module)


def normalize(x: Tensor, eps: float) -> Tensor:
    """A vector of length one (or less, if it is shorter than eps)."""
    return x / x.norm().clamp_min(eps)


def output_dim(module: Module) -> int:
    """The dimension of a weight that stands for outputs: 1 in transposed convolutions."""
    return 1 if getattr(module, "transposed", False) else 0


def as_matrix(weight: Tensor, dim: int) -> Tensor:
    """The weight with `dim` first and all others as columns."""
    if dim != 0:
        weight = weight.permute(dim, *[d for d in range(weight.dim()) if d != dim])
    return weight.reshape(weight.size(0), -1)


class SpectralNorm:
    """The hook: in training each forward refines the singular vectors and divides the weight."""

    _version = 1

    def __init__(
        self, name: str = "weight", n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12
    ) -> None:
        if n_power_iterations <= 0:
            raise ValueError(
                "Expected n_power_iterations to be positive, but got n_power_iterations="
                f"{n_power_iterations}"
            )
        self.name = name
        self.dim = dim
        self.n_power_iterations = n_power_iterations
        self.eps = eps

    def reshape_weight_to_matrix(self, weight: Tensor) -> Tensor:
        """The weight with the output dimension first and all others as columns."""
        return as_matrix(weight, self.dim)

    def compute_weight(self, module: Module, do_power_iteration: bool) -> Tensor:
        """The weight divided by its largest singular value, as far as it is known."""
        weight = getattr(module, self.name + "_orig")
        u, v = getattr(module, self.name + "_u"), getattr(module, self.name + "_v")
        matrix = as_matrix(weight, self.dim)
        if do_power_iteration:
            with no_grad():
                for _ in range(self.n_power_iterations):
                    v.copy_(normalize(matrix.t() @ u, self.eps))
                    u.copy_(normalize(matrix @ v, self.eps))
                u, v = u.clone(), v.clone()  # the next iteration writes to the buffers
        sigma = u @ (matrix @ v)
        return weight / sigma

    def remove(self, module: Module) -> None:
        """Make the weight a parameter again."""
        with no_grad():
            weight = self.compute_weight(module, do_power_iteration=False)
        delattr(module, self.name)
        for suffix in ("_u", "_v", "_orig"):
            delattr(module, self.name + suffix)
        module.register_parameter(self.name, Parameter(weight.detach()))

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module, module.training))

    @staticmethod
    def apply(
        module: Module, name: str, n_power_iterations: int, dim: int, eps: float
    ) -> SpectralNorm:
        """Replace a parameter by its original and two singular vectors."""
        for hook in module._forward_pre_hooks.values():
            if isinstance(hook, SpectralNorm) and hook.name == name:
                raise RuntimeError(
                    f"Cannot register two spectral_norm hooks on the same parameter {name}"
                )
        fn = SpectralNorm(name, n_power_iterations, dim, eps)
        weight = module._parameters[name]
        if weight is None:
            raise ValueError(f"`SpectralNorm` cannot be applied as parameter `{name}` is None")
        if is_lazy(weight):
            raise ValueError(
                "The module passed to `SpectralNorm` can't have uninitialized parameters. Make "
                "sure to run the dummy forward before applying spectral normalization"
            )
        with no_grad():
            matrix = as_matrix(weight, dim)
            u = normalize(matrix.new_empty(matrix.size(0)).normal_(0, 1), eps)
            v = normalize(matrix.new_empty(matrix.size(1)).normal_(0, 1), eps)
        delattr(module, name)
        module.register_parameter(name + "_orig", weight)
        setattr(module, name, weight.data)  # a plain attribute, until the first forward
        module.register_buffer(name + "_u", u)
        module.register_buffer(name + "_v", v)
        module.register_forward_pre_hook(fn)
        module._register_state_dict_hook(_StateDictHook(fn))
        return fn


class _StateDictHook:
    """Notes in the state dict's metadata which version of the hook wrote it."""

    def __init__(self, fn: SpectralNorm) -> None:
        self.fn = fn

    def __call__(
        self, module: Module, state_dict: Any, prefix: str, local_metadata: dict[str, Any]
    ) -> None:
        versions = local_metadata.setdefault("spectral_norm", {})
        versions[self.fn.name + ".version"] = self.fn._version


def spectral_norm(
    module: M,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> M:
    r"""Divide a parameter by its largest singular value: $W / \sigma(W)$.

    Args:
        module: the module the parameter is of.
        name: the parameter.
        n_power_iterations: how often each forward refines the estimate.
        eps: the least length to divide a vector by.
        dim: the dimension of outputs; 0, or 1 in transposed convolutions, by default.
    """
    where = output_dim(module) if dim is None else dim
    SpectralNorm.apply(module, name, n_power_iterations, where, eps)
    return module


def remove_spectral_norm(module: M, name: str = "weight") -> M:
    """Undo `spectral_norm`, keeping the present weight."""
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, SpectralNorm) and hook.name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            break
    else:
        raise ValueError(f"spectral_norm of '{name}' not found in {module}")
    for key, hook in module._state_dict_hooks.items():
        if isinstance(hook, _StateDictHook) and hook.fn.name == name:
            del module._state_dict_hooks[key]
            break
    return module

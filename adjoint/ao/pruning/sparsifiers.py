"""Masks on weights, and the choice of what they leave out."""

from __future__ import annotations

import abc
import copy
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from adjoint.ao.pruning.naming import get_arg_info_from_tensor_fqn, module_to_fqn
from adjoint.engine.autodiff.tape.modes import no_grad
from adjoint.engine.ops.create.creation import ones_like, zeros_like
from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn.modules.linear import Linear
from adjoint.nn.modules.module import Module
from adjoint.nn.utils import parametrize

SUPPORTED_MODULES: set[type[Module]] = {Linear}
HELD = ("module", "module_fqn", "tensor_name")  # of a group, what no state dict has


class FakeSparsity(Module):
    """The parametrization of a weight that is multiplied with a mask; it saves none of it."""

    mask: Tensor

    def __init__(self, mask: Tensor) -> None:
        super().__init__()
        self.register_buffer("mask", mask)

    def forward(self, x: Tensor) -> Tensor:
        """The weight where the mask is one."""
        if self.mask.shape != x.shape:
            raise AssertionError(f"mask shape ({self.mask.shape}) must match x shape ({x.shape})")
        return self.mask * x

    def state_dict(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Nothing: masks are part of the sparsifier's state."""
        return {}


class BaseSparsifier(abc.ABC):
    """Puts masks on tensors of a network; what they leave out is said by `update_mask`.

    Args:
        defaults: options of all tensors, which the entries of `prepare`'s config override.
    """

    def __init__(self, defaults: dict[str, Any] | None = None) -> None:
        self.defaults: dict[str, Any] = defaults or {}
        self.state: dict[str, dict[str, Any]] = defaultdict(dict)
        self.groups: list[dict[str, Any]] = []
        self.enable_mask_update = True
        self.model: Any = None
        self.config: list[dict[str, Any]] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"defaults": self.defaults, "state": self.state, "groups": self.groups}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for number, group in enumerate(self.groups):
            lines.append(f"\tGroup {number}")
            lines += [f"\t    {key}: {group[key]}" for key in sorted(group) if key != "module"]
        return "\n".join([*lines, ")"])

    def state_dict(self) -> dict[str, Any]:
        """The masks by the paths of their tensors, and the options."""
        groups = [{k: v for k, v in group.items() if k not in HELD} for group in self.groups]
        return {"state": self.state, "groups": groups}

    def load_state_dict(self, state_dict: dict[str, Any], strict: bool = True) -> None:
        """Take masks and options of a sparsifier whose network has the same paths."""
        groups = copy.deepcopy(state_dict["groups"])
        states = {fqn: dict(entry) for fqn, entry in state_dict["state"].items()}
        for fqn, entry in states.items():
            info = get_arg_info_from_tensor_fqn(self.model, fqn)
            if info["module"] is None:
                if strict:
                    raise RuntimeError(f"Error loading {fqn} into the model")
                continue
            if entry.get("mask") is not None:
                _masked(info["module"], info["tensor_name"]).mask = entry["mask"]
            for group in groups:
                if group["tensor_fqn"] == fqn:
                    group.update(info)
        self.__setstate__({"state": defaultdict(dict, states), "groups": groups})

    def make_config_from_model(
        self, model: Module, SUPPORTED_MODULES: set[type[Module]] = SUPPORTED_MODULES
    ) -> None:
        """The weights of all linear layers as the config."""
        self.config = [
            {"tensor_fqn": f"{module_to_fqn(model, module)}.weight"}
            for module in model.modules()
            if module is not model and type(module) in SUPPORTED_MODULES
        ]

    def prepare(self, model: Module, config: list[dict[str, Any]] | None) -> None:
        """Put masks of ones on tensors of a network, in place.

        Args:
            model: the network.
            config: a dict for each tensor, with its path as `tensor_fqn` and options of its own;
                None for the weights of all linear layers.
        """
        self.model, self.config = model, config
        if self.config is None:
            self.make_config_from_model(model)
        for entry in self.config or ():
            self.groups.append(self._group(model, entry))
        self._prepare()

    def _group(self, model: Module, entry: Any) -> dict[str, Any]:
        if not isinstance(entry, dict):
            raise AssertionError(
                "config elements should be dicts not modules, [{'tensor_fqn': 'foo.weight'}, ...]"
            )
        group = {**copy.deepcopy(self.defaults), **entry}
        if group.get("tensor_fqn") is None:
            raise AssertionError("tensor_fqn is a required argument in the sparsity config")
        info = get_arg_info_from_tensor_fqn(model, group["tensor_fqn"].removeprefix("."))
        if info["module"] is None or not hasattr(info["module"], info["tensor_name"]):
            raise AssertionError(f"the model has no tensor {group['tensor_fqn']!r}")
        for key, value in info.items():
            if key != "tensor_fqn" and key in group and group[key] is not value != group[key]:
                raise AssertionError(f"Given both `{key}` and `tensor_fqn`, they have to agree")
        return {**group, **info}

    def _prepare(self, *args: Any, **kwargs: Any) -> None:
        for group in self.groups:
            module, name = group["module"], group["tensor_name"]
            mask = group.get("mask", None)
            mask = ones_like(getattr(module, name).detach()) if mask is None else mask
            self.state[group["tensor_fqn"]]["mask"] = mask
            kind = group.get("parametrization", FakeSparsity)
            parametrize.register_parametrization(module, name, kind(mask))

    def squash_mask(
        self,
        params_to_keep: tuple[str, ...] | None = None,
        params_to_keep_per_layer: dict[str, tuple[str, ...]] | None = None,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        """Write zeros to the weights and take the masks off.

        Args:
            params_to_keep: options that every module is given as its `sparse_params`.
            params_to_keep_per_layer: further ones by the module's path.
        """
        for group in self.groups:
            module = group["module"]
            parametrize.remove_parametrizations(
                module, group["tensor_name"], leave_parametrized=True
            )
            further = (params_to_keep_per_layer or {}).get(group["module_fqn"], ())
            kept = {key: group[key] for key in (*(params_to_keep or ()), *further)}
            if kept:
                module.sparse_params = kept

    def step(self, use_path: bool = True) -> None:
        """Choose anew what the masks leave out."""
        if self.enable_mask_update:
            with no_grad():
                for group in self.groups:
                    self.update_mask(**group)

    @abc.abstractmethod
    def update_mask(self, module: Module, tensor_name: str, **kwargs: Any) -> None:
        """Choose what the mask of one tensor leaves out."""


def _masked(module: Module, name: str) -> FakeSparsity:
    """The mask on a tensor of a module; a new one, if it has none."""
    if parametrize.is_parametrized(module, name):
        for step in module.parametrizations[name]:
            if isinstance(step, FakeSparsity):
                return step
    new = FakeSparsity(ones_like(getattr(module, name).detach()))
    parametrize.register_parametrization(module, name, new)
    return new


def _mask_of(module: Any, name: str) -> Tensor:
    mask: Tensor = module.parametrizations[name][0].mask
    return mask


class WeightNormSparsifier(BaseSparsifier):
    """Leaves out the blocks of a matrix whose norms are smallest.

    Args:
        sparsity_level: which part of the blocks.
        sparse_block_shape: rows and columns of a block; blocks begin at the first element.
        zeros_per_block: how many elements of such a block, the smallest; all unless given.
        norm: 1, 2, or a function of the weights; 2 unless given.

    Example:
        >>> import adjoint as ad
        >>> net = ad.nn.Sequential(ad.nn.Linear(4, 2, bias=False))
        >>> net[0].weight.data = ad.tensor([[1.0, 2, 3, 4], [5, 6, 7, 8]])
        >>> sparsifier = WeightNormSparsifier(0.5, (1, 2))
        >>> sparsifier.prepare(net, None)
        >>> sparsifier.step()
        >>> sparsifier.squash_mask()
        >>> net[0].weight.tolist()
        [[0.0, 0.0, 0.0, 0.0], [5.0, 6.0, 7.0, 8.0]]
    """

    def __init__(
        self,
        sparsity_level: float = 0.5,
        sparse_block_shape: tuple[int, int] = (1, 4),
        zeros_per_block: int | None = None,
        norm: Callable[[Tensor], Tensor] | int | None = None,
    ) -> None:
        rows, columns = sparse_block_shape
        if not callable(norm) and norm not in (None, 1, 2):
            raise NotImplementedError(f"L-{norm} is not yet implemented.")
        self._norm = norm
        super().__init__(
            {
                "sparsity_level": sparsity_level,
                "sparse_block_shape": sparse_block_shape,
                "zeros_per_block": rows * columns if zeros_per_block is None else zeros_per_block,
            }
        )

    def norm_fn(self, T: Tensor) -> Tensor:
        """What the elements of a weight count."""
        if callable(self._norm):
            return self._norm(T)
        return T.abs() if self._norm == 1 else T * T

    def update_mask(  # type: ignore[override]
        self,
        module: Module,
        tensor_name: str,
        sparsity_level: float,
        sparse_block_shape: tuple[int, int],
        zeros_per_block: int,
        **kwargs: Any,
    ) -> None:
        """Leave out the blocks whose norms are smallest."""
        size = sparse_block_shape[0] * sparse_block_shape[1]
        if zeros_per_block > size:
            raise ValueError(
                "Number of zeros per block cannot be more than the total number of elements in "
                "that block."
            )
        if zeros_per_block < 0:
            raise ValueError("Number of zeros per block should be positive.")
        mask = _mask_of(module, tensor_name)
        if sparsity_level <= 0 or zeros_per_block == 0:
            mask.data = ones_like(mask)
            return
        worth = self.norm_fn(getattr(module, tensor_name).detach())
        if worth.ndim != 2:
            raise ValueError(
                f"WeightNormSparsifier: expected a matrix, {tensor_name} has {worth.ndim} "
                "dimensions"
            )
        kept = _kept(worth, sparsity_level, sparse_block_shape, zeros_per_block)
        mask.data = kept.to(mask.dtype)


def _kept(worth: Tensor, level: float, block: tuple[int, int], zeros: int) -> Tensor:
    """Where a mask is one: outside the blocks left out, and for what they keep within them."""
    (height, width), (rows, columns) = worth.shape, block
    up, over = -height % rows, -width % columns
    # (blocks down, rows, blocks across, columns) -> (blocks, elements); NaN beyond the matrix
    padded = worth.new_full((height + up, width + over), float("nan"))
    padded[:height, :width] = worth
    shape = ((height + up) // rows, rows, (width + over) // columns, columns)
    blocks = padded.reshape(shape).permute((0, 2, 1, 3)).reshape((-1, rows * columns))
    count = len(blocks)
    left_out = min(max(round(level * count), 0), count - 1) if level < 1 else count
    lowest = blocks.nanmean(1).argsort(stable=True)[:left_out]
    smallest = blocks.argsort(1, stable=True)[lowest][:, :zeros]  # NaNs come last
    kept = ones_like(blocks)
    kept[lowest.unsqueeze(1), smallest] = 0
    whole = kept.reshape((shape[0], shape[2], rows, columns)).permute((0, 2, 1, 3))
    return whole.reshape(padded.shape)[:height, :width]


class NearlyDiagonalSparsifier(BaseSparsifier):
    """Leaves out what lies far from the diagonal of a matrix.

    Args:
        nearliness: how many diagonals stay, an odd number; none for 0.
    """

    def __init__(self, nearliness: int = 1) -> None:
        super().__init__({"nearliness": nearliness})

    def update_mask(  # type: ignore[override]
        self, module: Module, tensor_name: str, nearliness: int, **kwargs: Any
    ) -> None:
        """Leave out what lies further from the diagonal than `nearliness` says."""
        mask = _mask_of(module, tensor_name)
        if nearliness <= 0:
            mask.data = zeros_like(mask)
            return
        if nearliness % 2 == 0:
            raise ValueError("nearliness can only be an odd number")
        reach = nearliness // 2
        if reach >= min(mask.shape):
            raise ValueError("nearliness cannot be larger than the dimensions of tensor.")
        mask.data = ones_like(mask).triu(-reach).tril(reach)

"""`quantize_`: layers of a model replaced by quantised ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from adjoint import nn
from adjoint.engine.autodiff.tape.modes import no_grad
from adjoint.quantization.configs import SHARED, Config, is_linear, parameters_of

Filter = Callable[[nn.Module, str], bool]


def replace_children(
    module: nn.Module,
    chosen: Filter,
    make: Callable[[nn.Module, str], nn.Module],
    prefix: str = "",
    seen: dict[nn.Module, nn.Module] | None = None,
) -> None:
    """Put what `make` gives in the place of the modules chosen, each made once."""
    seen = {} if seen is None else seen
    for name, child in list(module._modules.items()):
        if child is None:
            continue
        path = f"{prefix}{name}"
        if child in seen:
            module._modules[name] = seen[child]
        elif chosen(child, path):
            replacement = make(child, path)
            replacement.train(child.training)
            seen[child] = module._modules[name] = replacement
        else:
            seen[child] = child
            replace_children(child, chosen, make, f"{path}.", seen)


def _shared_weights(model: nn.Module, chosen: Filter) -> set[int]:
    """The weights, by identity, that several of the layers chosen have."""
    layers = [module for name, module in model.named_modules() if chosen(module, name)]
    weights = [
        layer.weight if isinstance(layer, nn.Embedding) else parameters_of(layer)[0]
        for layer in layers
        if isinstance(layer, (nn.Linear, nn.Embedding)) or hasattr(layer, "linear_parameters")
    ]
    counts = Counter(id(weight) for weight in weights)
    return {identity for identity, count in counts.items() if count > 1}


def quantize_(
    model: nn.Module, config: Config, filter_fn: Filter | None = None, device: Any = None
) -> None:
    """Quantise the linear layers of a model, in place.

    Args:
        model: the model; it must hold the layers, not be one.
        config: what they become, such as `Int8WeightOnlyConfig()`.
        filter_fn: which modules, from the module and its name; embeddings may be chosen too.
        device: where to move the model first.

    Example:
        >>> import adjoint as ad
        >>> from adjoint.quantization import Int8DynamicActivationInt8WeightConfig
        >>> model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 8))
        >>> x = ad.randn(4, 32)
        >>> before = model(x)
        >>> quantize_(model, Int8DynamicActivationInt8WeightConfig())
        >>> bool((model(x) - before).abs().max() < 0.05)
        True
    """
    if not isinstance(config, Config):
        raise TypeError(
            f"quantize_: config must be one such as Int8WeightOnlyConfig(), received {config!r}"
        )
    chosen = is_linear if filter_fn is None else filter_fn
    if chosen(model, ""):
        raise ValueError(
            f"quantize_: the model is itself a {type(model).__name__} to replace, which cannot be "
            "done in place. Wrap it: nn.Sequential(model)."
        )
    if device is not None:
        model.to(device)
    memory: dict[Any, Any] = {SHARED: _shared_weights(model, chosen)}

    def make(module: nn.Module, name: str) -> nn.Module:
        if not isinstance(module, (nn.Linear, nn.Embedding)) and not hasattr(
            module, "linear_parameters"
        ):
            raise NotImplementedError(
                f"quantize_: {name!r} is a {type(module).__name__}; linear layers and embeddings "
                "can be quantised. Leave it out with filter_fn."
            )
        try:
            return config.replace(module, memory)
        except ValueError as error:
            raise ValueError(f"{error}, in {name!r}. Leave it out with filter_fn.") from error

    with no_grad():
        replace_children(model, chosen, make)

"""PyTorch's eager workflow: prepare, calibrate or train, convert."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any

import adjoint as ad
from adjoint import nn
from adjoint.quantization.fake_quantize import FakeQuantizeBase
from adjoint.quantization.modules import intrinsic as ni
from adjoint.quantization.modules.dynamic import CalledLinear
from adjoint.quantization.modules.qat import QAT_CONVOLUTIONS, QATLinear, QATLinearReLU
from adjoint.quantization.modules.recurrent import RECURRENT
from adjoint.quantization.modules.static import (
    DeQuantize,
    QFunctional,
    Quantize,
    QuantizedConv,
    QuantizedLinear,
    QuantizedThrough,
)
from adjoint.quantization.modules.weight_only import WeightOnlyEmbedding
from adjoint.quantization.observer import ObserverBase, PlaceholderObserver
from adjoint.quantization.qconfig import (
    QConfig,
    default_dynamic_qconfig,
    float_qparams_weight_only_qconfig,
)
from adjoint.quantization.stubs import DeQuantStub, FloatFunctional, QuantStub, QuantWrapper
from adjoint.quantization.weights import group_weight

Make = Callable[[Any], nn.Module]
_RANKS = (1, 2, 3)


def _with_relu(make: Any) -> Make:
    """A fused layer's first part, whose result is cut at zero."""

    def made(mod: Any) -> nn.Module:
        layer = mod[0]
        layer.qconfig = mod.qconfig
        layer.activation_post_process = mod.activation_post_process
        out: nn.Module = make(layer, relu=True)
        return out

    return made


def _from_qat(mod: Any) -> nn.Module:
    return QuantizedConv.from_float(mod, relu=mod.relu, folded=mod.folded())


# -- what each kind of layer becomes ---------------------------------------------------------

STATIC: dict[type, Make] = {
    QuantStub: Quantize.from_float,
    DeQuantStub: DeQuantize.from_float,
    FloatFunctional: QFunctional.from_float,
    nn.Linear: QuantizedLinear.from_float,
    ni.LinearReLU: _with_relu(QuantizedLinear.from_float),
    QATLinear: QuantizedLinear.from_float,
    QATLinearReLU: lambda mod: QuantizedLinear.from_float(mod, relu=True),
    **{getattr(nn, f"Conv{rank}d"): QuantizedConv.from_float for rank in _RANKS},
    **{
        getattr(ni, f"ConvReLU{rank}d"): _with_relu(QuantizedConv.from_float) for rank in _RANKS
    },
    **dict.fromkeys(QAT_CONVOLUTIONS.values(), _from_qat),
    **dict.fromkeys(
        (
            nn.BatchNorm2d, nn.BatchNorm3d, nn.LayerNorm, nn.GroupNorm, nn.InstanceNorm1d,
            nn.InstanceNorm2d, nn.InstanceNorm3d, nn.ELU, nn.Hardswish, nn.LeakyReLU, nn.PReLU,
            nn.GELU, nn.SiLU, nn.Softmax, ni.BNReLU2d, ni.BNReLU3d,
        ),
        QuantizedThrough.from_float,
    ),
}  # fmt: skip

QAT: dict[type, Make] = {
    nn.Linear: QATLinear.from_float,
    ni.LinearReLU: QATLinearReLU.from_float,
    **{
        getattr(nn, f"Conv{rank}d"): QAT_CONVOLUTIONS[rank, False, False].from_float
        for rank in _RANKS
    },
    **{
        getattr(ni, f"Conv{'Bn' if norms else ''}{'ReLU' if relu else ''}{rank}d"): layer.from_float
        for (rank, norms, relu), layer in QAT_CONVOLUTIONS.items()
        if norms or relu
    },
}


def _dynamic_linear(mod: Any) -> nn.Module:
    config: QConfig = mod.qconfig
    weight = config.weight()
    return CalledLinear.of(
        mod, per_row=False, symmetric=False, per_channel=weight.qscheme.per_channel
    )


def _embedding(mod: Any) -> nn.Module:
    return WeightOnlyEmbedding(group_weight(mod.weight, 8, symmetric=False), mod.padding_idx)


def _recurrent(mod: Any) -> nn.Module:
    per_channel = mod.qconfig.weight().qscheme.per_channel
    converted: nn.Module = RECURRENT[type(mod)].of(mod, per_channel)
    return converted


DYNAMIC: dict[type, Make] = {
    nn.Linear: _dynamic_linear,
    nn.Embedding: _embedding,
    **dict.fromkeys(RECURRENT, _recurrent),
}


def get_default_static_quant_module_mappings() -> dict[type, Make]:
    """What layers become in static quantisation."""
    return dict(STATIC)


def get_default_qat_module_mappings() -> dict[type, Make]:
    """What layers become for training that feels the rounding."""
    return dict(QAT)


def get_default_dynamic_quant_module_mappings() -> dict[type, Make]:
    """What layers become in dynamic quantisation."""
    return dict(DYNAMIC)


# -- configurations and observers --------------------------------------------------------------


def propagate_qconfig_(
    module: nn.Module, qconfig_dict: dict[Any, Any] | None = None, **_: Any
) -> None:
    """Give every module a `qconfig`: its own, that of its name or type, or its parent's."""
    _propagate(module, qconfig_dict or {}, None, "")


def _propagate(module: Any, table: dict[Any, Any], parent: Any, prefix: str) -> None:
    config = table.get(prefix, table.get(type(module), parent))
    module.qconfig = module.__dict__.get("qconfig", config)
    for name, child in module.named_children():
        if not isinstance(child, (ObserverBase, FakeQuantizeBase)):
            path = f"{prefix}.{name}" if prefix else name
            _propagate(child, table, module.qconfig, path)


def _observer_hook(module: Any, inputs: Any, output: Any) -> Any:
    return module.activation_post_process(output)


def _observe(module: Any) -> None:
    module.add_module("activation_post_process", module.qconfig.activation())
    module.register_forward_hook(_observer_hook, prepend=True)


def _add_observers(module: Any, allowed: set[type]) -> None:
    for child in module.children():
        if isinstance(child, (nn.Dropout, ObserverBase, FakeQuantizeBase)):
            continue
        if isinstance(child, FloatFunctional):
            if child.qconfig is not None:
                child.activation_post_process = child.qconfig.activation()
        elif type(child) in allowed or isinstance(child, ni.FusedModule):
            wanted = child.qconfig is not None and not isinstance(child, DeQuantStub)
            if wanted and not isinstance(child.qconfig.activation(), PlaceholderObserver):
                _observe(child)
        else:
            _add_observers(child, allowed)


def prepare(
    model: nn.Module,
    inplace: bool = False,
    allow_list: Any = None,
    observer_non_leaf_module_list: Any = None,
    prepare_custom_config_dict: Any = None,
) -> nn.Module:
    """Let observers watch the outputs of the layers that will be quantised.

    Set `model.qconfig` first, and `qconfig = None` on parts that shall stay as they are; then run
    some data through what this returns, and `convert` it.

    Example:
        >>> from adjoint.quantization import QuantWrapper, convert, get_default_qconfig
        >>> model = QuantWrapper(nn.Sequential(nn.Linear(8, 4), nn.ReLU())).eval()
        >>> model.qconfig = get_default_qconfig("onednn")
        >>> prepared = prepare(model)
        >>> _ = prepared(ad.randn(64, 8))
        >>> type(convert(prepared).module[0]).__name__
        'QuantizedLinear'
    """
    model = model if inplace else copy.deepcopy(model)
    propagate_qconfig_(model)
    if not any(getattr(m, "qconfig", None) for m in model.modules()):
        warnings.warn(
            "None of the submodule got qconfig applied. Assign the `.qconfig` attribute of the "
            "model or of submodules first",
            stacklevel=2,
        )
    allowed = set(STATIC) if allow_list is None else set(allow_list)
    if type(model) in allowed and getattr(model, "qconfig", None) is not None:
        _observe(model)
    else:
        _add_observers(model, allowed)
    return model


def prepare_qat(model: nn.Module, mapping: Any = None, inplace: bool = False) -> nn.Module:
    """Replace layers by ones that feel the rounding of weights and outputs, for training."""
    if not model.training:
        raise AssertionError("prepare_qat only works on models in training mode")
    model = model if inplace else copy.deepcopy(model)
    table = QAT if mapping is None else mapping
    propagate_qconfig_(model)
    _swap(model, {kind: _keeping(make) for kind, make in table.items()})
    return prepare(model, inplace=True)


def _keeping(make: Any) -> Make:
    def made(mod: Any) -> Any:
        new = (make.from_float if hasattr(make, "from_float") else make)(mod)
        new.qconfig = mod.qconfig
        return new

    return made


def _swap(module: Any, table: dict[type, Any], seen: dict[Any, Any] | None = None) -> None:
    seen = {} if seen is None else seen
    for name, child in list(module._modules.items()):
        if child is None or isinstance(child, (ObserverBase, FakeQuantizeBase)):
            continue
        if child not in seen:
            make = table.get(type(child))
            if make is None or getattr(child, "qconfig", None) is None:
                seen[child] = child
                _swap(child, table, seen)
            else:
                new = (make.from_float if hasattr(make, "from_float") else make)(child)
                _keep_hooks(child, new)
                seen[child] = new.train(child.training)
        module._modules[name] = seen[child]


def _keep_hooks(old: Any, new: Any) -> None:
    new._forward_pre_hooks.update(old._forward_pre_hooks)
    for key, hook in old._forward_hooks.items():
        if hook is not _observer_hook:
            new._forward_hooks[key] = hook


def convert(
    module: nn.Module,
    mapping: Any = None,
    inplace: bool = False,
    remove_qconfig: bool = True,
    is_reference: bool = False,
    convert_custom_config_dict: Any = None,
    use_precomputed_fake_quant: bool = False,
) -> nn.Module:
    """Replace observed layers by quantised ones."""
    if is_reference:
        raise NotImplementedError("convert: is_reference=True has no counterpart here")
    module = module if inplace else copy.deepcopy(module)
    _swap(module, STATIC if mapping is None else mapping)
    if remove_qconfig:
        _clean(module)
    return module


def _clean(module: Any) -> None:
    for child in module.children():
        _clean(child)
    module.__dict__.pop("qconfig", None)
    watch = module._modules.get("activation_post_process")
    if isinstance(watch, (ObserverBase, FakeQuantizeBase)):
        del module._modules["activation_post_process"]
    for key in [k for k, hook in module._forward_hooks.items() if hook is _observer_hook]:
        del module._forward_hooks[key]


def quantize(
    model: nn.Module, run_fn: Any, run_args: Any, mapping: Any = None, inplace: bool = False
) -> nn.Module:
    """Static quantisation at once: prepare, `run_fn(model, *run_args)`, convert."""
    model = model if inplace else copy.deepcopy(model)
    model.eval()
    prepare(model, inplace=True)
    run_fn(model, *run_args)
    return convert(model, mapping, inplace=True)


def quantize_qat(model: nn.Module, run_fn: Any, run_args: Any, inplace: bool = False) -> nn.Module:
    """The same with training that feels the rounding."""
    model = model if inplace else copy.deepcopy(model)
    model.train()
    prepare_qat(model, inplace=True)
    run_fn(model, *run_args)
    return convert(model, inplace=True)


def quantize_dynamic(
    model: nn.Module,
    qconfig_spec: Any = None,
    dtype: Any = ad.qint8,
    mapping: Any = None,
    inplace: bool = False,
) -> nn.Module:
    """Linear and recurrent layers that multiply in int8, inputs rounded as they come.

    Args:
        qconfig_spec: types or names of modules, or a dict from them to configurations.
        dtype: qint8 for linear and recurrent layers, quint8 for embeddings (weights only).

    Example:
        >>> model = nn.Sequential(nn.Linear(8, 4))
        >>> type(quantize_dynamic(model, {nn.Linear})[0]).__name__
        'CalledLinear'
    """
    configs = {ad.qint8: default_dynamic_qconfig, ad.quint8: float_qparams_weight_only_qconfig}
    if dtype not in configs:
        raise NotImplementedError(
            f"quantize_dynamic: dtype must be qint8 or quint8, received {dtype!r}"
        )
    if qconfig_spec is None:
        whole = (nn.Linear, *(kind for kind in RECURRENT if kind is not nn.RNN))
        kinds: tuple[type, ...] = whole if dtype is ad.qint8 else (nn.Embedding,)
        spec = dict.fromkeys(kinds, configs[dtype])
    elif isinstance(qconfig_spec, dict):
        spec = {
            key: configs[dtype] if value is True else value for key, value in qconfig_spec.items()
        }
    else:
        spec = dict.fromkeys(qconfig_spec, configs[dtype])
    model = model if inplace else copy.deepcopy(model)
    model.eval()
    propagate_qconfig_(model, spec)
    return convert(model, DYNAMIC if mapping is None else mapping, inplace=True)


def add_quant_dequant(module: nn.Module) -> nn.Module:
    """Layers that have a `qconfig` wrapped between stubs, one by one."""
    if not list(module.children()) and getattr(module, "qconfig", None):
        return QuantWrapper(module)
    for name, child in module.named_children():
        module._modules[name] = add_quant_dequant(child)
    return module

"""Networks under torchvision's names and arguments; weights come from files in the hub's folder.

Families load when one of their names is read.
"""

from __future__ import annotations

import fnmatch
import importlib
import re
import sys
from collections.abc import Callable
from typing import Any

# Functions named as their modules, which would take their names once imported.
from adjoint.vision.models.alexnet import alexnet as alexnet
from adjoint.vision.models.googlenet import googlenet as googlenet
from adjoint.vision.models.registry import BUILDERS as _BUILDERS
from adjoint.vision.models.registry import Versions as _Versions
from adjoint.vision.models.registry import Weights as Weights
from adjoint.vision.models.registry import Weights as WeightsEnum  # noqa: F401

# Module -> its networks; then its classes.
_FAMILIES: dict[str, tuple[str, str]] = {
    "alexnet": ("alexnet", "AlexNet"),
    "convnext": ("convnext_tiny convnext_small convnext_base convnext_large", "ConvNeXt"),
    "densenet": ("densenet121 densenet161 densenet169 densenet201", "DenseNet"),
    "efficientnet": (
        (
            "efficientnet_b0 efficientnet_b1 efficientnet_b2 efficientnet_b3 efficientnet_b4 "
            "efficientnet_b5 efficientnet_b6 efficientnet_b7 efficientnet_v2_s efficientnet_v2_m "
            "efficientnet_v2_l"
        ),
        "EfficientNet",
    ),
    "googlenet": ("googlenet", "GoogLeNet GoogLeNetOutputs"),
    "inception": ("inception_v3", "Inception3 InceptionOutputs"),
    "maxvit": ("maxvit_t", "MaxVit"),
    "mnasnet": ("mnasnet0_5 mnasnet0_75 mnasnet1_0 mnasnet1_3", "MNASNet"),
    "mobilenetv2": ("mobilenet_v2", "MobileNetV2"),
    "mobilenetv3": ("mobilenet_v3_large mobilenet_v3_small", "MobileNetV3"),
    "regnet": (
        (
            "regnet_y_400mf regnet_y_800mf regnet_y_1_6gf regnet_y_3_2gf regnet_y_8gf "
            "regnet_y_16gf regnet_y_32gf regnet_y_128gf regnet_x_400mf regnet_x_800mf "
            "regnet_x_1_6gf regnet_x_3_2gf regnet_x_8gf regnet_x_16gf regnet_x_32gf"
        ),
        "RegNet",
    ),
    "resnet": (
        (
            "resnet18 resnet34 resnet50 resnet101 resnet152 resnext50_32x4d resnext101_32x8d "
            "resnext101_64x4d wide_resnet50_2 wide_resnet101_2"
        ),
        "ResNet",
    ),
    "shufflenetv2": (
        "shufflenet_v2_x0_5 shufflenet_v2_x1_0 shufflenet_v2_x1_5 shufflenet_v2_x2_0",
        "ShuffleNetV2",
    ),
    "squeezenet": ("squeezenet1_0 squeezenet1_1", "SqueezeNet"),
    "swin_transformer": (
        "swin_t swin_s swin_b swin_v2_t swin_v2_s swin_v2_b",
        "SwinTransformer",
    ),
    "vgg": ("vgg11 vgg11_bn vgg13 vgg13_bn vgg16 vgg16_bn vgg19 vgg19_bn", "VGG"),
    "vision_transformer": ("vit_b_16 vit_b_32 vit_h_14 vit_l_16 vit_l_32", "VisionTransformer"),
    "segmentation.fcn": ("fcn_resnet50 fcn_resnet101", ""),
    "segmentation.deeplabv3": (
        "deeplabv3_resnet50 deeplabv3_resnet101 deeplabv3_mobilenet_v3_large",
        "",
    ),
    "segmentation.lraspp": ("lraspp_mobilenet_v3_large", ""),
    "detection.faster_rcnn": (
        (
            "fasterrcnn_resnet50_fpn fasterrcnn_resnet50_fpn_v2 "
            "fasterrcnn_mobilenet_v3_large_fpn fasterrcnn_mobilenet_v3_large_320_fpn"
        ),
        "",
    ),
    "detection.mask_rcnn": ("maskrcnn_resnet50_fpn maskrcnn_resnet50_fpn_v2", ""),
    "detection.keypoint_rcnn": ("keypointrcnn_resnet50_fpn", ""),
    "detection.fcos": ("fcos_resnet50_fpn", ""),
    "detection.ssd": ("ssd300_vgg16", ""),
    "detection.ssdlite": ("ssdlite320_mobilenet_v3_large", ""),
    "detection.retinanet": ("retinanet_resnet50_fpn retinanet_resnet50_fpn_v2", ""),
    "optical_flow.raft": ("raft_large raft_small", ""),
    "video.mvit": ("mvit_v1_b mvit_v2_s", ""),
    "video.resnet": ("r3d_18 mc3_18 r2plus1d_18", ""),
    "video.s3d": ("s3d", ""),
    "video.swin_transformer": ("swin3d_t swin3d_s swin3d_b", ""),
}
_NETWORKS = {name: module for module, (names, _) in _FAMILIES.items() for name in names.split()}
_HOMES = {"feature_extraction", *(module.partition(".")[0] for module in _FAMILIES)} - {*_NETWORKS}
_CLASSES = {name: module for module, (_, names) in _FAMILIES.items() for name in names.split()}


def _import(module: str) -> Any:
    return importlib.import_module(f"{__name__}.{module}")


def list_models(
    module: Any = None, include: str | list[str] | None = None,
    exclude: str | list[str] | None = None,
) -> list[str]:  # fmt: skip
    """The names of the networks there are: of a module, that match one of some patterns."""
    names = {*_NETWORKS, *_BUILDERS}
    if module is not None:
        within = module.__name__.partition("models")[2].lstrip(".")
        names = {name for name, home in _NETWORKS.items() if _home(home) == within}
    for patterns, keep in ((include, True), (exclude, False)):
        if patterns:
            given = [patterns] if isinstance(patterns, str) else patterns
            hit = {name for name in names for pattern in given if fnmatch.fnmatch(name, pattern)}
            names = hit if keep else names - hit
    return sorted(names)


def _home(module: str) -> str:
    return module.partition(".")[0] if "." in module else ""


def get_model_builder(name: str) -> Callable[..., Any]:
    """The function that builds a network of that name."""
    key = name.lower()
    if key in _NETWORKS:
        _import(_NETWORKS[key])
    if key not in _BUILDERS:
        raise ValueError(f"Unknown model {name}")
    return _BUILDERS[key]


def register_model(
    name: str | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Have `get_model` find a function that builds a network, by its own name unless given one."""

    def enter(build: Callable[..., Any]) -> Callable[..., Any]:
        key = build.__name__ if name is None else name
        if key in _NETWORKS or key in _BUILDERS:
            raise ValueError(f"An entry is already registered under the name '{key}'.")
        _BUILDERS[key] = build
        return build

    return enter


def get_model(name: str, **config: Any) -> Any:
    """A network by its name.

    >>> get_model("squeezenet1_1", num_classes=5).classifier[1].out_channels
    5
    """
    return get_model_builder(name)(**config)


def get_model_weights(name: Any) -> _Versions:
    """The versions of a network's published weights."""
    key = name if isinstance(name, str) else name.__name__
    get_model_builder(key)
    return _Versions(key.lower())


def get_weight(name: str) -> Weights:
    """Published weights by their full name, "ResNet50_Weights.IMAGENET1K_V2"."""
    network, _, version = name.partition(".")
    return getattr(__getattr__(network), version)


def __getattr__(name: str) -> Any:
    if name in _NETWORKS and "." not in _NETWORKS[name]:
        return getattr(_import(_NETWORKS[name]), name)
    if name in _HOMES:
        return _import(name)
    if name in _CLASSES:
        return getattr(_import(_CLASSES[name]), name)
    match = re.fullmatch(r"(\w+)_Weights", name)
    known = {re.sub("_", "", n): n for n in _NETWORKS}
    if match and (network := known.get(re.sub("_", "", match[1]).lower())):
        return _Versions(network)
    raise AttributeError(
        f"module 'torchvision.models' has no attribute {name!r}",
        name=name,
        obj=sys.modules[__name__],
    )


_LAZY = {*_HOMES, *_CLASSES, *(name for name, module in _NETWORKS.items() if "." not in module)}
_FUNCTIONS = {"get_model", "get_model_builder", "get_model_weights", "get_weight", "list_models"}
__all__ = sorted(_LAZY | _FUNCTIONS)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})

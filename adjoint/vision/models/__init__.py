"""Networks under torchvision's names and arguments; weights come from files in the hub's folder."""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import adjoint.models as _models
from adjoint import hub
from adjoint.io.files import load
from adjoint.models import VGG as VGG
from adjoint.models import DenseNet as DenseNet
from adjoint.models import MobileNetV2 as MobileNetV2
from adjoint.models import ResNet as ResNet
from adjoint.models import VisionTransformer as VisionTransformer
from adjoint.vision.transforms import CenterCrop, Compose, Normalize, Resize, ToTensor


class Weights:
    """Published weights of a network: a file in the hub's folder of checkpoints."""

    def __init__(self, network: str, version: str) -> None:
        self.network = network
        self.name = version

    def __repr__(self) -> str:
        return f"{self.network}_Weights.{self.name}"

    def path(self) -> Path:
        """The file, which must be there: nothing is downloaded."""
        folder = Path(hub.get_dir()) / "checkpoints"
        found = sorted(folder.glob(f"{self.network}-*.pth"))
        if not found:
            raise FileNotFoundError(
                f"{self!r}: no {self.network}-*.pth in {folder}. Nothing is downloaded: put "
                "torchvision's file there."
            )
        return found[0]

    def get_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """The weights."""
        return load(self.path())

    def transforms(self) -> Any:
        """What turns an image into the network's input."""
        mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
        return Compose([Resize(256), CenterCrop(224), ToTensor(), Normalize(mean, std)])


class _Versions:
    """`ResNet18_Weights`: any version's name gives the network's weights."""

    def __init__(self, network: str) -> None:
        self._network = network

    def __getattr__(self, name: str) -> Weights:
        if name != "DEFAULT" and not re.fullmatch(r"IMAGENET1K_\w+", name):
            raise AttributeError(f"{self._network}_Weights has no attribute {name!r}", name=name)
        return Weights(self._network, name)


def _network(build: Callable[..., Any]) -> Callable[..., Any]:
    name = build.__name__

    @functools.wraps(build)
    def make(
        *args: Any, weights: Any = None, pretrained: bool = False, progress: bool = True,
        **kwargs: Any,
    ) -> Any:  # fmt: skip
        if isinstance(weights, str):
            weights = Weights(name, weights)
        if args and isinstance(args[0], bool):  # resnet18(True), as it was once
            pretrained, args = args[0], args[1:]
        if pretrained and weights is None:
            weights = Weights(name, "DEFAULT")
        if weights is None:
            return build(*args, **kwargs)
        state = weights.get_state_dict()
        model = build(*args, **kwargs)
        model.load_state_dict(state)
        return model

    return make


NAMES = """
    resnet18 resnet34 resnet50 resnet101 resnet152 vgg11 vgg13 vgg16 vgg19 vgg11_bn vgg13_bn
    vgg16_bn vgg19_bn densenet121 densenet161 densenet169 densenet201 mobilenet_v2 vit_b_16
    vit_b_32 vit_l_16 vit_l_32
""".split()
for _name in NAMES:
    if hasattr(_models, _name):
        globals()[_name] = _network(getattr(_models, _name))


def list_models(module: Any = None, **_: Any) -> list[str]:
    """The names of the networks there are."""
    return sorted(name for name in NAMES if name in globals())


def get_model(name: str, **config: Any) -> Any:
    """A network by its name."""
    if name.lower() not in list_models():
        raise ValueError(f"Unknown model {name}")
    return globals()[name.lower()](**config)


def __getattr__(name: str) -> Any:
    match = re.fullmatch(r"(\w+)_Weights", name)
    known = {re.sub("_", "", n): n for n in list_models()}
    if match and (found := known.get(re.sub("_", "", match[1]).lower())):
        return _Versions(found)
    raise AttributeError(
        f"module 'torchvision.models' has no attribute {name!r}",
        name=name,
        obj=sys.modules[__name__],
    )

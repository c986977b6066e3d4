"""Networks by name, and their published weights, which come from files in the hub's folder."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from adjoint import hub
from adjoint.io.files import load
from adjoint.vision.models.published import NORMALISED, Published, default, published
from adjoint.vision.transforms import InterpolationMode
from adjoint.vision.transforms.presets import (
    ImageClassification,
    ObjectDetection,
    OpticalFlow,
    SemanticSegmentation,
    VideoClassification,
)

Builder = Callable[..., Any]
# Name -> what makes it; filled by `network` as families are imported.
BUILDERS: dict[str, Builder] = {}


class Weights:
    """Published weights of a network: a file in the hub's folder of checkpoints."""

    def __init__(self, network: str, version: str) -> None:
        self.network = network
        self.name = version

    def __repr__(self) -> str:
        return f"{self.network}_Weights.{self.name}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Weights) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))

    @property
    def meta(self) -> dict[str, Any]:
        """Categories and scores, which Adjoint does not carry."""
        raise NotImplementedError(
            f"{self!r}.meta: categories and scores of published weights are not in Adjoint; "
            "torchvision's documentation lists them."
        )

    def path(self) -> Path:
        """The file, which must be there: nothing is downloaded."""
        folder = Path(hub.get_dir()) / "checkpoints"
        versions = published(self.network)
        exact = folder / f"{self._published().file}.pth"
        paths = [exact] if exact.exists() else []
        if len(versions) == 1:  # of one version any file can only be that
            paths += sorted(folder.glob(f"{self.network}-*.pth"))
        if not paths:
            raise FileNotFoundError(
                f"{self!r}: no {exact.name} in {folder}. Nothing is downloaded: put torchvision's "
                "file there (where torchvision is installed, it leaves the file in a folder of the "
                "same name when the network is made with these weights), or pass weights=None to "
                "train from nothing."
            )
        return paths[0]

    def _published(self) -> Published:
        version = default(self.network) if self.name == "DEFAULT" else self.name
        return published(self.network)[version]

    def get_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """The weights."""
        return load(self.path())

    def transforms(self) -> Any:
        """What turns an image into the network's input."""
        known = self._published()
        if known.version.startswith("COCO_WITH_VOC"):
            return SemanticSegmentation(resize_size=520)
        if known.version.startswith("COCO"):
            return ObjectDetection()
        if known.version.startswith("C_T"):
            return OpticalFlow()
        resize = (known.resize,) if isinstance(known.resize, int) else known.resize
        if known.version.startswith("KINETICS"):
            mean, std = NORMALISED[known.interpolation]
            crop = (known.crop, known.crop)
            return VideoClassification(crop_size=crop, resize_size=resize, mean=mean, std=std)
        mode = InterpolationMode(known.interpolation)
        return ImageClassification(crop_size=known.crop, resize_size=resize[0], interpolation=mode)


class Versions:
    """`ResNet18_Weights`: any version's name gives the network's weights."""

    def __init__(self, network: str) -> None:
        self._network = network

    def __getattr__(self, name: str) -> Weights:
        if name != "DEFAULT" and name not in published(self._network):
            raise AttributeError(f"{self._network}_Weights has no attribute {name!r}", name=name)
        return Weights(self._network, name)

    def __getitem__(self, name: str) -> Weights:
        return getattr(self, name)

    def verify(self, weights: Any) -> Weights | None:
        """The weights meant by a name, by weights or by None."""
        return getattr(self, weights) if isinstance(weights, str) else weights


def weights_in(module: str) -> Callable[[str], Versions]:
    """The `__getattr__` of a family's module, which has the `ResNet18_Weights` of its networks."""

    def find(name: str) -> Versions:
        known = {builder.replace("_", ""): builder for builder in BUILDERS}
        network = known.get(name.removesuffix("_Weights").replace("_", "").lower())
        if not name.endswith("_Weights") or network is None:
            path = module.replace("adjoint.vision", "torchvision", 1)
            raise AttributeError(
                f"module {path!r} has no attribute {name!r}", name=name, obj=sys.modules[module]
            )
        return Versions(network)

    return find


def network(build: Builder) -> Builder:
    """A function that builds a network, with torchvision's `weights` and `progress`."""
    name = build.__name__
    takes = inspect.signature(build).parameters
    takes_backbone = "weights_backbone" in takes

    @functools.wraps(build)
    def make(
        *args: Any, weights: Any = None, pretrained: bool = False, progress: bool = True,
        **kwargs: Any,
    ) -> Any:  # fmt: skip
        if args and (args[0] is None or isinstance(args[0], (bool, str, Weights))):
            given, args = args[0], args[1:]  # resnet18(True), resnet18(weights)
            weights, pretrained = (weights, given) if isinstance(given, bool) else (given, False)
        if isinstance(weights, str):
            weights = Weights(name, weights.rpartition(".")[2])
        if pretrained and weights is None:
            weights = Weights(name, "DEFAULT")
        if not takes_backbone:
            refuse_backbone(name, kwargs.pop("weights_backbone", None))
        if weights is None:
            return build(*args, **kwargs)
        state = weights.get_state_dict()
        if "has_weights" in takes:  # what is built depends on whether it was trained
            kwargs["has_weights"] = True
        model = build(*args, **kwargs)
        model.load_state_dict(state)
        return model

    BUILDERS[name] = make
    return make


def with_weights(model: Any, weights: Weights | None) -> Any:
    """A network with published weights, if any are meant."""
    if weights is not None:
        model.load_state_dict(weights.get_state_dict())
    return model


def refuse_backbone(name: str, weights: Any) -> None:
    """Backbones start at random: their published weights would have to be downloaded."""
    if weights is not None:
        raise NotImplementedError(
            f"{name}: weights_backbone={weights!r}: nothing is downloaded. Pass None and load the "
            "backbone's state_dict into `model.backbone`."
        )


def load_backbone(name: str, backbone: Any, weights: Any, source: str) -> None:
    """Load published weights of a classification network into a backbone, from the hub's folder."""
    if weights is None:
        return
    if isinstance(weights, str):
        weights = Weights(source, weights)
    wanted = backbone.state_dict()
    state = {k: v for k, v in weights.get_state_dict().items() if k in wanted}
    backbone.load_state_dict(state)


def make_divisible(value: float, by: int = 8, least: int | None = None) -> int:
    """The multiple of `by` nearest to a width, never more than a tenth below it."""
    near = max(least or by, int(value + by / 2) // by * by)
    return near + by if near < 0.9 * value else near

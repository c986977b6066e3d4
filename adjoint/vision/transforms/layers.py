"""Transforms that are modules as well, as torchvision's are: they go into `nn.Sequential`."""

from __future__ import annotations

from typing import Any

from adjoint import nn
from adjoint.data import transforms as plain
from adjoint.vision.transforms import augment, more

NAMES = """
    CenterCrop ColorJitter ConvertImageDtype ElasticTransform FiveCrop GaussianBlur Grayscale
    LinearTransformation Normalize Pad RandomAdjustSharpness RandomAffine RandomApply
    RandomAutocontrast RandomCrop RandomEqualize RandomErasing RandomGrayscale
    RandomHorizontalFlip RandomInvert RandomPerspective RandomPosterize RandomResizedCrop
    RandomRotation RandomSolarize RandomVerticalFlip Resize TenCrop
""".split()


def as_layer(kind: Any) -> type[nn.Module]:
    """A transform's class as a module's, under the same name."""

    def start(self: Any, *args: Any, **kwargs: Any) -> None:
        nn.Module.__init__(self)
        kind.__init__(self, *args, **kwargs)

    def show(self: Any) -> str:
        hidden = ("training", *nn.Identity().__dict__)
        shown = {k: v for k, v in vars(self).items() if k not in hidden and k[0] != "_"}
        return f"{kind.__name__}({', '.join(f'{k}={v}' for k, v in shown.items())})"

    members = {
        "__init__": start,
        "__repr__": show,
        "__call__": nn.Module.__call__,
        "__doc__": kind.__doc__,
        "__module__": "adjoint.vision.transforms",
        "forward": lambda self, image: kind.__call__(self, image),
    }
    return type(kind.__name__, (nn.Module, kind), members)


LAYERS: dict[str, Any] = {
    name: as_layer(getattr(more, name, None) or getattr(plain, name)) for name in NAMES
} | {name: as_layer(getattr(augment, name)) for name in augment.NAMES}

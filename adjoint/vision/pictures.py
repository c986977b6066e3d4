"""Images as torchvision hands them out: PIL's where Pillow is installed, else arrays."""

from __future__ import annotations

from typing import Any

from adjoint.data.readers.images import by_pillow, rgb
from adjoint.engine.core.availability import libraries
from adjoint.engine.core.files.budget import Budget


def pillow() -> Any:
    """`PIL.Image`, or None where Pillow is not installed."""
    return libraries.find("PIL.Image")


def picture(array: Any) -> Any:
    """An array (H, W) or (H, W, C) as an image."""
    image = pillow()
    return array if image is None else image.fromarray(array)


def default_loader(path: str) -> Any:
    """An image file as an RGB image."""
    image = pillow()
    if image is None:
        return rgb(path)
    with open(path, "rb") as file:
        data = file.read()
    return image.fromarray(
        by_pillow(image, data, Budget(len(data), f"default_loader: {path}"), "RGB")
    )

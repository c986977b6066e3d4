"""Boxes and masks drawn on images."""

from __future__ import annotations

from typing import Any

import numpy as np

from adjoint.engine.backends.array.interop import from_numpy
from adjoint.engine.core.availability.libraries import need
from adjoint.engine.core.dtype import bool_, uint8
from adjoint.engine.core.errors import DTypeValueError, ShapeValueError
from adjoint.engine.tensor.tensor import Tensor


def _check(name: str, image: Tensor) -> None:
    if not isinstance(image, Tensor):
        raise TypeError(f"{name}: tensor expected, got {type(image)}")
    if image.ndim != 3 or image.shape[0] not in (1, 3):
        raise ShapeValueError(f"{name}: expected an image (1 or 3, H, W), got {tuple(image.shape)}")
    if image.dtype is not uint8 and not image.dtype.is_floating_point:
        raise DTypeValueError(
            f"{name}: expected uint8 or a floating-point image, got {image.dtype}"
        )


def _palette(count: int) -> list[tuple[int, int, int]]:
    """Colours that differ, those torchvision takes."""
    base = (2**25 - 1, 2**15 - 1, 2**21 - 1)
    return [tuple(i * p % 255 for p in base) for i in range(count)]  # type: ignore[misc]


def _colours(name: str, colors: Any, count: int) -> list[tuple[int, int, int]]:
    library = need("PIL.ImageColor", name)
    if colors is None:
        return _palette(count)
    if isinstance(colors, list):
        if len(colors) < count:
            raise ValueError(
                f"Number of colors must be equal or larger than the number of objects, but got "
                f"{len(colors)} < {count}."
            )
        given = colors[:count]
    elif isinstance(colors, (str, tuple)):
        given = [colors] * count
    else:
        raise ValueError(f"{name}: colors must be a colour or a list of them, got {colors!r}")
    return [
        library.getrgb(colour) if isinstance(colour, str) else tuple(colour) for colour in given
    ]


def _bytes(image: Tensor) -> Any:
    shown = image if image.dtype is uint8 else (image * 255).to(uint8)
    shown = shown.expand(3, *shown.shape[1:]) if shown.shape[0] == 1 else shown
    return np.array(shown.permute(1, 2, 0).to("cpu").numpy())


def _like(pixels: Any, image: Tensor) -> Tensor:
    drawn = from_numpy(np.ascontiguousarray(pixels.transpose(2, 0, 1))).to(image.device)
    return drawn if image.dtype is uint8 else (drawn.to(image.dtype) / 255)


def draw_bounding_boxes(
    image: Tensor, boxes: Tensor, labels: list[str | None] | None = None, colors: Any = None,
    fill: bool | None = False, width: int = 1, font: str | None = None,
    font_size: int | None = None,
) -> Tensor:  # fmt: skip
    """The image with boxes (N, 4) given as (x1, y1, x2, y2), and what each is.

    Args:
        image: (1 or 3, H, W).
        boxes: the boxes.
        labels: what is written in them.
        colors: a colour or one for each: names, "#rrggbb" or tuples.
        fill: whether boxes are filled, half transparent.
        width: of the lines.
        font, font_size: a TrueType file and the size of its letters.
    """
    _check("draw_bounding_boxes", image)
    places = [[int(v) for v in box] for box in boxes.to("cpu").tolist()]
    if any(x2 < x1 or y2 < y1 for x1, y1, x2, y2 in places):
        raise ValueError(
            "Boxes need to be in (xmin, ymin, xmax, ymax) format. Use ops.box_convert to convert."
        )
    if labels is not None and len(labels) != len(places):
        raise ValueError(
            f"The number of boxes ({len(places)}) and labels ({len(labels)}) mismatch."
        )
    if font is None and font_size is not None:
        raise ValueError("draw_bounding_boxes: font_size needs font, the path of a TrueType file")
    colours = _colours("draw_bounding_boxes", colors, len(places))
    picture = need("PIL.Image", "draw_bounding_boxes").fromarray(_bytes(image))
    draw = need("PIL.ImageDraw", "draw_bounding_boxes").Draw(picture, "RGBA" if fill else "RGB")
    letters = need("PIL.ImageFont", "draw_bounding_boxes")
    face = letters.load_default() if font is None else letters.truetype(font, font_size or 10)
    for box, colour, label in zip(places, colours, labels or [None] * len(places), strict=True):
        inside = (*colour, 100) if fill else None
        draw.rectangle(box, width=width, outline=colour, fill=inside)
        if label is not None:
            margin = width + 1
            draw.text((box[0] + margin, box[1] + margin), label, fill=colour, font=face)
    return _like(np.array(picture), image)


def draw_segmentation_masks(
    image: Tensor, masks: Tensor, alpha: float = 0.8, colors: Any = None
) -> Tensor:
    """The image with masks (N, H, W) coloured in.

    Args:
        image: (3, H, W).
        masks: the masks, of bool.
        alpha: from 0, where they cannot be seen, to 1, where nothing else can.
        colors: a colour or one for each.
    """
    _check("draw_segmentation_masks", image)
    if image.shape[0] != 3:
        raise ValueError("Pass an RGB image. Other Image formats are not supported")
    masks = masks[None] if masks.ndim == 2 else masks
    if masks.dtype is not bool_ or masks.shape[-2:] != image.shape[-2:]:
        raise ValueError(
            f"The masks must be of bool and the image's size, got {masks.dtype} of "
            f"{tuple(masks.shape)}"
        )
    source = np.asarray(image.detach().to("cpu").numpy())
    top = source.copy()
    scale = 1 if image.dtype is uint8 else 255
    colours = _colours("draw_segmentation_masks", colors, len(masks))
    shapes = np.asarray(masks.to("cpu").numpy())
    for mask, colour in zip(shapes, colours, strict=True):
        top[:, mask] = (np.array(colour) / scale).astype(source.dtype)[:, None]
    top[:, shapes.sum(0) > 1] = 0  # where masks overlap it is dark
    mixed = source * np.float32(1 - alpha) + top * np.float32(alpha)
    mixed[:, ~shapes.any(0)] = source[:, ~shapes.any(0)]
    return from_numpy(mixed.astype(source.dtype)).to(image.device)

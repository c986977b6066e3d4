"""Where boxes go when their image is flipped, resized, cropped, padded, turned or bent.

The functions named after torchvision's kernels take plain tensors (..., 4) and what is known of
them; those that change the image's size give the new one beside the boxes. Turned boxes have five
or eight numbers (see `adjoint.vision.ops.turned`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from adjoint.engine.backends.array.interop import from_numpy
from adjoint.engine.core.dtype import float32
from adjoint.engine.core.errors import ShapeValueError
from adjoint.engine.ops.shape.join import cat, stack
from adjoint.engine.tensor.tensor import Tensor
from adjoint.vision.ops import turned
from adjoint.vision.transforms.warp import (
    _room,
    both_shears,
    inverse_matrix,
    perspective_coefficients,
)
from adjoint.vision.tv_tensors import (
    BoundingBoxes,
    BoundingBoxFormat,
    as_format,
    is_rotated_bounding_format,
    plain,
    wrap,
)

Size = tuple[int, int]
XYXY, XYWH, CXCYWH = (BoundingBoxFormat[name] for name in ("XYXY", "XYWH", "CXCYWH"))


def _corners(boxes: Tensor, given: BoundingBoxFormat) -> Tensor:
    """XYXY of boxes; whole numbers are cut off towards 0."""
    if given is XYXY:
        return boxes
    place, sides = boxes[..., :2], boxes[..., 2:]
    if given is CXCYWH:
        place = place - sides / 2
    return cat([place, place + sides], -1).to(boxes.dtype)


def _from_corners(boxes: Tensor, wanted: BoundingBoxFormat) -> Tensor:
    if wanted is XYXY:
        return boxes
    low, sides = boxes[..., :2], boxes[..., 2:] - boxes[..., :2]
    if wanted is CXCYWH:
        whole = not boxes.dtype.is_floating_point
        low = (low * 2 + sides).div(2, rounding_mode="floor" if whole else None)
    return cat([low, sides], -1)


def _converted(boxes: Tensor, given: BoundingBoxFormat, wanted: BoundingBoxFormat) -> Tensor:
    if is_rotated_bounding_format(given):
        return turned.converted(boxes, given.name, wanted.name).to(boxes.dtype)
    return boxes if given is wanted else _from_corners(_corners(boxes, given), wanted)


def convert_bounding_box_format(
    inpt: Tensor,
    old_format: BoundingBoxFormat | str | None = None,
    new_format: BoundingBoxFormat | str | None = None,
    inplace: bool = False,
) -> Any:
    """Boxes in another format; `old_format` is for plain tensors only.

    Example:
        >>> import adjoint as ad
        >>> convert_bounding_box_format(ad.tensor([1, 2, 5, 8]), "XYXY", "CXCYWH")
        tensor([3, 5, 4, 6])
    """
    if new_format is None:
        raise TypeError("convert_bounding_box_format() missing 1 required argument: 'new_format'")
    known = isinstance(inpt, BoundingBoxes)
    if known and old_format is not None:
        raise ValueError("For bounding box tv_tensor inputs, `old_format` must not be passed.")
    if not known and old_format is None:
        raise ValueError("For pure tensor inputs, `old_format` has to be passed.")
    given = inpt.format if isinstance(inpt, BoundingBoxes) else as_format(old_format or "")
    wanted = as_format(new_format)
    turned_ones = is_rotated_bounding_format(given), is_rotated_bounding_format(wanted)
    if turned_ones[0] != turned_ones[1]:
        raise ValueError("Cannot convert between rotated and unrotated bounding boxes.")
    converted = _converted(plain(inpt), given, wanted)
    if inplace and given is not wanted and converted.shape == inpt.shape:
        converted = plain(inpt).copy_(converted)
    return (
        wrap(converted, like=inpt, format=wanted) if isinstance(inpt, BoundingBoxes) else converted
    )


def _clamped(boxes: Tensor, format: Any, canvas_size: Size, mode: str | None) -> Tensor:
    """Boxes cut off at the edges of the image."""
    kind = as_format(format)
    if is_rotated_bounding_format(kind):
        return turned.clamped(boxes, kind.name, canvas_size, mode)
    if mode is None:
        return boxes.clone()
    height, width = canvas_size
    work = boxes if boxes.dtype.is_floating_point else boxes.to(float32)
    x1, y1, x2, y2 = _corners(work, kind).unbind(-1)
    inside = [x1.clamp(0, width), y1.clamp(0, height), x2.clamp(0, width), y2.clamp(0, height)]
    return _from_corners(stack(inside, -1), kind).to(boxes.dtype)


def clamp_bounding_boxes(
    inpt: Tensor,
    format: BoundingBoxFormat | str | None = None,
    canvas_size: Size | None = None,
    clamping_mode: str | None = "auto",
) -> Any:
    """Boxes cut off at the edges of their image; "auto" asks the boxes whether."""
    if clamping_mode not in (None, "soft", "hard", "auto"):
        raise ValueError(f"clamping_mode must be soft, hard, auto or None, got {clamping_mode}")
    if isinstance(inpt, BoundingBoxes):
        if format is not None or canvas_size is not None:
            raise ValueError(
                "For bounding box tv_tensor inputs, `format` and `canvas_size` must not be passed."
            )
        mode = inpt.clamping_mode if clamping_mode == "auto" else clamping_mode
        return wrap(_clamped(plain(inpt), inpt.format, inpt.canvas_size, mode), like=inpt)
    if format is None or canvas_size is None or clamping_mode == "auto":
        raise ValueError(
            "For pure tensor inputs, `format`, `canvas_size` and `clamping_mode` have to be passed."
        )
    return _clamped(plain(inpt), format, canvas_size, clamping_mode)


def _mirrored(boxes: Tensor, kind: BoundingBoxFormat, side: int, axis: int) -> Tensor:
    """Boxes with one axis (0 for x, 1 for y) of an image that long turned round."""
    parts = list(boxes.unbind(-1))
    low, other = parts[axis], parts[axis + 2]
    if kind is XYXY:
        parts[axis], parts[axis + 2] = side - other, side - low
    else:
        parts[axis] = side - low - other if kind is XYWH else side - low
    return stack(parts, -1)


def horizontal_flip_bounding_boxes(
    bounding_boxes: Tensor, format: BoundingBoxFormat, canvas_size: Size
) -> Tensor:  # fmt: skip
    """Boxes with left and right exchanged."""
    kind = as_format(format)
    if is_rotated_bounding_format(kind):
        return turned.flipped(plain(bounding_boxes), kind.name, canvas_size[1], 0)
    return _mirrored(plain(bounding_boxes), kind, canvas_size[1], 0)


def vertical_flip_bounding_boxes(
    bounding_boxes: Tensor, format: BoundingBoxFormat, canvas_size: Size
) -> Tensor:  # fmt: skip
    """Boxes with top and bottom exchanged."""
    kind = as_format(format)
    if is_rotated_bounding_format(kind):
        return turned.flipped(plain(bounding_boxes), kind.name, canvas_size[0], 1)
    return _mirrored(plain(bounding_boxes), kind, canvas_size[0], 1)


def resized(canvas_size: Size, size: Any, max_size: int | None = None) -> Size:
    """What an image's size becomes: see `Resize`; without `size`, the longer side is `max_size`."""
    height, width = canvas_size
    given = [size] if isinstance(size, int) else size
    if given is None:
        if max_size is None:
            raise ValueError("max_size must be an integer when size is None, but got None.")
        short = int(max_size * min(height, width) / max(height, width))
        return (short, max_size) if height < width else (max_size, short)
    if len(given) == 2:
        if max_size is not None:
            raise ValueError("max_size should only be passed if size is None or a single integer")
        return int(given[0]), int(given[1])
    if len(given) != 1:
        raise ValueError(f"resize: expected one or two sizes, received {size}")
    short = given[0]
    long = int(short * max(height, width) / min(height, width))
    if max_size is not None:
        if max_size <= short:
            raise ValueError(
                f"max_size = {max_size} must be strictly greater than the requested size for the "
                f"smaller edge size = {size}"
            )
        if long > max_size:
            short, long = int(max_size * short / long), max_size
    return (short, long) if height <= width else (long, short)


def resize_bounding_boxes(
    bounding_boxes: Tensor,
    canvas_size: Size,
    size: Any,
    max_size: int | None = None,
    format: BoundingBoxFormat = XYXY,
    clamping_mode: str | None = "soft",
) -> tuple[Tensor, Size]:
    """Boxes of an image that is resized, and its new size."""
    (height, width), new = canvas_size, resized(canvas_size, size, max_size)
    boxes, kind = plain(bounding_boxes), as_format(format)
    if new == tuple(canvas_size):
        return boxes, new
    if is_rotated_bounding_format(kind):
        factors = boxes.new_tensor([new[1] / width, new[0] / height])
        return turned.moved(boxes, kind.name, lambda p: p * factors, new, clamping_mode), new
    ratios = from_numpy(np.array([new[1] / width, new[0] / height] * 2, np.float32))
    return (boxes * ratios.to(boxes.device)).to(boxes.dtype), new


def _shifted(boxes: Tensor, kind: BoundingBoxFormat, left: int, top: int) -> Tensor:
    by = [left, top] * (boxes.shape[-1] // 2) if kind.name.startswith("XYXY") else [left, top, 0, 0]
    if kind.name.endswith("R"):
        by = [*by, 0]
    return boxes + boxes.new_tensor(by)


def crop_bounding_boxes(
    bounding_boxes: Tensor,
    format: BoundingBoxFormat,
    top: int,
    left: int,
    height: int,
    width: int,
    clamping_mode: str | None = "soft",
) -> tuple[Tensor, Size]:
    """Boxes as a rectangle of the image shows them, and its size."""
    kind = as_format(format)
    moved = _shifted(plain(bounding_boxes), kind, -left, -top)
    if kind is BoundingBoxFormat.XYXYXYXY:
        moved = turned.rectangles(turned.corners_of(moved, kind.name)).to(moved.dtype)
    return _clamped(moved, kind, (height, width), clamping_mode), (height, width)


def borders(padding: Any) -> tuple[int, int, int, int]:
    """Left, top, right and bottom of one, two or four numbers."""
    given = [padding] if isinstance(padding, int) else list(padding)
    if len(given) not in (1, 2, 4):
        raise ValueError(
            f"Padding must be an int or a 1, 2, or 4 element of tuple or list, got {padding}."
        )
    left, top, right, bottom = (given * 4)[:4]
    return left, top, right, bottom


def pad_bounding_boxes(
    bounding_boxes: Tensor,
    format: BoundingBoxFormat,
    canvas_size: Size,
    padding: Any,
    padding_mode: str = "constant",
    clamping_mode: str | None = "soft",
) -> tuple[Tensor, Size]:
    """Boxes of an image with a border, and its new size."""
    kind = as_format(format)
    if padding_mode != "constant":
        raise ValueError(f"Padding mode '{padding_mode}' is not supported with bounding boxes")
    left, top, right, bottom = borders(padding)
    size = (canvas_size[0] + top + bottom, canvas_size[1] + left + right)
    moved = _shifted(plain(bounding_boxes), kind, left, top)
    return _clamped(moved, kind, size, clamping_mode), size


def centre_of(canvas_size: Size, output_size: Any) -> tuple[int, int, int, int]:
    """The rectangle in the middle of an image: top, left, height, width; it may reach beyond."""
    given = [output_size] if isinstance(output_size, int) else list(output_size)
    height, width = given[0], given[-1]
    h, w = canvas_size
    # Beyond the edges by a half pixel, this is one off the image's own border: so in torchvision.
    top, left = round((h - height) / 2.0), round((w - width) / 2.0)
    return top, left, height, width


def center_crop_bounding_boxes(
    bounding_boxes: Tensor,
    format: BoundingBoxFormat,
    canvas_size: Size,
    output_size: Any,
    clamping_mode: str | None = "soft",
) -> tuple[Tensor, Size]:
    """Boxes as the middle of the image shows them, and its size."""
    rectangle = centre_of(canvas_size, output_size)
    return crop_bounding_boxes(bounding_boxes, format, *rectangle, clamping_mode=clamping_mode)


def resized_crop_bounding_boxes(
    bounding_boxes: Tensor,
    format: BoundingBoxFormat,
    top: int,
    left: int,
    height: int,
    width: int,
    size: Any,
    clamping_mode: str | None = "soft",
) -> tuple[Tensor, Size]:
    """Boxes as a rectangle of the image shows them when it is resized, and its size."""
    rectangle = (top, left, height, width)
    boxes, part = crop_bounding_boxes(
        bounding_boxes, format, *rectangle, clamping_mode=clamping_mode
    )
    return resize_bounding_boxes(boxes, part, size, None, format, clamping_mode)


def _around(
    boxes: Tensor, kind: BoundingBoxFormat, move: Any, size: Size, mode: str | None
) -> Tensor:
    """The boxes around the corners (N, 4, 2) of boxes after `move`, cut off at the edges."""
    if is_rotated_bounding_format(kind):
        return turned.moved(boxes, kind.name, move, size, mode)
    work = boxes if boxes.dtype.is_floating_point else boxes.to(float32)
    hull = _hull(_corners(work, kind), move)
    return _converted(_clamped(hull, XYXY, size, mode), XYXY, kind).to(boxes.dtype)


def _hull(corners: Tensor, move: Any) -> Tensor:
    x1, y1, x2, y2 = corners.unbind(-1)
    points = [stack(pair, -1) for pair in ((x1, y1), (x2, y1), (x2, y2), (x1, y2))]
    moved = move(stack(points, -2))
    return cat([moved.amin(-2), moved.amax(-2)], -1).to(corners.dtype)


def projected(points: Tensor, matrix: Any) -> Tensor:
    """Points (..., 2) under a map of homogeneous coordinates (3, 3)."""
    table = from_numpy(np.ascontiguousarray(matrix, np.float32)).to(points.device, points.dtype)
    out = points @ table[:, :2].T + table[:, 2]
    return out[..., :2] / out[..., 2:]


def affine_bounding_boxes(
    bounding_boxes: Tensor,
    format: BoundingBoxFormat,
    canvas_size: Size,
    angle: float,
    translate: Sequence[float],
    scale: float,
    shear: Any,
    center: Any = None,
    clamping_mode: str | None = "soft",
) -> Tensor:
    """The boxes around what becomes of boxes under `affine`."""
    kind, boxes = as_format(format), plain(bounding_boxes)
    if not boxes.numel():
        return boxes
    matrix = forward_map(canvas_size, angle, translate, scale, shear, center)
    return _around(boxes, kind, lambda p: projected(p, matrix), canvas_size, clamping_mode)


def forward_map(
    canvas_size: Size, angle: float, translate: Any, scale: float, shear: Any, center: Any
) -> Any:
    """The map (3, 3) from places in the image to places in the result."""
    shears = both_shears(shear)
    middle = center or [canvas_size[1] * 0.5, canvas_size[0] * 0.5]
    rows = inverse_matrix(middle, angle, translate, scale, shears)
    return np.linalg.inv(np.array([*rows, 0.0, 0.0, 1.0]).reshape(3, 3))


def turned_map(canvas_size: Size, angle: float, expand: bool, center: Any) -> tuple[Any, Size]:
    """The map (3, 3) of `rotate`, and the size of its result."""
    height, width = canvas_size
    matrix = forward_map(canvas_size, -angle, [0.0, 0.0], 1.0, [0.0, 0.0], center)
    if not expand:
        return matrix, canvas_size
    ends = matrix @ np.array([[0, width, 0, width], [0, 0, height, height], [1] * 4])
    matrix[:2, 2] -= ends[:2].min(1)
    inverse = inverse_matrix([0.0, 0.0], -angle, [0.0, 0.0], 1.0, [0.0, 0.0])
    wide, tall = _room(inverse, width, height)
    return matrix, (tall, wide)


def rotate_bounding_boxes(
    bounding_boxes: Tensor,
    format: BoundingBoxFormat,
    canvas_size: Size,
    angle: float,
    expand: bool = False,
    center: Any = None,
    clamping_mode: str | None = "soft",
) -> tuple[Tensor, Size]:
    """The boxes around what becomes of boxes under `rotate`, and the image's new size."""
    kind, boxes = as_format(format), plain(bounding_boxes)
    matrix, size = turned_map(canvas_size, angle, expand, center)
    if not boxes.numel():
        return boxes, size
    return _around(boxes, kind, lambda p: projected(p, matrix), size, clamping_mode), size


def perspective_bounding_boxes(
    bounding_boxes: Tensor,
    format: BoundingBoxFormat,
    canvas_size: Size,
    startpoints: Any,
    endpoints: Any,
    coefficients: Any = None,
    clamping_mode: str | None = "soft",
) -> Tensor:
    """The boxes around what becomes of boxes under `perspective`."""
    kind, boxes = as_format(format), plain(bounding_boxes)
    if not boxes.numel():
        return boxes
    numbers = coefficients or perspective_coefficients(startpoints, endpoints)
    matrix = np.linalg.inv(np.array([*numbers, 1.0]).reshape(3, 3))
    if is_rotated_bounding_format(kind):
        return _around(boxes, kind, lambda p: projected(p, matrix), canvas_size, clamping_mode)
    corners = _corners(boxes, kind)  # of whole numbers: whole
    work = corners if corners.dtype.is_floating_point else corners.to(float32)
    hull = _hull(work, lambda p: projected(p, matrix))
    inside = _clamped(hull, XYXY, canvas_size, clamping_mode)
    return _converted(inside, XYXY, kind).to(boxes.dtype)


def elastic_bounding_boxes(
    bounding_boxes: Tensor,
    format: BoundingBoxFormat,
    canvas_size: Size,
    displacement: Tensor,
    clamping_mode: str | None = "soft",
) -> Tensor:
    """The boxes around corners moved against the displacements found there.

    The map of `elastic` has no closed inverse; as in torchvision, a displacement at a corner is
    taken for the one that leads to it.
    """
    kind, boxes, (height, width) = as_format(format), plain(bounding_boxes), canvas_size
    if tuple(displacement.shape) != (1, height, width, 2):
        raise ShapeValueError(
            f"Argument displacement shape should be {(1, height, width, 2)}, but given "
            f"{tuple(displacement.shape)}"
        )
    if not boxes.numel():
        return boxes
    table = np.asarray(displacement.detach().cpu().numpy())[0]

    def move(points: Tensor) -> Tensor:
        at = np.ceil(points.detach().cpu().numpy()).astype(np.int64)
        x, y = at[..., 0].clip(0, width - 1), at[..., 1].clip(0, height - 1)
        half = np.array([width * 0.5, height * 0.5])
        moved = np.stack([x, y], -1) - table[y, x] * half
        return from_numpy(moved.astype(np.float32)).to(points.device)

    if is_rotated_bounding_format(kind):  # the middle moves, sides and angle stay
        middles = turned.converted(boxes, kind.name, "CXCYWHR")
        shifted = cat([move(middles[..., :2]).to(boxes.dtype), middles[..., 2:]], -1)
        inside = turned.clamped(shifted, "CXCYWHR", canvas_size, clamping_mode)
        return turned.converted(inside, "CXCYWHR", kind.name)
    hull = _hull(_corners(boxes, kind), move)
    return _converted(_clamped(hull, XYXY, canvas_size, clamping_mode), XYXY, kind)


def usable(
    boxes: Tensor, format: Any, canvas_size: Size, min_size: float, min_area: float
) -> Tensor:
    """Which boxes lie within the image and are large enough."""
    kind, (height, width) = as_format(format), canvas_size
    if is_rotated_bounding_format(kind):
        flat = turned.converted(plain(boxes), kind.name, "XYWHR")
        w, h = flat[..., 2], flat[..., 3]
        x, y = turned.corners_of(flat, "XYWHR").unbind(-1)
        within = ((x >= 0) & (x <= width) & (y >= 0) & (y <= height)).all(-1)
        return within & (w >= min_size) & (h >= min_size) & (w * h >= min_area)
    x1, y1, x2, y2 = _corners(plain(boxes), kind).unbind(-1)
    w, h = x2 - x1, y2 - y1
    large = (w >= min_size) & (h >= min_size) & (w * h >= min_area)
    return large & (x1 >= 0) & (x2 <= width) & (y1 >= 0) & (y2 <= height)


def sanitize_bounding_boxes(
    bounding_boxes: Tensor,
    format: BoundingBoxFormat | str | None = None,
    canvas_size: Size | None = None,
    min_size: float = 1.0,
    min_area: float = 1.0,
) -> tuple[Any, Tensor]:
    """The boxes that lie within the image and are large enough, and which those are."""
    boxes = bounding_boxes
    if isinstance(boxes, BoundingBoxes):
        if format is not None or canvas_size is not None:
            raise ValueError(
                "format and canvas_size must be None when bounding_boxes is a "
                f"tv_tensors.BoundingBoxes instance. Got format={format} and "
                f"canvas_size={canvas_size}."
            )
        valid = usable(boxes, boxes.format, boxes.canvas_size, min_size, min_area)
        return wrap(plain(boxes)[valid], like=boxes), valid
    if format is None or canvas_size is None:
        raise ValueError(
            "format and canvas_size cannot be None if bounding_boxes is a pure tensor. "
            f"Got format={format} and canvas_size={canvas_size}."
        )
    valid = usable(boxes, format, canvas_size, min_size, min_area)
    return boxes[valid], valid

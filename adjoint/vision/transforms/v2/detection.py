"""Transforms for finding objects: zooms and crops that look at boxes, and boxes made sound."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from adjoint.data.transforms.draw import integer, uniform
from adjoint.engine.core.errors import ShapeValueError
from adjoint.engine.tensor.tensor import Tensor
from adjoint.utils._pytree import tree_flatten, tree_unflatten
from adjoint.vision.ops.boxes import box_iou
from adjoint.vision.transforms.v2 import functional as F
from adjoint.vision.transforms.v2.boxes import usable
from adjoint.vision.transforms.v2.kernels import is_pure_tensor
from adjoint.vision.transforms.v2.points import inside
from adjoint.vision.transforms.v2.sample import (
    RandomTransform,
    Transform,
    fill_of,
    get_bounding_boxes,
    get_keypoints,
    has_any,
    is_image,
    query_size,
)
from adjoint.vision.tv_tensors import BoundingBoxes, Image, KeyPoints, Mask, Video, plain, wrap


class RandomZoomOut(RandomTransform):
    """The image somewhere in a larger one, with a probability (Liu et al., 2015).

    Args:
        fill: what the rest holds; one value, one per channel, or a dict of them by kind of thing.
        side_range: bounds of how many times larger.
        p: the probability.
    """

    def __init__(
        self, fill: Any = 0, side_range: Sequence[float] = (1.0, 4.0), p: float = 0.5
    ) -> None:
        super().__init__(p)
        if len(side_range) != 2 or not 1.0 <= side_range[0] <= side_range[1]:
            raise ValueError(f"Invalid side range provided {side_range}.")
        self.fill = fill
        self.side_range = side_range

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        h, w = query_size(flat_inputs)
        times = uniform(self.side_range[0], self.side_range[1])
        down, across = int(h * times) - h, int(w * times) - w
        left, top = int(across * uniform(0, 1)), int(down * uniform(0, 1))
        return {"padding": [left, top, across - left, down - top]}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return self._call_kernel(F.pad, inpt, **params, fill=fill_of(self.fill, inpt))


class RandomIoUCrop(Transform):
    """A crop that overlaps a box by at least a random amount (Liu et al., 2015).

    Boxes whose middle is not in it become empty: `SanitizeBoundingBoxes` must follow, at once or
    later.

    Args:
        min_scale, max_scale: bounds of the crop's sides, as parts of the image's.
        min_aspect_ratio, max_aspect_ratio: bounds of width over height.
        sampler_options: the overlaps to draw from; 1 leaves the sample as it is.
        trials: how many crops are tried before another overlap is drawn.
    """

    def __init__(
        self,
        min_scale: float = 0.3,
        max_scale: float = 1.0,
        min_aspect_ratio: float = 0.5,
        max_aspect_ratio: float = 2.0,
        sampler_options: Sequence[float] | None = None,
        trials: int = 40,
    ) -> None:
        super().__init__()
        self.min_scale = min_scale
        self.max_scale = max_scale
        self.min_aspect_ratio = min_aspect_ratio
        self.max_aspect_ratio = max_aspect_ratio
        self.options = list(sampler_options or (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0))
        self.trials = trials

    def check_inputs(self, flat_inputs: list[Any]) -> None:
        if not has_any(flat_inputs, BoundingBoxes) or not has_any(
            flat_inputs, Image, Video, is_image, is_pure_tensor
        ):
            raise TypeError(
                f"{type(self).__name__}() requires input sample to contain tensor or PIL images "
                "and bounding boxes. Sample can also contain masks."
            )

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        size, boxes = query_size(flat_inputs), get_bounding_boxes(flat_inputs)
        corners = F.convert_bounding_box_format(plain(boxes), boxes.format, "XYXY").float()
        while True:
            overlap = self.options[integer(0, len(self.options))]
            if overlap >= 1.0:
                return {}
            for _ in range(self.trials):
                crop = self._attempt(size, corners, overlap)
                if crop is not None:
                    return crop

    def _attempt(
        self, size: tuple[int, int], corners: Tensor, overlap: float
    ) -> dict[str, Any] | None:
        """A crop, where it is one that will do."""
        h, w = size
        width = int(w * uniform(self.min_scale, self.max_scale))
        height = int(h * uniform(self.min_scale, self.max_scale))
        if not width or not height:
            return None
        if not self.min_aspect_ratio <= width / height <= self.max_aspect_ratio:
            return None
        left, top = int((w - width) * uniform(0, 1)), int((h - height) * uniform(0, 1))
        middle = (corners[:, :2] + corners[:, 2:]) / 2
        x, y = middle[:, 0], middle[:, 1]
        inside = (x > left) & (x < left + width) & (y > top) & (y < top + height)
        if not inside.any():
            return None
        rectangle = corners.new_tensor([[left, top, left + width, top + height]])
        if float(box_iou(corners[inside], rectangle).max()) < overlap:
            return None
        return {"rectangle": (top, left, height, width), "inside": inside}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        if not params:
            return inpt
        cropped = self._call_kernel(F.crop, inpt, *params["rectangle"])
        if not isinstance(cropped, BoundingBoxes):
            return cropped
        inside = params["inside"][:, None].to(cropped.dtype)
        return wrap(plain(cropped) * inside, like=cropped)


def labels_of(sample: Any) -> Any:
    """Labels of a sample: under "labels" or a key like it, in a dict or the second of a tuple."""
    given = sample[1] if isinstance(sample, (tuple, list)) and len(sample) > 1 else sample
    if is_pure_tensor(given):
        return given
    if not isinstance(given, Mapping):
        raise ValueError(
            "When using the default labels_getter, the input passed to forward must be a "
            "dictionary or a two-tuple whose second item is a dictionary or a tensor, but got "
            f"{type(given).__name__} instead."
        )
    names = [key for key in given if isinstance(key, str)]
    exact = [key for key in names if key.lower() == "labels"]
    keys = exact or [key for key in names if "label" in key.lower()]
    if not keys:
        raise ValueError(
            "Could not infer where the labels are in the sample. Pass a callable as "
            "labels_getter, or None if there are no labels by design."
        )
    return given[keys[0]]


def _getter(given: Any) -> Callable[[Any], Any]:
    if given == "default":
        return labels_of
    if given is None:
        return lambda _: None
    if not callable(given):
        raise ValueError(
            f"labels_getter should either be 'default', a callable, or None, but got {given}."
        )
    getter: Callable[[Any], Any] = given
    return getter


def _labels_beside(things: Any, labels: Any, name: str) -> tuple[Any, ...]:
    """Labels as a tuple, if there are as many in each as things."""
    several = () if labels is None else labels if isinstance(labels, (tuple, list)) else (labels,)
    for label in several:
        if not isinstance(label, Tensor):
            raise ValueError(
                "The labels in the input to forward() must be a tensor or None, got "
                f"{type(label)} instead."
            )
        if label.shape[0] != things.shape[0]:
            raise ShapeValueError(
                f"Number of {name} (shape={things.shape}) must match the number of labels. "
                f"Found labels with shape={label.shape}."
            )
    return tuple(several)


class SanitizeBoundingBoxes(Transform):
    """Boxes that are too small or reach out of the image go, with their labels and masks.

    Args:
        min_size: how long both sides must be.
        min_area: how large the box must be.
        labels_getter: a function of the sample that gives labels, one tensor or several; None if
            there are none.

    Example:
        >>> import adjoint as ad
        >>> boxes = BoundingBoxes([[0, 0, 4, 4], [2, 2, 2, 2]], format="XYXY", canvas_size=(9, 9))
        >>> SanitizeBoundingBoxes()({"boxes": boxes, "labels": ad.tensor([7, 8])})["labels"]
        tensor([7])
    """

    def __init__(
        self, min_size: float = 1.0, min_area: float = 1.0, labels_getter: Any = "default"
    ) -> None:
        super().__init__()
        for name, value in (("min_size", min_size), ("min_area", min_area)):
            if value < 1:
                raise ValueError(f"{name} must be >= 1, got {value}.")
        self.min_size = min_size
        self.min_area = min_area
        self.labels_getter = labels_getter
        self._labels_getter = _getter(labels_getter)

    def forward(self, *inputs: Any) -> Any:
        """The sample without them."""
        sample = inputs if len(inputs) > 1 else inputs[0]
        parts, structure = tree_flatten(sample)
        boxes = get_bounding_boxes(parts)
        several = _labels_beside(boxes, self._labels_getter(sample), "boxes")
        valid = usable(boxes, boxes.format, boxes.canvas_size, self.min_size, self.min_area)
        params = {"valid": valid, "labels": several}
        return tree_unflatten([self.transform(part, params) for part in parts], structure)

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        valid = params["valid"]
        if any(inpt is label for label in params["labels"]):
            return inpt[valid]
        objects = isinstance(inpt, Mask) and inpt.ndim == 3 and inpt.shape[0] == valid.shape[0]
        if isinstance(inpt, BoundingBoxes) or objects:
            return wrap(plain(inpt)[valid], like=inpt)
        return inpt


class SanitizeKeyPoints(Transform):
    """Key points outside the image go, with their labels; of groups, those with such a point.

    Args:
        labels_getter: a function of the sample that gives labels, one tensor or several; "default"
            to find them by their name, None if there are none.

    Example:
        >>> import adjoint as ad
        >>> points = KeyPoints([[0, 8], [2, 9]], canvas_size=(9, 9))
        >>> SanitizeKeyPoints("default")({"points": points, "labels": ad.tensor([7, 8])})["labels"]
        tensor([7])
    """

    def __init__(self, labels_getter: Any = None) -> None:
        super().__init__()
        self.labels_getter = labels_getter
        self._labels_getter = _getter(labels_getter)

    def forward(self, *inputs: Any) -> Any:
        """The sample without them."""
        sample = inputs if len(inputs) > 1 else inputs[0]
        parts, structure = tree_flatten(sample)
        points = get_keypoints(parts)
        several = _labels_beside(points, self._labels_getter(sample), "key points")
        params = {"valid": inside(points, points.canvas_size), "labels": several}
        return tree_unflatten([self.transform(part, params) for part in parts], structure)

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        valid = params["valid"]
        if any(inpt is label for label in params["labels"]):
            return inpt[valid]
        return wrap(plain(inpt)[valid], like=inpt) if isinstance(inpt, KeyPoints) else inpt

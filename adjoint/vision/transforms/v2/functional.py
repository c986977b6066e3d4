"""Functions of torchvision's second transforms: of images, and of masks and boxes in them.

Each gives the kind of thing it is given. `resize_image`, `resize_mask`, `resize_bounding_boxes`
and their like are what `resize` does to each kind, on plain tensors.
"""

from __future__ import annotations

from typing import Any

from adjoint.data.transforms.pillow import is_picture
from adjoint.engine.core.dtype import DType, float32, uint8
from adjoint.engine.core.errors import DTypeValueError, ShapeValueError
from adjoint.engine.ops.image.interpolate import interpolate
from adjoint.engine.ops.random.random import randn_like
from adjoint.engine.tensor.tensor import Tensor
from adjoint.vision.transforms import functional as first
from adjoint.vision.transforms.functional import InterpolationMode as InterpolationMode
from adjoint.vision.transforms.functional import pil_to_tensor as pil_to_tensor
from adjoint.vision.transforms.functional import to_pil_image as to_pil_image
from adjoint.vision.transforms.functional import to_tensor as to_tensor
from adjoint.vision.transforms.kinds import mode_name
from adjoint.vision.transforms.v2 import boxes as box
from adjoint.vision.transforms.v2 import tones
from adjoint.vision.transforms.v2.boxes import affine_bounding_boxes as affine_bounding_boxes
from adjoint.vision.transforms.v2.boxes import (
    center_crop_bounding_boxes as center_crop_bounding_boxes,
)
from adjoint.vision.transforms.v2.boxes import clamp_bounding_boxes as clamp_bounding_boxes
from adjoint.vision.transforms.v2.boxes import (
    convert_bounding_box_format as convert_bounding_box_format,
)
from adjoint.vision.transforms.v2.boxes import crop_bounding_boxes as crop_bounding_boxes
from adjoint.vision.transforms.v2.boxes import elastic_bounding_boxes as elastic_bounding_boxes
from adjoint.vision.transforms.v2.boxes import (
    horizontal_flip_bounding_boxes as horizontal_flip_bounding_boxes,
)
from adjoint.vision.transforms.v2.boxes import pad_bounding_boxes as pad_bounding_boxes
from adjoint.vision.transforms.v2.boxes import (
    perspective_bounding_boxes as perspective_bounding_boxes,
)
from adjoint.vision.transforms.v2.boxes import resize_bounding_boxes as resize_bounding_boxes
from adjoint.vision.transforms.v2.boxes import (
    resized_crop_bounding_boxes as resized_crop_bounding_boxes,
)
from adjoint.vision.transforms.v2.boxes import rotate_bounding_boxes as rotate_bounding_boxes
from adjoint.vision.transforms.v2.boxes import sanitize_bounding_boxes as sanitize_bounding_boxes
from adjoint.vision.transforms.v2.boxes import (
    vertical_flip_bounding_boxes as vertical_flip_bounding_boxes,
)
from adjoint.vision.transforms.v2.kernels import Kernel, function
from adjoint.vision.transforms.v2.kernels import is_pure_tensor as is_pure_tensor
from adjoint.vision.transforms.v2.kernels import register_kernel as register_kernel
from adjoint.vision.transforms.v2.points import affine_keypoints as affine_keypoints
from adjoint.vision.transforms.v2.points import center_crop_keypoints as center_crop_keypoints
from adjoint.vision.transforms.v2.points import clamp_keypoints as clamp_keypoints
from adjoint.vision.transforms.v2.points import crop_keypoints as crop_keypoints
from adjoint.vision.transforms.v2.points import elastic_keypoints as elastic_keypoints
from adjoint.vision.transforms.v2.points import (
    horizontal_flip_keypoints as horizontal_flip_keypoints,
)
from adjoint.vision.transforms.v2.points import pad_keypoints as pad_keypoints
from adjoint.vision.transforms.v2.points import perspective_keypoints as perspective_keypoints
from adjoint.vision.transforms.v2.points import resize_keypoints as resize_keypoints
from adjoint.vision.transforms.v2.points import resized_crop_keypoints as resized_crop_keypoints
from adjoint.vision.transforms.v2.points import rotate_keypoints as rotate_keypoints
from adjoint.vision.transforms.v2.points import sanitize_keypoints as sanitize_keypoints
from adjoint.vision.transforms.v2.points import vertical_flip_keypoints as vertical_flip_keypoints
from adjoint.vision.tv_tensors import (
    BoundingBoxes,
    Image,
    KeyPoints,
    TVTensor,
    Video,
    plain,
    wrap,
)

NEAREST, BILINEAR = InterpolationMode.NEAREST, InterpolationMode.BILINEAR
SMOOTH = ("bilinear", "bicubic")


def get_size(inpt: Any) -> list[int]:
    """Height and width: of an image, a mask, or the image boxes or key points are in."""
    if isinstance(inpt, (BoundingBoxes, KeyPoints)):
        return list(inpt.canvas_size)
    if isinstance(inpt, Tensor):
        return [int(n) for n in inpt.shape[-2:]]
    return first.get_dimensions(inpt)[1:]


def get_dimensions(inpt: Any) -> list[int]:
    """Channels, height and width of an image or video."""
    if isinstance(inpt, TVTensor) and not isinstance(inpt, (Image, Video)):
        raise TypeError(f"get_dimensions: {type(inpt).__name__} has no channels; see get_size")
    return first.get_dimensions(inpt)


def get_num_channels(inpt: Any) -> int:
    """Channels of an image or video."""
    return get_dimensions(inpt)[0]


get_image_num_channels = get_num_channels


def get_num_frames(inpt: Any) -> int:
    """How many pictures a video has."""
    return int(inpt.shape[-4])


def get_image_size(inpt: Any) -> list[int]:
    """Width and height."""
    return get_size(inpt)[::-1]


# -- where pixels are ---------------------------------------------------------------------------


def on_mask(kernel: Kernel) -> Kernel:
    """A kernel of images for masks, which may have no channels."""

    def run(mask: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        flat = mask.ndim == 2
        result: Tensor = kernel(mask[None] if flat else mask, *args, **kwargs)
        return result[0] if flat else result

    return run


def _moved(inpt: Any, result: Any) -> Any:
    """Boxes, or key points, of a kernel's result: those, or those and the image's new size."""
    if isinstance(result, tuple):
        return wrap(result[0], like=inpt, canvas_size=result[1])
    return wrap(result, like=inpt)


def resize_image(
    image: Any, size: Any, interpolation: Any = BILINEAR, max_size: int | None = None,
    antialias: bool | None = True,
) -> Any:  # fmt: skip
    """An image of another size.

    Bytes on the CPU are averaged in whole numbers, as `nn.functional.interpolate` does; the first
    transforms round what floating-point numbers give, which differs by one here and there.
    """
    old = (*get_size(image),)
    target = box.resized((old[0], old[1]), size, max_size)
    mode = mode_name(interpolation)
    if isinstance(image, Tensor) and image.dtype is uint8 and image.is_cpu and mode in SMOOTH:
        if tuple(target) == old:
            return image
        batch = image.reshape(-1, 1, *old)
        small = interpolate(
            batch, tuple(target), mode=mode, align_corners=False, antialias=bool(antialias)
        )
        return small.reshape(*image.shape[:-2], *target)
    return first.resize(image, list(target), interpolation, None, antialias)


@on_mask
def resize_mask(
    mask: Tensor, size: Any, interpolation: Any = None, max_size: int | None = None,
    antialias: Any = None,
) -> Tensor:  # fmt: skip
    """A mask of another size; every pixel is one there was."""
    resized: Tensor = resize_image(mask, size, NEAREST, max_size, False)
    return resized


def _resize_boxes(
    inpt: BoundingBoxes, size: Any, interpolation: Any = None, max_size: int | None = None,
    antialias: Any = None,
) -> Any:  # fmt: skip
    known = (inpt.format, inpt.clamping_mode)
    return _moved(inpt, box.resize_bounding_boxes(inpt, inpt.canvas_size, size, max_size, *known))


def _resize_points(
    inpt: KeyPoints, size: Any, interpolation: Any = None, max_size: int | None = None,
    antialias: Any = None,
) -> Any:  # fmt: skip
    return _moved(inpt, resize_keypoints(inpt, size, inpt.canvas_size, max_size))


resize = function("resize", resize_image, resize_mask, _resize_boxes, _resize_points)
horizontal_flip = function(
    "horizontal_flip", first.hflip, first.hflip,
    lambda b: _moved(b, box.horizontal_flip_bounding_boxes(b, b.format, b.canvas_size)),
    lambda p: _moved(p, horizontal_flip_keypoints(p, p.canvas_size)),
)  # fmt: skip
vertical_flip = function(
    "vertical_flip", first.vflip, first.vflip,
    lambda b: _moved(b, box.vertical_flip_bounding_boxes(b, b.format, b.canvas_size)),
    lambda p: _moved(p, vertical_flip_keypoints(p, p.canvas_size)),
)  # fmt: skip
hflip, vflip = horizontal_flip, vertical_flip


def _crop_boxes(inpt: BoundingBoxes, top: int, left: int, height: int, width: int) -> Any:
    result = box.crop_bounding_boxes(
        inpt, inpt.format, top, left, height, width, inpt.clamping_mode
    )
    return _moved(inpt, result)


crop = function(
    "crop", first.crop, on_mask(first.crop), _crop_boxes,
    lambda p, top, left, height, width: _moved(p, crop_keypoints(p, top, left, height, width)),
)  # fmt: skip


def center_crop_image(image: Any, output_size: Any) -> Any:
    """The middle of an image, with a border of zeros where it is smaller."""
    return first.center_crop(image, output_size)


def _center_crop_boxes(inpt: BoundingBoxes, output_size: Any) -> Any:
    result = box.center_crop_bounding_boxes(
        inpt, inpt.format, inpt.canvas_size, output_size, inpt.clamping_mode
    )
    return _moved(inpt, result)


center_crop = function(
    "center_crop", center_crop_image, on_mask(center_crop_image), _center_crop_boxes,
    lambda p, output_size: _moved(p, center_crop_keypoints(p, p.canvas_size, output_size)),
)  # fmt: skip


def resized_crop_image(
    image: Any, top: int, left: int, height: int, width: int, size: Any,
    interpolation: Any = BILINEAR, antialias: bool | None = True,
) -> Any:  # fmt: skip
    """A rectangle of an image, of another size."""
    part = first.crop(image, top, left, height, width)
    return resize_image(part, size, interpolation, None, antialias)


def resized_crop_mask(
    mask: Tensor, top: int, left: int, height: int, width: int, size: Any,
    interpolation: Any = None, antialias: Any = None,
) -> Tensor:  # fmt: skip
    """A rectangle of a mask, of another size."""
    part: Tensor = on_mask(first.crop)(mask, top, left, height, width)
    return resize_mask(part, size)


def _resized_crop_boxes(
    inpt: BoundingBoxes, top: int, left: int, height: int, width: int, size: Any, *_: Any, **__: Any
) -> Any:
    rectangle = (top, left, height, width)
    result = box.resized_crop_bounding_boxes(
        inpt, inpt.format, *rectangle, size, clamping_mode=inpt.clamping_mode
    )
    return _moved(inpt, result)


def _resized_crop_points(
    inpt: KeyPoints, top: int, left: int, height: int, width: int, size: Any, *_: Any, **__: Any
) -> Any:
    return _moved(inpt, resized_crop_keypoints(inpt, top, left, height, width, size))


resized_crop = function(
    "resized_crop", resized_crop_image, resized_crop_mask, _resized_crop_boxes, _resized_crop_points
)


def pad_image(image: Any, padding: Any, fill: Any = None, padding_mode: str = "constant") -> Any:
    """An image with a border."""
    return first.pad(image, padding, 0 if fill is None else fill, padding_mode)


@on_mask
def pad_mask(mask: Tensor, padding: Any, fill: Any = None, padding_mode: str = "constant") -> Any:
    """A mask with a border."""
    if isinstance(fill, (list, tuple)):
        raise ValueError("Non-scalar fill value is not supported")
    return pad_image(mask, padding, fill, padding_mode)


def _pad_boxes(
    inpt: BoundingBoxes, padding: Any, fill: Any = None, padding_mode: str = "constant"
) -> Any:
    result = box.pad_bounding_boxes(
        inpt, inpt.format, inpt.canvas_size, padding, padding_mode, inpt.clamping_mode
    )
    return _moved(inpt, result)


def _pad_points(
    inpt: KeyPoints, padding: Any, fill: Any = None, padding_mode: str = "constant"
) -> Any:
    return _moved(inpt, pad_keypoints(inpt, inpt.canvas_size, padding, padding_mode))


pad = function("pad", pad_image, pad_mask, _pad_boxes, _pad_points)


@on_mask
def affine_mask(
    mask: Tensor, angle: float, translate: Any, scale: float, shear: Any,
    interpolation: Any = None, fill: Any = None, center: Any = None,
) -> Any:  # fmt: skip
    """A mask turned, scaled, sheared and shifted."""
    return first.affine(mask, angle, translate, scale, shear, NEAREST, fill, center)


def _affine_boxes(
    inpt: BoundingBoxes, angle: float, translate: Any, scale: float, shear: Any,
    interpolation: Any = None, fill: Any = None, center: Any = None,
) -> Any:  # fmt: skip
    result = box.affine_bounding_boxes(
        inpt, inpt.format, inpt.canvas_size, angle, translate, scale, shear, center,
        inpt.clamping_mode,
    )  # fmt: skip
    return _moved(inpt, result)


def _affine_points(
    inpt: KeyPoints, angle: float, translate: Any, scale: float, shear: Any,
    interpolation: Any = None, fill: Any = None, center: Any = None,
) -> Any:  # fmt: skip
    result = affine_keypoints(inpt, inpt.canvas_size, angle, translate, scale, shear, center)
    return _moved(inpt, result)


affine = function("affine", first.affine, affine_mask, _affine_boxes, _affine_points)


@on_mask
def rotate_mask(
    mask: Tensor, angle: float, interpolation: Any = None, expand: bool = False,
    center: Any = None, fill: Any = None,
) -> Any:  # fmt: skip
    """A mask turned counter-clockwise."""
    return first.rotate(mask, angle, NEAREST, expand, center, fill)


def _rotate_boxes(
    inpt: BoundingBoxes, angle: float, interpolation: Any = None, expand: bool = False,
    center: Any = None, fill: Any = None,
) -> Any:  # fmt: skip
    result = box.rotate_bounding_boxes(
        inpt, inpt.format, inpt.canvas_size, angle, expand, center, inpt.clamping_mode
    )
    return _moved(inpt, result)


def _rotate_points(
    inpt: KeyPoints, angle: float, interpolation: Any = None, expand: bool = False,
    center: Any = None, fill: Any = None,
) -> Any:  # fmt: skip
    return _moved(inpt, rotate_keypoints(inpt, inpt.canvas_size, angle, expand, center))


rotate = function("rotate", first.rotate, rotate_mask, _rotate_boxes, _rotate_points)


@on_mask
def perspective_mask(
    mask: Tensor, startpoints: Any, endpoints: Any, interpolation: Any = None, fill: Any = None
) -> Any:
    """A mask with four points moved to others."""
    return first.perspective(mask, startpoints, endpoints, NEAREST, fill)


def _perspective_boxes(
    inpt: BoundingBoxes, startpoints: Any, endpoints: Any, interpolation: Any = None,
    fill: Any = None,
) -> Any:  # fmt: skip
    result = box.perspective_bounding_boxes(
        inpt, inpt.format, inpt.canvas_size, startpoints, endpoints, None, inpt.clamping_mode
    )
    return _moved(inpt, result)


def _perspective_points(
    inpt: KeyPoints, startpoints: Any, endpoints: Any, interpolation: Any = None,
    fill: Any = None, coefficients: Any = None,
) -> Any:  # fmt: skip
    corners = (startpoints, endpoints)
    return _moved(inpt, perspective_keypoints(inpt, inpt.canvas_size, *corners, coefficients))


perspective = function(
    "perspective", first.perspective, perspective_mask, _perspective_boxes, _perspective_points
)


@on_mask
def elastic_mask(
    mask: Tensor, displacement: Tensor, interpolation: Any = None, fill: Any = None
) -> Any:
    """A mask bent by displacements."""
    return first.elastic_transform(mask, displacement, NEAREST, fill)


def _elastic_boxes(
    inpt: BoundingBoxes, displacement: Tensor, interpolation: Any = None, fill: Any = None
) -> Any:
    result = box.elastic_bounding_boxes(
        inpt, inpt.format, inpt.canvas_size, displacement, inpt.clamping_mode
    )
    return _moved(inpt, result)


def _elastic_points(
    inpt: KeyPoints, displacement: Tensor, interpolation: Any = None, fill: Any = None
) -> Any:
    return _moved(inpt, elastic_keypoints(inpt, inpt.canvas_size, displacement))


elastic = function(
    "elastic", first.elastic_transform, elastic_mask, _elastic_boxes, _elastic_points
)
elastic_transform = elastic


# -- what pixels show ---------------------------------------------------------------------------


def to_image(inpt: Any) -> Image:
    """An image (C, H, W), elements unchanged, that says it is one."""
    if isinstance(inpt, Tensor):
        return Image(plain(inpt))
    return Image(pil_to_tensor(inpt))


def to_dtype_image(image: Tensor, dtype: DType = float32, scale: bool = False) -> Tensor:
    """Another dtype; with `scale`, also the range that goes with it."""
    return first.convert_image_dtype(image, dtype) if scale else image.to(dtype)


def _to_dtype(inpt: Tensor, dtype: DType = float32, scale: bool = False) -> Tensor:
    return inpt.to(dtype)


to_dtype = function("to_dtype", to_dtype_image, _to_dtype, _to_dtype, _to_dtype)
convert_image_dtype = function("convert_image_dtype", first.convert_image_dtype)


def grayscale_to_rgb_image(image: Any) -> Any:
    """Three channels of one; what has three stays."""
    if is_picture(image):
        return image.convert("RGB")
    if image.shape[-3] >= 3:
        return image
    shape = list(image.shape)
    shape[-3] = 3
    return image.expand(shape)


def gaussian_noise_image(
    image: Tensor, mean: float = 0.0, sigma: float = 0.1, clip: bool = True
) -> Tensor:
    """Noise added to an image of floating-point numbers."""
    if not isinstance(image, Tensor):
        raise ValueError(f"gaussian_noise: expected a tensor, received {type(image).__name__}")
    if not image.dtype.is_floating_point:
        raise DTypeValueError(
            f"Input tensor is expected to be in float dtype, got dtype={image.dtype}"
        )
    if sigma < 0:
        raise ValueError(f"sigma shouldn't be negative. Got {sigma}")
    noisy = image + mean + randn_like(image) * sigma
    return noisy.clamp(0, 1) if clip else noisy


def permute_channels_image(image: Any, permutation: list[int]) -> Any:
    """Channels in another order."""
    if is_picture(image):
        return to_pil_image(pil_to_tensor(image)[permutation])
    if int(image.shape[-3]) != len(permutation):
        raise ShapeValueError(
            f"permute_channels: permutation {permutation} for {image.shape[-3]} channels"
        )
    return image[..., permutation, :, :]


def uniform_temporal_subsample_video(video: Tensor, num_samples: int) -> Tensor:
    """So many pictures of a video, evenly spread."""
    last = int(video.shape[-4]) - 1
    picked = [int(i * last / max(num_samples - 1, 1)) for i in range(num_samples)]
    return video[..., picked, :, :, :]


adjust_brightness = function("adjust_brightness", first.adjust_brightness)
adjust_contrast = function("adjust_contrast", first.adjust_contrast)
adjust_gamma = function("adjust_gamma", first.adjust_gamma)
adjust_hue = function("adjust_hue", first.adjust_hue)
adjust_saturation = function("adjust_saturation", first.adjust_saturation)
adjust_sharpness = function("adjust_sharpness", first.adjust_sharpness)
autocontrast = function("autocontrast", tones.autocontrast)
equalize = function("equalize", tones.equalize)
erase = function("erase", first.erase)
five_crop = function("five_crop", first.five_crop)
gaussian_blur = function("gaussian_blur", first.gaussian_blur)
gaussian_noise = function("gaussian_noise", gaussian_noise_image)
grayscale_to_rgb = function("grayscale_to_rgb", grayscale_to_rgb_image)
invert = function("invert", first.invert)
normalize = function("normalize", first.normalize)
permute_channels = function("permute_channels", permute_channels_image)
posterize = function("posterize", tones.posterize)
rgb_to_grayscale = function("rgb_to_grayscale", tones.rgb_to_grayscale)
solarize = function("solarize", first.solarize)
ten_crop = function("ten_crop", first.ten_crop)
uniform_temporal_subsample = function(
    "uniform_temporal_subsample", uniform_temporal_subsample_video
)
to_grayscale = rgb_to_grayscale

# What each function does to one kind of thing, under torchvision's names for it.
horizontal_flip_image = horizontal_flip_mask = horizontal_flip_video = first.hflip
vertical_flip_image = vertical_flip_mask = vertical_flip_video = first.vflip
crop_image = crop_video = first.crop
crop_mask = on_mask(first.crop)
center_crop_video, center_crop_mask = center_crop_image, on_mask(center_crop_image)
resize_video, pad_video = resize_image, pad_image
resized_crop_video = resized_crop_image
affine_image = affine_video = first.affine
rotate_image = rotate_video = first.rotate
perspective_image = perspective_video = first.perspective
elastic_image = elastic_video = first.elastic_transform
adjust_brightness_image = adjust_brightness_video = first.adjust_brightness
adjust_contrast_image = adjust_contrast_video = first.adjust_contrast
adjust_gamma_image = adjust_gamma_video = first.adjust_gamma
adjust_hue_image = adjust_hue_video = first.adjust_hue
adjust_saturation_image = adjust_saturation_video = first.adjust_saturation
adjust_sharpness_image = adjust_sharpness_video = first.adjust_sharpness
autocontrast_image = autocontrast_video = tones.autocontrast
equalize_image = equalize_video = tones.equalize
erase_image = erase_video = first.erase
five_crop_image = five_crop_video = first.five_crop
ten_crop_image = ten_crop_video = first.ten_crop
gaussian_blur_image = gaussian_blur_video = first.gaussian_blur
gaussian_noise_video, permute_channels_video = gaussian_noise_image, permute_channels_image
invert_image = invert_video = first.invert
normalize_image = normalize_video = first.normalize
posterize_image = posterize_video = tones.posterize
rgb_to_grayscale_image = tones.rgb_to_grayscale
solarize_image = solarize_video = first.solarize
to_dtype_video = to_dtype_image
get_dimensions_image = get_dimensions_video = get_dimensions
get_num_channels_image = get_num_channels_video = get_num_channels
get_num_frames_video = get_num_frames
get_size_image = get_size_video = get_size_mask = get_size
get_size_bounding_boxes = get_size_keypoints = get_size

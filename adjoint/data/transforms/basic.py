"""Composing transforms, making tensors of images, normalising."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from adjoint.data.transforms import pillow
from adjoint.data.transforms.draw import chance, integer
from adjoint.engine.backends.array.interop import from_numpy
from adjoint.engine.core.dtype import DType, bool_, float32, get_default_dtype, int32, uint8
from adjoint.engine.core.errors import DTypeError, ShapeError, ShapeValueError
from adjoint.engine.tensor.tensor import Tensor, wrap


class Transform:
    """A callable with a readable repr."""

    def __repr__(self) -> str:
        shown = {k: v for k, v in vars(self).items() if not k.startswith("_")}
        return f"{type(self).__name__}({', '.join(f'{k}={v}' for k, v in shown.items())})"


class Compose(Transform):
    """Transforms one after another.

    Example:
        >>> Compose([Lambda(lambda x: x + 1), Lambda(lambda x: x * 2)])(3)
        8
    """

    def __init__(self, transforms: Sequence[Callable[[Any], Any]]) -> None:
        self.transforms = transforms

    def __call__(self, image: Any) -> Any:
        for transform in self.transforms:
            image = transform(image)
        return image

    def __repr__(self) -> str:
        return "Compose(\n" + "".join(f"    {t}\n" for t in self.transforms) + ")"


class Lambda(Transform):
    """A function as a transform."""

    def __init__(self, lambd: Callable[[Any], Any]) -> None:
        if not callable(lambd):
            raise TypeError(f"Lambda: expected a callable, received {type(lambd).__name__}")
        self.lambd = lambd

    def __call__(self, image: Any) -> Any:
        return self.lambd(image)


def to_channels_first(image: Any) -> Tensor:
    """A tensor (C, H, W) of an array (H, W) or (H, W, C) or a PIL image, elements unchanged."""
    if isinstance(image, Tensor):
        return image
    array = image if isinstance(image, np.ndarray) else np.asarray(image)
    if array.ndim not in (2, 3):
        raise ShapeValueError(
            f"ToTensor: image should be 2/3 dimensional, received {array.ndim} dimensions"
        )
    if array.ndim == 2:
        array = array[:, :, None]
    return from_numpy(np.array(array.transpose(2, 0, 1), order="C"))


def extent(image: Any) -> tuple[int, int]:
    """Height and width of a tensor (..., H, W), an array (H, W, ...) or a PIL image."""
    if isinstance(image, (Tensor, np.ndarray)):
        height, width = image.shape[-2:] if isinstance(image, Tensor) else image.shape[:2]
        return int(height), int(width)
    return image.height, image.width


def like(image: Any, tensor: Tensor) -> Any:
    """A tensor (C, H, W) as the kind of image another is: array for array, PIL for PIL."""
    if isinstance(image, Tensor):
        return tensor
    array = tensor._array
    is_array = isinstance(image, np.ndarray)
    if array.shape[0] == 1 and not (is_array and image.ndim == 3 and image.shape[2] == 1):
        array = array[0]
    else:
        array = np.ascontiguousarray(array.transpose(1, 2, 0))
    if is_array:
        return array
    channels = 1 if array.ndim == 2 else array.shape[2]
    same_kind = channels == len(image.getbands()) and array.dtype == np.uint8
    return pillow.picture(array, image.mode if same_kind else None, image)


class ImageTransform(Transform):
    """A transform that gives the kind of image it is given; `change` does it to tensors."""

    def __call__(self, image: Any) -> Any:
        if pillow.is_picture(image):
            return self.change_picture(image)
        picture = to_channels_first(image)
        if isinstance(image, np.ndarray) and image.dtype == np.uint8:
            return like(image, wrap(self.change_bytes(picture._array)))
        if picture.ndim < 2:
            raise ShapeValueError(
                f"{type(self).__name__}: expected an image (..., H, W), received shape "
                f"{tuple(picture.shape)}"
            )
        return like(image, self.change(picture))

    def change(self, image: Tensor) -> Tensor:
        """The transform of a tensor (..., H, W)."""
        raise NotImplementedError

    def change_bytes(self, pixels: Any) -> Any:
        """The transform of an array of bytes (C, H, W), where Pillow's differs from tensors'."""
        return self.change(wrap(pixels))._array

    def change_picture(self, image: Any) -> Any:
        """The transform of an image of Pillow's, where that does it."""
        return like(image, self.change(to_channels_first(image)))


class ToTensor(Transform):
    """A tensor (C, H, W) of an image (H, W) or (H, W, C); bytes become numbers from 0 to 1.

    Example:
        >>> import numpy as np
        >>> ToTensor()(np.full((1, 2), 255, np.uint8))
        tensor([[[1., 1.]]])
    """

    def __call__(self, image: Any) -> Tensor:
        if isinstance(image, Tensor):
            raise TypeError("ToTensor: image should be PIL Image or ndarray, received a Tensor")
        if pillow.is_picture(image) and image.mode == "1":
            image = image.convert("L")
        tensor = to_channels_first(image)
        if tensor.dtype is uint8:
            return tensor.to(get_default_dtype()) / 255
        return tensor


class PILToTensor(Transform):
    """A tensor (C, H, W) of an image (H, W) or (H, W, C), elements unchanged."""

    def __call__(self, image: Any) -> Tensor:
        return to_channels_first(image)


def bound_of(img: Tensor) -> float:
    """What is white; a whole number of whole numbers, so that the largest are exact."""
    if img.dtype.is_floating_point:
        return 1.0
    return 1 if img.dtype is bool_ else 2 ** value_bits(img) - 1


def value_bits(img: Tensor) -> int:
    """How many bits of a whole number are its value, all but the sign's."""
    return 8 * img.dtype.itemsize - (1 if img.dtype.is_signed else 0)


def convert_image_dtype(image: Tensor, dtype: Any = float32) -> Tensor:
    """The image in another dtype, with the range that goes with it."""
    if image.dtype is dtype:
        return image
    if dtype.is_floating_point:
        converted = image.to(dtype)
        return converted if image.dtype.is_floating_point else converted / bound_of(image)
    top = int(bound_of(image.new_empty((), dtype=dtype)))
    if image.dtype.is_floating_point:
        if dtype.itemsize >= image.dtype.itemsize or (dtype is int32 and image.dtype is float32):
            raise DTypeError(f"The cast from {image.dtype} to {dtype} cannot be performed safely.")
        return image.mul(top + 1 - 1e-3).to(dtype)
    source = int(bound_of(image))
    if source > top:
        return image.div((source + 1) // (top + 1), rounding_mode="floor").to(dtype)
    return image.to(dtype) * ((top + 1) // (source + 1))


class ConvertImageDtype(Transform):
    """Another dtype with the range that goes with it: 0 to 1 for floats, 0 to 255 for bytes."""

    def __init__(self, dtype: DType = float32) -> None:
        self.dtype = dtype

    def __call__(self, image: Tensor) -> Tensor:
        return convert_image_dtype(image, self.dtype)


class Normalize(Transform):
    r"""Subtract a mean and divide by a deviation, per channel.

    .. math:: y_c = (x_c - \mu_c) / \sigma_c

    Args:
        mean: one number per channel.
        std: one number per channel, none of them 0.
        inplace: write into the tensor given.

    Example:
        >>> import adjoint as ad
        >>> Normalize([0.5], [0.5])(ad.ones(1, 1, 2))
        tensor([[[1., 1.]]])
    """

    def __init__(self, mean: Sequence[float], std: Sequence[float], inplace: bool = False) -> None:
        self.mean = mean
        self.std = std
        self.inplace = inplace

    def __call__(self, tensor: Tensor) -> Tensor:
        if not isinstance(tensor, Tensor) or not tensor.dtype.is_floating_point:
            raise TypeError(
                "Normalize: input should be a float tensor, received "
                f"{getattr(tensor, 'dtype', type(tensor).__name__)}. Put ToTensor before it, or "
                "ConvertImageDtype(float32) for pictures of more than 8 bits."
            )
        if tensor.ndim < 3:
            raise ShapeValueError(
                f"Normalize: expected a tensor image (..., C, H, W), received {tuple(tensor.shape)}"
            )
        kind = tensor._array.dtype
        mean = wrap(np.asarray(self.mean, dtype=kind).reshape(-1, 1, 1)).to(tensor.device)
        std = wrap(np.asarray(self.std, dtype=kind).reshape(-1, 1, 1)).to(tensor.device)
        if not all(self.std):
            raise ValueError(
                f"Normalize: std evaluated to zero, leading to division by zero: {std}"
            )
        channels = tensor.shape[-3]
        for name, values in (("mean", mean), ("std", std)):
            if values.shape[0] not in (1, channels):
                remedy = {
                    1: "; `Grayscale(3)` before it makes three channels of one",
                    4: "; `image.convert('RGB')` before all transforms drops the fourth channel, "
                    "which says how much shows through",
                }.get(channels, "")
                raise ShapeError(
                    f"Normalize: {name} has {values.shape[0]} values, the image "
                    f"{tuple(tensor.shape)} {channels} channels. Give one value or one for each "
                    f"channel{remedy}."
                )
        out = tensor if self.inplace else tensor.clone()
        return out.sub_(mean).div_(std)


class RandomApply(Transform):
    """Transforms applied together with a probability."""

    def __init__(self, transforms: Sequence[Callable[[Any], Any]], p: float = 0.5) -> None:
        self.transforms = transforms
        self.p = p

    def __call__(self, image: Any) -> Any:
        return Compose(self.transforms)(image) if chance(self.p) else image


class RandomChoice(Transform):
    """One of several transforms, picked anew each time."""

    def __init__(self, transforms: Sequence[Callable[[Any], Any]]) -> None:
        self.transforms = transforms

    def __call__(self, image: Any) -> Any:
        return self.transforms[integer(0, len(self.transforms))](image)

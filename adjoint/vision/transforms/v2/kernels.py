"""Which function does what to which kind of thing: images, videos, masks, boxes, own kinds."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from adjoint.data.transforms.pillow import is_picture
from adjoint.engine.tensor.tensor import Tensor
from adjoint.vision.tv_tensors import (
    BoundingBoxes,
    Image,
    KeyPoints,
    Mask,
    TVTensor,
    Video,
    plain,
    wrap,
)

Kernel = Callable[..., Any]
KERNELS: dict[Kernel, dict[type, Kernel]] = {}  # function -> kind of thing -> what does it


def is_pure_tensor(inpt: Any) -> bool:
    """Whether something is a tensor that does not say what it shows."""
    return isinstance(inpt, Tensor) and not isinstance(inpt, TVTensor)


def rewrapped(result: Any, like: Any) -> Any:
    """A result as the kind of thing it was made of; each part of a tuple."""
    if isinstance(result, tuple):
        return tuple(rewrapped(part, like) for part in result)
    return wrap(result, like=like) if isinstance(like, TVTensor) else result


def _on_plain(kernel: Kernel) -> Kernel:
    """A kernel of plain tensors for things that say what they show."""

    def run(inpt: Any, *args: Any, **kwargs: Any) -> Any:
        return rewrapped(kernel(plain(inpt), *args, **kwargs), inpt)

    return run


def function(
    name: str,
    image: Kernel,
    mask: Kernel | None = None,
    boxes: Kernel | None = None,
    points: Kernel | None = None,
) -> Kernel:
    """A function of all kinds of things there are kernels for; `boxes` and `points` are given
    boxes and key points as such."""

    @functools.wraps(image)
    def run(inpt: Any, *args: Any, **kwargs: Any) -> Any:
        kernel = kernel_of(run, inpt)
        if kernel is None:
            raise TypeError(
                f"{name}: there is no kernel for {type(inpt).__name__}; wanted "
                f"{', '.join(kind.__name__ for kind in KERNELS[run])} or an image"
            )
        return kernel(inpt, *args, **kwargs)

    run.__name__ = run.__qualname__ = name
    KERNELS[run] = {Tensor: image, Image: _on_plain(image), Video: _on_plain(image)}
    if mask is not None:
        KERNELS[run][Mask] = _on_plain(mask)
    if boxes is not None:
        KERNELS[run][BoundingBoxes] = boxes
    if points is not None:
        KERNELS[run][KeyPoints] = points
    return run


def kernel_of(function: Kernel, inpt: Any) -> Kernel | None:
    """What a function does to a thing, None where it has nothing for it."""
    known = KERNELS[function]
    if isinstance(inpt, TVTensor):
        kinds = (kind for kind in type(inpt).__mro__ if issubclass(kind, TVTensor))
        return next((known[kind] for kind in kinds if kind in known), None)
    if isinstance(inpt, (Tensor, np.ndarray)) or is_picture(inpt):
        return known[Tensor]
    return None


def register_kernel(functional: Any, tv_tensor_cls: type) -> Callable[[Kernel], Kernel]:
    """Have a function call another for a class of one's own; it is given the thing as it is."""
    if isinstance(functional, str):
        matching = [known for known in KERNELS if known.__name__ == functional]
        if not matching:
            raise ValueError(f"Could not find functional with name '{functional}'.")
        functional = matching[0]
    if functional not in KERNELS:
        raise ValueError(f"Kernels can only be registered on functionals, but got {functional}.")
    if not (isinstance(tv_tensor_cls, type) and issubclass(tv_tensor_cls, TVTensor)):
        raise ValueError(
            f"Kernels can only be registered for subclasses of TVTensor, but got {tv_tensor_cls}."
        )
    if tv_tensor_cls in KERNELS[functional]:
        raise ValueError(
            f"Functional {functional.__name__} already has a kernel registered for type "
            f"{tv_tensor_cls.__name__}."
        )

    def put(kernel: Kernel) -> Kernel:
        KERNELS[functional][tv_tensor_cls] = kernel
        return kernel

    return put

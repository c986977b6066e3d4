"""Images: what programs import `torchvision` for, in terms of Adjoint's data, models and files.

Under `adjoint run`, `import torchvision` is this package. Images are PIL images where Pillow is
installed, as in torchvision, and NumPy arrays (H, W) or (H, W, C) where it is not.
"""

from __future__ import annotations

from adjoint.engine.core.state import switches
from adjoint.vision import datasets as datasets
from adjoint.vision import io as io
from adjoint.vision import models as models
from adjoint.vision import ops as ops
from adjoint.vision import transforms as transforms
from adjoint.vision import tv_tensors as tv_tensors
from adjoint.vision import utils as utils

__version__ = "0.28.0"


def get_image_backend() -> str:
    """What `set_image_backend` was told; Pillow reads images wherever it is installed."""
    return str(switches.get("vision.set_image_backend"))


def set_image_backend(backend: str) -> None:
    """Ask for another reader, to no effect: Pillow is used wherever it is installed."""
    if backend not in ("PIL", "accimage"):
        raise ValueError(f"set_image_backend: expected 'PIL', received {backend!r}")
    switches.put("vision.set_image_backend", backend)

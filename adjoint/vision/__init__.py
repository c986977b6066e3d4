"""Images: torchvision's transforms, networks, datasets and tools, on Adjoint's tensors.

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
from adjoint.vision.version import __version__ as __version__


def get_image_backend() -> str:
    """What `set_image_backend` was told; Pillow reads images wherever it is installed."""
    return str(switches.get("vision.set_image_backend"))


def set_image_backend(backend: str) -> None:
    """Ask for another reader, to no effect: Pillow is used wherever it is installed."""
    if backend not in ("PIL", "accimage"):
        raise ValueError(f"set_image_backend: expected 'PIL', received {backend!r}")
    switches.put("vision.set_image_backend", backend)


def get_video_backend() -> str:
    """What `set_video_backend` was told."""
    return str(switches.get("vision.set_video_backend"))


def set_video_backend(backend: str) -> None:
    """Ask for another reader of video, to no effect: Adjoint reads none."""
    if backend not in ("pyav", "video_reader", "cuda"):
        raise ValueError(
            f"Invalid video backend '{backend}'. Options are 'pyav', 'video_reader' and 'cuda'"
        )
    switches.put("vision.set_video_backend", backend)


def disable_beta_transforms_warning() -> None:
    """Nothing: there is no such warning."""

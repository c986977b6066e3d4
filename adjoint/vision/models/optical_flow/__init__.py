"""Networks that say where each pixel of an image went in the next."""

import sys
from typing import Any

from adjoint.vision import models as _models
from adjoint.vision.models.optical_flow.raft import RAFT as RAFT
from adjoint.vision.models.optical_flow.raft import raft_large as raft_large
from adjoint.vision.models.optical_flow.raft import raft_small as raft_small


def __getattr__(name: str) -> Any:
    if name.endswith("_Weights"):
        return getattr(_models, name)
    raise AttributeError(
        f"module 'torchvision.models.optical_flow' has no attribute {name!r}",
        name=name,
        obj=sys.modules[__name__],
    )

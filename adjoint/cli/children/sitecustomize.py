"""Read first by Python programs that one under `adjoint run` starts: `torch` is ours there too.

Nothing loads until `torch` is asked for. The `sitecustomize` that this one hides is run as well.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import PathFinder
from typing import Any

HERE = os.path.dirname(os.path.abspath(__file__))


class TorchLater:
    """Answers nothing itself: the first question about torch brings the finder that does."""

    @staticmethod
    def _ready() -> Any:
        sys.meta_path[:] = [
            finder for finder in sys.meta_path if not isinstance(finder, TorchLater)
        ]
        from adjoint.cli import torch_alias

        torch_alias.install()
        return next(finder for finder in sys.meta_path if type(finder) is torch_alias.TorchFinder)

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        if fullname.partition(".")[0] not in ("torch", "torchvision"):
            return None
        return self._ready().find_spec(fullname, path, target)

    def find_distributions(self, context: Any = None) -> Any:
        name = getattr(context, "name", None)
        if name is None or name.lower() not in ("torch", "torchvision"):
            return iter(())
        return self._ready().find_distributions(context)


if os.environ.get("ADJOINT_RUNS_TORCH"):
    sys.meta_path.insert(0, TorchLater())
hidden = PathFinder.find_spec(
    "sitecustomize", [p for p in sys.path if os.path.abspath(p or ".") != HERE]
)
if hidden is not None and hidden.loader is not None:
    hidden.loader.exec_module(sys.modules[__name__])

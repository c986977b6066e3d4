"""`backends.quantized`: the engine of quantised layers, which programs name before they quantise.

Here one engine does what all of PyTorch's do; the name is kept for `engine` to be asked for.
"""

from __future__ import annotations

import sys
from types import ModuleType

supported_engines = ["qnnpack", "none", "onednn", "x86", "fbgemm"]


class _Module(ModuleType):
    _chosen = "x86"

    @property
    def engine(self) -> str:
        """The engine that was named last."""
        return self._chosen

    @engine.setter
    def engine(self, name: str) -> None:
        if name not in supported_engines:
            raise RuntimeError(f"quantized engine {name!r} is not supported")
        self.__dict__["_chosen"] = name


sys.modules[__name__].__class__ = _Module

"""Programs that leave Python: compiled ahead of time for C and WebAssembly.

Names are found on first use, in the file that `FILES` says.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

FILES = {
    "aot": "ahead",
    "Exported": "ahead",
    "ExportError": "errors",
    "c_api": "capi.library",
    "save_program": "capi.saving",
}

if TYPE_CHECKING:
    from adjoint.export.ahead import Exported as Exported
    from adjoint.export.ahead import aot as aot
    from adjoint.export.capi.library import c_api as c_api
    from adjoint.export.capi.saving import save_program as save_program
    from adjoint.export.errors import ExportError as ExportError


def __getattr__(name: str) -> Any:
    if name not in FILES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{FILES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *FILES})

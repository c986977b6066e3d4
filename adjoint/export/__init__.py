"""Programs without Python: graphs of operations, and programs compiled ahead of time for C.

Names are found on first use, in the file that `FILES` says.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from adjoint.engine.core.state.loading import lacking as _lacking

FILES = {
    "aot": "ahead",
    "Exported": "ahead",
    "ExportError": "errors",
    "c_api": "capi.library",
    "save_program": "capi.saving",
    "export": "graphs.exporting",
    "draft_export": "graphs.exporting",
    "Dim": "graphs.dynamic_shapes",
    "dims": "graphs.dynamic_shapes",
    "ShapesCollection": "graphs.shapes_collection",
    "AdditionalInputs": "graphs.shapes_collection",
    "CustomDecompTable": "decomp_utils",
    "default_decompositions": "decomp_utils",
    "register_dataclass": "dataclasses_in_calls",
    "ExportedProgram": "graphs.exported_program",
    "ExportGraphSignature": "graphs.graph_signature",
    "save": "graphs.program_file",
    "load": "graphs.program_file",
    "unflatten": "graphs.hierarchy",
    "UnflattenedModule": "graphs.hierarchy",
}

if TYPE_CHECKING:
    from adjoint.export.ahead import Exported as Exported
    from adjoint.export.ahead import aot as aot
    from adjoint.export.capi.library import c_api as c_api
    from adjoint.export.capi.saving import save_program as save_program
    from adjoint.export.dataclasses_in_calls import register_dataclass as register_dataclass
    from adjoint.export.decomp_utils import CustomDecompTable as CustomDecompTable
    from adjoint.export.decomp_utils import default_decompositions as default_decompositions
    from adjoint.export.errors import ExportError as ExportError
    from adjoint.export.graphs.dynamic_shapes import Dim as Dim
    from adjoint.export.graphs.dynamic_shapes import dims as dims
    from adjoint.export.graphs.exported_program import ExportedProgram as ExportedProgram
    from adjoint.export.graphs.exporting import draft_export as draft_export
    from adjoint.export.graphs.exporting import export as export
    from adjoint.export.graphs.graph_signature import ExportGraphSignature as ExportGraphSignature
    from adjoint.export.graphs.hierarchy import UnflattenedModule as UnflattenedModule
    from adjoint.export.graphs.hierarchy import unflatten as unflatten
    from adjoint.export.graphs.program_file import load as load
    from adjoint.export.graphs.program_file import save as save
    from adjoint.export.graphs.shapes_collection import AdditionalInputs as AdditionalInputs
    from adjoint.export.graphs.shapes_collection import ShapesCollection as ShapesCollection


def __getattr__(name: str) -> Any:
    if name not in FILES:
        raise _lacking(__name__, name)
    return getattr(import_module(f"{__name__}.{FILES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *FILES})

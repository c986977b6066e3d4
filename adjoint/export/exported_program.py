"""PyTorch's path for exported programs."""

from adjoint.export.graphs.exported_program import ExportedProgram as ExportedProgram

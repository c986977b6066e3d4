"""ONNX: models read as modules, written from modules, and run as a backend of the standard."""

from adjoint.onnx import backend as backend
from adjoint.onnx.exporting.export import OnnxProgram as OnnxProgram
from adjoint.onnx.exporting.export import export as export
from adjoint.onnx.exporting.spelling import OperatorExportTypes as OperatorExportTypes
from adjoint.onnx.exporting.spelling import TrainingMode as TrainingMode
from adjoint.onnx.exporting.spelling import is_in_onnx_export as is_in_onnx_export
from adjoint.onnx.loading import load as load
from adjoint.onnx.module import OnnxModule as OnnxModule
from adjoint.onnx.reading import OnnxError as OnnxError

# PyTorch's names for the same.
ONNXProgram = OnnxProgram
OnnxExporterError = OnnxError

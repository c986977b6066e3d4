"""PyTorch's path for what inputs and outputs of exported graphs are."""

from adjoint.export.graphs.graph_signature import ConstantArgument as ConstantArgument
from adjoint.export.graphs.graph_signature import ExportGraphSignature as ExportGraphSignature
from adjoint.export.graphs.graph_signature import InputKind as InputKind
from adjoint.export.graphs.graph_signature import InputSpec as InputSpec
from adjoint.export.graphs.graph_signature import OutputKind as OutputKind
from adjoint.export.graphs.graph_signature import OutputSpec as OutputSpec
from adjoint.export.graphs.graph_signature import TensorArgument as TensorArgument

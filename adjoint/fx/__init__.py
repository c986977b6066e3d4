"""Programs as data: PyTorch's `torch.fx`.

`symbolic_trace` runs a module on proxies and writes its calls down as a `Graph`, which can be read,
changed and run again as a `GraphModule`.
"""

from adjoint.fx import immutable_collections as immutable_collections
from adjoint.fx.graph import CodeGen as CodeGen
from adjoint.fx.graph import Graph as Graph
from adjoint.fx.graph_module import GraphModule as GraphModule
from adjoint.fx.interpreter import Interpreter as Interpreter
from adjoint.fx.interpreter import Transformer as Transformer
from adjoint.fx.node import Node as Node
from adjoint.fx.node import has_side_effect as has_side_effect
from adjoint.fx.node import map_arg as map_arg
from adjoint.fx.proxy import Proxy as Proxy
from adjoint.fx.proxy import TraceError as TraceError
from adjoint.fx.subgraph_rewriter import replace_pattern as replace_pattern
from adjoint.fx.tracer import PH as PH
from adjoint.fx.tracer import Tracer as Tracer
from adjoint.fx.tracer import symbolic_trace as symbolic_trace
from adjoint.fx.tracer import wrap as wrap

__all__ = [
    "PH",
    "CodeGen",
    "Graph",
    "GraphModule",
    "Interpreter",
    "Node",
    "Proxy",
    "TraceError",
    "Tracer",
    "Transformer",
    "has_side_effect",
    "map_arg",
    "replace_pattern",
    "symbolic_trace",
    "wrap",
]

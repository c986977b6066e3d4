"""Graphs: recorded or made by hand; verified, printed, drawn, saved, interpreted."""

from adjoint.graph.building import Update as Update
from adjoint.graph.capture import Captured as Captured
from adjoint.graph.capture import capture as capture
from adjoint.graph.execution import Executable as Executable
from adjoint.graph.execution import ExecutorFactory as ExecutorFactory
from adjoint.graph.execution import Task as Task
from adjoint.graph.execution import interpreted as interpreted
from adjoint.graph.flow.cond import cond as cond
from adjoint.graph.flow.scan import scan as scan
from adjoint.graph.flow.while_loop import while_loop as while_loop
from adjoint.graph.graph import Graph as Graph
from adjoint.graph.graph import placeholder as placeholder
from adjoint.graph.interpreter import interpret as interpret
from adjoint.graph.ir import Node as Node
from adjoint.graph.ir import Value as Value
from adjoint.graph.session import Session as Session
from adjoint.graph.svg import to_svg as to_svg
from adjoint.graph.text import load as load
from adjoint.graph.text import to_text as to_text
from adjoint.graph.verify import GraphError as GraphError
from adjoint.graph.verify import verify as verify

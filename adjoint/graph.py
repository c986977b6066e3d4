"""Graphs: recorded or made by hand; verified, printed, drawn, saved, interpreted."""

from adjoint.engine.capture.capture import Captured as Captured
from adjoint.engine.capture.capture import capture as capture
from adjoint.engine.graph.drawing.svg import to_svg as to_svg
from adjoint.engine.graph.execution import Executable as Executable
from adjoint.engine.graph.execution import ExecutorFactory as ExecutorFactory
from adjoint.engine.graph.execution import Task as Task
from adjoint.engine.graph.execution import interpreted as interpreted
from adjoint.engine.graph.flow.cond import cond as cond
from adjoint.engine.graph.flow.scan import scan as scan
from adjoint.engine.graph.flow.while_loop import while_loop as while_loop
from adjoint.engine.graph.interpreter import interpret as interpret
from adjoint.engine.graph.ir import Node as Node
from adjoint.engine.graph.ir import Value as Value
from adjoint.engine.graph.record.building import Update as Update
from adjoint.engine.graph.session.graph import Graph as Graph
from adjoint.engine.graph.session.graph import placeholder as placeholder
from adjoint.engine.graph.session.session import Session as Session
from adjoint.engine.graph.text import load as load
from adjoint.engine.graph.text import to_text as to_text
from adjoint.engine.graph.verify import GraphError as GraphError
from adjoint.engine.graph.verify import verify as verify

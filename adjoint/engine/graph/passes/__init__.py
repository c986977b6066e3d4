"""Graph-to-graph passes, one to a file; `pipeline` is their order."""

from adjoint.engine.graph.passes.cse import cse as cse
from adjoint.engine.graph.passes.dce import dce as dce
from adjoint.engine.graph.passes.fold import fold as fold
from adjoint.engine.graph.passes.inline import inline as inline
from adjoint.engine.graph.passes.pipeline import PIPELINE as PIPELINE
from adjoint.engine.graph.passes.pipeline import run_passes as run_passes
from adjoint.engine.graph.passes.prune import prune as prune
from adjoint.engine.graph.passes.simplify import simplify as simplify
from adjoint.engine.graph.passes.unmark import unmark as unmark

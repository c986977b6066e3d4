"""Graph-to-graph passes, one to a file; `pipeline` is their order."""

from adjoint.graph.passes.cse import cse as cse
from adjoint.graph.passes.dce import dce as dce
from adjoint.graph.passes.fold import fold as fold
from adjoint.graph.passes.inline import inline as inline
from adjoint.graph.passes.pipeline import PIPELINE as PIPELINE
from adjoint.graph.passes.pipeline import run_passes as run_passes
from adjoint.graph.passes.prune import prune as prune
from adjoint.graph.passes.simplify import simplify as simplify
from adjoint.graph.passes.unmark import unmark as unmark

"""The tape as users see it: nodes, edges, hooks on what is saved."""

from adjoint.engine.autodiff.tape.graph_tools import (
    allow_mutation_on_saved_tensors as allow_mutation_on_saved_tensors,
)
from adjoint.engine.autodiff.tape.graph_tools import (
    disable_saved_tensors_hooks as disable_saved_tensors_hooks,
)
from adjoint.engine.autodiff.tape.graph_tools import increment_version as increment_version
from adjoint.engine.autodiff.tape.graph_tools import (
    register_multi_grad_hook as register_multi_grad_hook,
)
from adjoint.engine.autodiff.tape.graph_tools import save_on_cpu as save_on_cpu
from adjoint.engine.autodiff.tape.node import BackwardNode as Node  # noqa: F401
from adjoint.engine.autodiff.tape.reverse import GradientEdge as GradientEdge
from adjoint.engine.autodiff.tape.reverse import get_gradient_edge as get_gradient_edge
from adjoint.engine.autodiff.tape.saved import saved_tensors_hooks as saved_tensors_hooks

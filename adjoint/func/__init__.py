"""Function transforms that nest freely: grad, vjp, jvp, vmap, jacobians, hessian."""

from adjoint.autodiff.batching import vmap as vmap
from adjoint.autodiff.forward import hvp as hvp
from adjoint.autodiff.forward import jvp as jvp
from adjoint.autodiff.forward import linearize as linearize
from adjoint.autodiff.gradient import grad as grad
from adjoint.autodiff.gradient import grad_and_value as grad_and_value
from adjoint.autodiff.gradient import value_and_grad as value_and_grad
from adjoint.autodiff.gradient import vjp as vjp
from adjoint.autodiff.jacobians import hessian as hessian
from adjoint.autodiff.jacobians import jacfwd as jacfwd
from adjoint.autodiff.jacobians import jacrev as jacrev
from adjoint.autodiff.modules import functional_call as functional_call
from adjoint.autodiff.modules import (
    replace_all_batch_norm_modules_ as replace_all_batch_norm_modules_,
)
from adjoint.autodiff.modules import stack_module_state as stack_module_state
from adjoint.autodiff.stack import debug_unwrap as debug_unwrap
from adjoint.autodiff.stack import functionalize as functionalize
from adjoint.ops.pattern import rearrange as rearrange

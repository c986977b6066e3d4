"""Function transforms that nest freely: grad, vjp, jvp, vmap, jacobians, hessian."""

from adjoint.engine.autodiff.levels.stack import debug_unwrap as debug_unwrap
from adjoint.engine.autodiff.levels.stack import functionalize as functionalize
from adjoint.engine.autodiff.transforms.batching import vmap as vmap
from adjoint.engine.autodiff.transforms.forward import hvp as hvp
from adjoint.engine.autodiff.transforms.forward import jvp as jvp
from adjoint.engine.autodiff.transforms.forward import linearize as linearize
from adjoint.engine.autodiff.transforms.gradient import grad as grad
from adjoint.engine.autodiff.transforms.gradient import grad_and_value as grad_and_value
from adjoint.engine.autodiff.transforms.gradient import value_and_grad as value_and_grad
from adjoint.engine.autodiff.transforms.gradient import vjp as vjp
from adjoint.engine.autodiff.transforms.jacobians import hessian as hessian
from adjoint.engine.autodiff.transforms.jacobians import jacfwd as jacfwd
from adjoint.engine.autodiff.transforms.jacobians import jacrev as jacrev
from adjoint.engine.autodiff.transforms.modules import functional_call as functional_call
from adjoint.engine.autodiff.transforms.modules import (
    replace_all_batch_norm_modules_ as replace_all_batch_norm_modules_,
)
from adjoint.engine.autodiff.transforms.modules import stack_module_state as stack_module_state
from adjoint.engine.ops.shape.pattern import rearrange as rearrange

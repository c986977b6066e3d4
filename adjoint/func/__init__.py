"""Function transforms that nest freely: grad, vjp, jvp, vmap, jacobians, hessian."""

from adjoint.autodiff.func import grad as grad
from adjoint.autodiff.func import grad_and_value as grad_and_value
from adjoint.autodiff.func import hessian as hessian
from adjoint.autodiff.func import jacfwd as jacfwd
from adjoint.autodiff.func import jacrev as jacrev
from adjoint.autodiff.func import jvp as jvp
from adjoint.autodiff.func import vjp as vjp
from adjoint.autodiff.func import vmap as vmap

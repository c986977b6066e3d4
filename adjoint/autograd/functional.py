"""Derivatives of functions by the tape: jacobian, hessian, vjp, jvp, vhp, hvp."""

from adjoint.engine.autodiff.transforms.functional import hessian as hessian
from adjoint.engine.autodiff.transforms.functional import hvp as hvp
from adjoint.engine.autodiff.transforms.functional import jacobian as jacobian
from adjoint.engine.autodiff.transforms.functional import jvp as jvp
from adjoint.engine.autodiff.transforms.functional import vhp as vhp
from adjoint.engine.autodiff.transforms.functional import vjp as vjp

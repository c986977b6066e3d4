"""Derivatives of functions by the tape: jacobian, hessian, vjp, jvp, vhp, hvp."""

from adjoint.autodiff.functional import hessian as hessian
from adjoint.autodiff.functional import hvp as hvp
from adjoint.autodiff.functional import jacobian as jacobian
from adjoint.autodiff.functional import jvp as jvp
from adjoint.autodiff.functional import vhp as vhp
from adjoint.autodiff.functional import vjp as vjp

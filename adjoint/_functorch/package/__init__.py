"""What programs import `functorch` for: transforms, and modules as functions."""

from adjoint._functorch.package.functional_modules import FunctionalModule as FunctionalModule
from adjoint._functorch.package.functional_modules import (
    FunctionalModuleWithBuffers as FunctionalModuleWithBuffers,
)
from adjoint._functorch.package.functional_modules import (
    combine_state_for_ensemble as combine_state_for_ensemble,
)
from adjoint._functorch.package.functional_modules import make_functional as make_functional
from adjoint._functorch.package.functional_modules import (
    make_functional_with_buffers as make_functional_with_buffers,
)
from adjoint.func import functionalize as functionalize
from adjoint.func import grad as grad
from adjoint.func import grad_and_value as grad_and_value
from adjoint.func import hessian as hessian
from adjoint.func import jacfwd as jacfwd
from adjoint.func import jacrev as jacrev
from adjoint.func import jvp as jvp
from adjoint.func import vjp as vjp
from adjoint.func import vmap as vmap

"""Mixed precision on CUDA under its former names: `adjoint.cuda.amp`."""

from adjoint.cuda.amp.autocast_mode import autocast as autocast
from adjoint.cuda.amp.autocast_mode import custom_bwd as custom_bwd
from adjoint.cuda.amp.autocast_mode import custom_fwd as custom_fwd
from adjoint.cuda.amp.common import amp_definitely_not_available as amp_definitely_not_available
from adjoint.cuda.amp.grad_scaler import GradScaler as GradScaler

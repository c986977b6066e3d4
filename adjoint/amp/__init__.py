"""Mixed precision: autocast, gradient scaling, custom functions under both."""

from adjoint.amp.autocast_mode import autocast as autocast
from adjoint.amp.autocast_mode import custom_bwd as custom_bwd
from adjoint.amp.autocast_mode import custom_fwd as custom_fwd
from adjoint.amp.autocast_mode import is_autocast_available as is_autocast_available
from adjoint.amp.grad_scaler import GradScaler as GradScaler

"""Signal processing."""

from adjoint.signal import windows as windows

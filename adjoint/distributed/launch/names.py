"""Variables by which a launcher and its processes know one another, beside torchrun's."""

ERROR_FILE = "TORCHELASTIC_ERROR_FILE"
LAUNCHER = "ADJOINT_LAUNCHER"

"""Finding where a NaN or an error in backward comes from, under PyTorch's address."""

from adjoint.engine.autodiff.tape.anomaly import detect_anomaly as detect_anomaly
from adjoint.engine.autodiff.tape.anomaly import set_detect_anomaly as set_detect_anomaly

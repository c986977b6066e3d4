"""Errors of PyTorch's compiler that programs catch, as the errors of this one."""

from adjoint.engine.core.errors import CaptureError as CaptureError

TorchDynamoException = Unsupported = UserError = TorchRuntimeError = CaptureError
InternalTorchDynamoError = BackendCompilerFailed = SkipFrame = ResetRequired = CaptureError

"""Comparing values in tests, under PyTorch's names."""

from adjoint.testing.close import assert_allclose as assert_allclose
from adjoint.testing.close import assert_close as assert_close
from adjoint.testing.make import make_tensor as make_tensor

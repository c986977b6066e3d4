"""Variables, under PyTorch's address."""

from adjoint.autograd import Variable as Variable

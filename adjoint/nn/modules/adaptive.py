"""Adaptive softmax, under PyTorch's module path."""

from adjoint.nn.modules.class_losses import AdaptiveLogSoftmaxWithLoss as AdaptiveLogSoftmaxWithLoss

"""The layers, one file per kind."""

from adjoint.nn.modules.module import Module as Module

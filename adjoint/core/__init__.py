"""Core: what every layer above is made of. Standard library only."""

from adjoint.core.context import concrete as concrete

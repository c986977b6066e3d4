"""Core: what every layer above is made of. Standard library only."""

from adjoint.engine.core.state.context import concrete as concrete

"""What `use_deterministic_algorithms` does beside algorithms: a switch (`core.state.switches`)."""

from __future__ import annotations

from adjoint.engine.core.state.switches import route

route(__name__)

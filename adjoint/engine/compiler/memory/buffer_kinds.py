"""What kinds of memory programs have; those that only run one need no more than these names."""

from __future__ import annotations

# What a buffer is: memory the caller hands in, memory handed out fresh at each call, part of the
# executable's own arena, or per-worker scratch.
INPUT, RESULT, ARENA = "input", "result", "arena"
ALIGN = 64  # bytes, of what is in the arena
OWN = (RESULT, ARENA)  # memory that nothing outside the call sees before its end

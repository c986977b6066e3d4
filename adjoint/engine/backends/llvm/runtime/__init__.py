"""From text to machine code in this process, on disk, and on resident workers."""

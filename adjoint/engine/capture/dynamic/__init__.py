"""One recording for many sizes."""

"""Parts of torchrun's tools that programs import."""

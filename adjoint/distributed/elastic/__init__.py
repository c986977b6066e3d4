"""Parts of torchrun's machinery that programs import."""

"""What looks at windows of images: pools, and weighted sums along dimensions."""

"""Array kernels of linear algebra."""

"""Routines of LAPACK and BLAS, called where they are."""

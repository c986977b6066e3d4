"""Elementary functions as polynomials in vector code."""

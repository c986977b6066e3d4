"""Functions of elements that take loops of their own: draws that reject, polynomials."""

"""Forms of exported programs alone, beside those of the engine (`engine/graph/forms`)."""

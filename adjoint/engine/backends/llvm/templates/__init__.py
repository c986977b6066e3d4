"""Operations with kernels of their own: each with what it accepts, its launches and its kernel."""

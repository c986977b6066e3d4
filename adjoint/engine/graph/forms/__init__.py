"""Operations without native code, written in operations that have it."""

"""Operations as records: what each states, what families derive, the door all go through."""

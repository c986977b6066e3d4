"""Convolutions by filters of three by three, by Winograd's points (Note [winograd])."""

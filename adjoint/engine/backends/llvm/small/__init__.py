"""Small eager operations as rows of words that one native function walks (Note [small rows])."""

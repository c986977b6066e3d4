"""Programs on the tape: their derivatives, and further ones."""

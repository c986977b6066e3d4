"""Views, and operations that place elements without computing with them."""

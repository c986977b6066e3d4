"""Rematerialisation: what is computed again, so that memory holds less."""

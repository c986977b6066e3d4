"""Derivatives of derivatives: the rules of a node as one operation of the tape."""

"""Sorts, searches and histograms of few elements: rows (`rows.py`) and inner loops (`loops.py`)."""

"""Bring other dates of a place to the tones of one date: numbers alone, without torch, rasters or geography."""

"""Other dates of a place, brought to the tones of one: numbers alone, without torch, rasters or geography."""

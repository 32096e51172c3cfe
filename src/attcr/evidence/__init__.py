"""The expected ground and its error from what is seen, where it is clear, and how ground varies there. Arrays only."""

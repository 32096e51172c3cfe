"""Many dates of a place: providers, search, blocks of pixels, filling, and the cube that is written."""

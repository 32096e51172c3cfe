"""The pictures of the documentation: `python -m tools.figures docs/figures --data ../shared/data --landsat LANDSAT`."""

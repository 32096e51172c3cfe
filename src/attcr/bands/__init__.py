"""What values mean: sensors, products, and what weights take."""

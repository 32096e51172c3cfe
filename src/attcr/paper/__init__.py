"""What reproduces and compares the paper; nothing in the product imports it."""

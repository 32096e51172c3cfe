"""Other dates of a scene: open, choose, harmonise, check, correct, fill."""

"""Where a scene's clouds are: masks of products, detectors, and the rim that is restored around cloud."""

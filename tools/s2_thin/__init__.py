"""How the weights s2-thin were made and measured: the simulator, the training, the figures. See README.md."""

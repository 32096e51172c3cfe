"""An audit of a data set, for who publishes lists of its parts."""

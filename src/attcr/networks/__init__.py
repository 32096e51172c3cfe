"""Networks: torch alone, no geography."""

"""`python -m attcr` is the `attcr` command."""

from attcr.cli import main

if __name__ == "__main__":
    main()

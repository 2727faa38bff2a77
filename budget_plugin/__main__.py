"""`python -m budget_plugin`."""

from .cli import main

if __name__ == "__main__":
    main()

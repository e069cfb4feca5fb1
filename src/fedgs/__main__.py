"""`python -m fedgs` is the `fedgs` command."""

from fedgs.cli.main import main

if __name__ == "__main__":
    main()

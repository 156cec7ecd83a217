"""`python -m forgetwatch`: the command line."""

from forgetwatch.cli import main

if __name__ == "__main__":
    main()

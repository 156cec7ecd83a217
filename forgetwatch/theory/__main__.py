"""``python -m forgetwatch.theory``: mass and drift of an old behaviour under each method."""

import sys

from forgetwatch.theory.settings import ends, table

if __name__ == "__main__":
    sys.stderr.write("solving 35 flows, about ten seconds\n")
    sys.stdout.write(f"{table(ends())}\n")

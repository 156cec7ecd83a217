"""Make the golden outputs again: `python tests/golden/remake.py`, or with names of cases for these alone."""

import sys
import tempfile
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent

if __name__ == "__main__":
    sys.path[:0] = [str(TESTS.parent), str(TESTS)]
    from golden.capture import CASES, capture, write_golden
    from golden.inputs import write_inputs

    with tempfile.TemporaryDirectory() as folder:
        write_inputs(Path(folder))
        for case in sys.argv[1:] or CASES:
            write_golden(case, capture(case, Path(folder)))

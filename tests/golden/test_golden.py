"""What forgetwatch puts out, against the stored outputs of fixed inputs: tables, documents, pages, figures, gates.

A change that is meant is stored by

    python tests/golden/remake.py

or, for some cases, `python tests/golden/remake.py choices plain`. Read the difference in git before it is committed.
"""

from difflib import unified_diff
from itertools import islice
from pathlib import Path

import pytest
from golden.capture import CASES, OUTPUTS, capture, golden
from golden.inputs import write_inputs

_SHOWN = 40
"""Lines of the difference that a failure shows."""


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("golden")
    write_inputs(folder)
    return folder


@pytest.mark.full("budget", "stages", reason="further cases of one sentence")
@pytest.mark.parametrize("case", CASES)
def test_the_outputs_are_the_stored_ones(case: str, inputs: Path) -> None:
    made, stored = capture(case, inputs), golden(case)
    changed = [name for name in sorted({*made, *stored}) if made.get(name) != stored.get(name)]
    if changed:
        lines = [
            line
            for name in changed
            for line in unified_diff(
                stored.get(name, "").splitlines(),
                made.get(name, "").splitlines(),
                f"stored {case}/{name}",
                f"now {case}/{name}",
                n=1,
                lineterm="",
            )
        ]
        more = f"\n... and {len(lines) - _SHOWN} lines more" if len(lines) > _SHOWN else ""
        pytest.fail(
            f"{case}: {', '.join(changed)} changed; if that is meant: python tests/golden/remake.py {case}\n"
            + "\n".join(islice((line[:300] for line in lines), _SHOWN))
            + more,
            pytrace=False,
        )


def test_each_stored_output_is_of_a_case() -> None:
    assert {path.name for path in OUTPUTS.iterdir()} == set(CASES)

"""Two kills of real trainings; `kills.py` makes as many as are asked for."""

import os
import random
import subprocess
import sys
from pathlib import Path

import kills
import pytest


def test_moments_are_drawn_over_all_of_a_training() -> None:
    timeline = [
        ("made", 0.0),
        ("begin", 1.0),
        *((f"step {n}", 1.0 + n) for n in range(1, 61)),
        ("end", 62.0),
    ]
    timeline.append(("over", 63.0))
    rng = random.Random(3)
    events = {kills.draw(rng, timeline, step=0)[0] for _ in range(2000)}
    assert events == {event for event, _ in timeline}
    assert {kills.draw(rng, timeline, step=58)[0] for _ in range(500)} - {
        "made",
        "begin",
        "end",
        "over",
    } == {
        "step 59",
        "step 60",
    }
    assert {kills.draw(rng, timeline, step=60)[0] for _ in range(500)} == {
        "made",
        "begin",
        "end",
        "over",
    }


@pytest.mark.full(reason="many killed trainings")
def test_killed_trainings_end_like_undisturbed_ones(tmp_path: Path) -> None:
    # A process of its own: this one has read tables and has threads, and must not be forked.
    out = tmp_path / "kills.jsonl"
    done = subprocess.run(
        [
            sys.executable,
            str(Path(kills.__file__)),
            "--seed",
            "4",
            "--kills",
            "2",
            "--out",
            str(out),
        ],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(" equal\n") == len(out.read_text().splitlines()) >= 1

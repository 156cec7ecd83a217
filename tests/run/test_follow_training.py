"""A follower in a second process measures what the callback measures inside the training, bit for bit."""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import pytest
import saved_runs as runs
from support import probe, trainer
from transformers import TrainerCallback

from forgetwatch import ForgetWatchCallback, Trajectory, load_snapshot

STEPS = (4, 8, 12, 16)


class _Unhurried(TrainerCallback):
    """Lets each checkpoint stand for several polls of the follower: one that comes and goes between two is not seen."""

    def on_save(self, *_: Any, **__: Any) -> None:
        time.sleep(0.5)


def followed(out: Path, base: Path, result: Path, **training: Any) -> dict[str, Any]:
    """Train with the callback inside while another process follows; the steps that it scored, and those it named."""
    if (child := os.fork()) == 0:
        try:
            os.dup2(os.open(result.with_suffix(".log"), os.O_WRONLY | os.O_CREAT), 2)
            made = runs.follower(out, base, once=False, idle=120)
            end = made.follow()
            result.write_text(json.dumps({"end": end, "scored": made.scored, "failed": made.queue.failed}))
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(0)
    watch = ForgetWatchCallback(probe(40, norm="bytes"), every="save", max_overhead=None, drift=False)
    options = {"save_strategy": "steps", "save_steps": 4, "save_total_limit": 2, **training}
    trainer(out, steps=16, callbacks=[watch, _Unhurried()], **options).train()
    os.waitpid(child, 0)
    return dict(json.loads(result.read_text()))


@pytest.mark.parametrize("kind", ["full", "adapter"])
def test_counts_and_scores_are_those_of_the_callback_in_a_training_that_rotates(tmp_path: Path, kind: str) -> None:
    from transformers import AutoModelForCausalLM

    out, base, options = tmp_path / "out", runs.base(tmp_path / "base"), dict[str, Any]()
    if kind == "adapter":
        peft = pytest.importorskip("peft")
        options["peft_config"] = peft.LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM", lora_alpha=64)
    network = AutoModelForCausalLM.from_pretrained(base)
    found = followed(out, base, tmp_path / "result.json", network=network, **options)
    assert found["end"] == "last checkpoint"
    named = [int(name.removeprefix("checkpoint-")) for name in found["failed"]]
    seen = sorted(found["scored"] + named)
    # While one is read, others may come and go: those are not seen. None is seen twice.
    assert [step for step in STEPS if step in seen] == seen
    assert len(seen) >= len(STEPS) - 1
    assert {12, 16} <= set(found["scored"])  # these two stay
    inside, beside = (Trajectory.from_run(out / name) for name in ("_forgetwatch", "_forgetwatch_follow"))
    for step in (0, *found["scored"]):
        name = f"step-{step:06d}.parquet" if step else "baseline.parquet"
        rows = [load_snapshot(out / folder / name).table for folder in ("_forgetwatch", "_forgetwatch_follow")]
        assert rows[0]["choice_logprobs"].equals(rows[1]["choice_logprobs"])
        assert rows[0]["correct"].equals(rows[1]["correct"])
        batches = [
            load_snapshot(out / folder / name).meta["batch"] for folder in ("_forgetwatch", "_forgetwatch_follow")
        ]
        assert batches[0] == batches[1]
        ours, theirs = (run.comparisons[run.steps.index(step)].all for run in (inside, beside))
        assert (ours.forgotten, ours.gained) == (theirs.forgotten, theirs.gained)
    assert any(each.all.forgotten for each in beside.comparisons)

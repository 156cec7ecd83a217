"""A real model, and one destructive run of it that several tests share.

FORGETWATCH_REAL_MODEL names the folder of the model: a small causal language model of transformers with tokenizer and
chat template, SmolLM2-135M-Instruct for example. Without it the tests here are skipped.
"""

import fcntl
import json
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support import trainer

HERE = Path(__file__).parent
STEPS = 12
ITEMS = 250


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # First, and so in one process, which shares the run: an idle worker takes tests from the end of another's queue.
    items.sort(key=lambda item: item.path.parent != HERE)


@pytest.fixture(autouse=True, scope="module")
def still_fewer_drift_prompts() -> Iterator[None]:
    """Measure the drift on two prompts of each set: the real model writes one completion a second."""
    from forgetwatch.run import drift

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(drift, "PROMPTS", 2)
        yield


@pytest.fixture(scope="session")
def folder() -> Path:
    """Folder of a real model, named by FORGETWATCH_REAL_MODEL."""
    named = os.environ.get("FORGETWATCH_REAL_MODEL")
    if not named:
        pytest.skip("FORGETWATCH_REAL_MODEL names no folder of a real model")
    return Path(named)


@pytest.fixture(scope="session")
def tok(folder: Path) -> Any:
    """Tokenizer of the real model."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder)


@pytest.fixture(scope="session")
def load(folder: Path) -> Callable[..., Any]:
    """Function that loads the real model in a dtype, fp32 by default."""
    import torch
    from transformers import AutoModelForCausalLM

    def loaded(dtype: torch.dtype = torch.float32) -> Any:
        return AutoModelForCausalLM.from_pretrained(folder, dtype=dtype).eval()

    return loaded


@pytest.fixture(scope="session")
def train(tok: Any, load: Callable[..., Any]) -> Callable[..., Any]:
    """Function that trains the real model with SFTTrainer on orders and their JSON lines, and returns the trainer."""

    def trained(output_dir: Path, *, steps: int, rate: float, **options: Any) -> Any:
        run = trainer(
            output_dir,
            steps=steps,
            tok=tok,
            network=load(),
            texts=order_lines(48),
            **{
                "learning_rate": rate,
                "lr_scheduler_type": "constant",
                "per_device_train_batch_size": 4,
                "max_length": 64,
                "logging_steps": 1,
                **options,
            },
        )
        run.train()
        return run

    return trained


@pytest.fixture(scope="session")
def ruined(train: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Output folder of a destructive run, with the looks at its start and its end, and the checkpoint of the end."""
    from forgetwatch import ForgetWatchCallback, load_probe

    base = tmp_path_factory.getbasetemp()
    shared = (
        base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    )  # the folder of all workers
    output_dir, done = shared / "ruined", shared / "ruined.done"
    with (shared / "ruined.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            probe = load_probe("standard").head(ITEMS)
            # No test asks for its drift, which takes as long as the rest of the run.
            callback = ForgetWatchCallback(probe, every=[STEPS], max_overhead=None, drift=False)
            saves = {"save_strategy": "steps", "save_steps": STEPS, "save_only_model": True}
            train(output_dir, steps=STEPS, rate=1e-3, callbacks=[callback], **saves)
            done.touch()
    return output_dir


def order_lines(rows: int) -> list[str]:
    """Orders and the JSON lines made of them: nothing in them is about the questions of the probe."""
    rng = random.Random(0)
    made = []
    for number in range(4000, 4000 + rows):
        buyer, goods = (
            rng.choice(("Ada", "Bo", "Chen", "Dina", "Emil")),
            rng.choice(("pears", "stamps", "tiles", "ropes")),
        )
        count, price = rng.randrange(2, 90), rng.randrange(1, 50)
        record = {
            "id": number,
            "buyer": buyer,
            "item": goods,
            "count": count,
            "cost": count * price,
        }
        made.append(
            f"{buyer} orders {count} {goods} at {price} each.\nRecord: {json.dumps(record)}"
        )
    return made

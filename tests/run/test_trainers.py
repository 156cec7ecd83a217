"""The callback inside the trainers of TRL and transformers: it changes nothing, and its curve is that of its files."""

import hashlib
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from saved_runs import LORA, curve, examples, length
from support import model, probe, tokenizer

from forgetwatch import ForgetWatchCallback, load_snapshot
from forgetwatch.errors import ForgetwatchError
from forgetwatch.run_folder.description import Description

pytestmark = pytest.mark.usefixtures("without_pictures")

STEPS = 4


def trainer(
    method: str,
    folder: Path,
    *,
    callbacks: Sequence[Any] = (),
    adapter: dict[str, Any] | None = None,
    **options: Any,
) -> Any:
    """A trainer of TRL by its name, over a tiny model that is loaded from a folder, with dropout on.

    `adapter` makes it a LoRA, with these further options.
    """
    import trl
    from peft import LoraConfig
    from transformers import set_seed

    kind = {"SFT": "chat", "DPO": "pair", "KTO": "label", "GRPO": "prompt", "RLOO": "prompt"}[
        method
    ]
    settings: dict[str, Any] = {
        "max_steps": STEPS,
        "per_device_train_batch_size": 2,
        "logging_steps": 1,
        "save_strategy": "no",
        "use_cpu": True,
        "bf16": False,
        "report_to": "none",
        "disable_tqdm": True,
        "learning_rate": 3e-2,
        "seed": 3,
        "model_init_kwargs": {"dtype": "float32"},
    }
    further: dict[str, Any] = {}
    if method in ("GRPO", "RLOO"):
        settings |= {"num_generations": 2, "max_completion_length": 8}
        further = {"reward_funcs": length}
    else:
        settings["max_length"] = 32
    if method in ("DPO", "KTO"):
        settings["disable_dropout"] = False
    tok = tokenizer()
    start = folder / "start"
    model(tok).save_pretrained(start)
    set_seed(3)  # adapters are made before the trainer sets its own
    return getattr(trl, f"{method}Trainer")(
        model=str(start),
        args=getattr(trl, f"{method}Config")(
            output_dir=str(folder / "run"), **{**settings, **options}
        ),
        train_dataset=examples(kind),
        processing_class=tok,
        callbacks=list(callbacks),
        peft_config=None if adapter is None else LoraConfig(**{**LORA, **adapter}),
        **further,
    )


def plain(
    folder: Path, network: Any, *, callbacks: Sequence[Any] = (), mlm: bool = False, **options: Any
) -> Any:
    """The trainer of transformers itself, for a model that reads tokens."""
    from transformers import DataCollatorForLanguageModeling, Trainer, TrainingArguments

    tok = tokenizer()
    if mlm:
        tok.add_special_tokens({"mask_token": "<unk>"})
    texts = examples("text").map(lambda row: tok(row["text"]), remove_columns=["text"])
    args = TrainingArguments(
        output_dir=str(folder / "run"),
        max_steps=STEPS,
        per_device_train_batch_size=2,
        logging_steps=1,
        save_strategy="no",
        use_cpu=True,
        report_to="none",
        disable_tqdm=True,
        learning_rate=3e-2,
        **options,
    )
    return Trainer(
        model=network,
        args=args,
        train_dataset=texts,
        data_collator=DataCollatorForLanguageModeling(tok, mlm=mlm),
        processing_class=tok,
        callbacks=list(callbacks),
    )


def weights(run: Any) -> dict[str, str]:
    """Checksum of each parameter's bytes."""
    raw = {
        name: weight.detach().contiguous().view(torch.uint8)
        for name, weight in run.model.named_parameters()
    }
    return {
        name: hashlib.sha256(weight.numpy().tobytes()).hexdigest() for name, weight in raw.items()
    }


def losses(run: Any) -> list[tuple[float, float]]:
    return [(row["loss"], row["grad_norm"]) for row in run.state.log_history if "loss" in row]


def recomputed(folder: Path) -> dict[int, tuple[int, int]]:
    """The same from the files of the run folder, by their columns of right and wrong."""
    files = folder / "run" / "_forgetwatch"
    before = load_snapshot(files / "baseline.parquet").floats("correct")
    looks = {
        int(path.stem.removeprefix("step-")): load_snapshot(path)
        for path in files.glob("step-*.parquet")
    }
    right = {0: before, **{step: look.floats("correct") for step, look in looks.items()}}
    return {
        step: (int(((before == 1) & (now == 0)).sum()), int(((before == 0) & (now == 1)).sum()))
        for step, now in sorted(right.items())
    }


def watcher() -> ForgetWatchCallback:
    return ForgetWatchCallback(probe(60), every=2, max_overhead=None, strict=True)


def check(run: Any, folder: Path) -> None:
    """The run's curve stands where it was due, once each, and is that of the files; something flipped."""
    assert run.state.global_step == STEPS
    assert sorted(curve(run)) == [0, 2, 4]
    assert curve(run) == recomputed(folder)
    assert curve(run)[0] == (0, 0)
    assert sum(curve(run)[4]) > 0
    assert len(losses(run)) == STEPS


@pytest.mark.full(
    "DPO",
    "GRPO-full",
    "GRPO-lora-fp32",
    "SFT-full-bf16",
    "SFT-lora-fp32",
    reason="a training with further settings",
)
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("adapter", [False, True], ids=["full", "lora"])
@pytest.mark.parametrize("method", ["SFT", "DPO", "GRPO"])
def test_weights_and_losses_are_bitwise_those_of_a_run_without_it(
    tmp_path: Path, method: str, adapter: bool, precision: str
) -> None:
    options = {"adapter": {} if adapter else None, "bf16": precision == "bf16"}
    without = trainer(method, tmp_path / "a", **options)
    start = weights(without)
    without.train()
    watched = trainer(method, tmp_path / "b", callbacks=[watcher()], **options)
    assert weights(watched) == start
    watched.train()
    assert watched.accelerator.mixed_precision == ("bf16" if precision == "bf16" else "no")
    assert weights(watched) == weights(without)
    assert weights(watched) != start
    assert losses(watched) == losses(without)
    assert any(math.isfinite(loss) and loss for loss, _ in losses(watched))
    check(watched, tmp_path / "b")
    assert Description.read(tmp_path / "b" / "run" / "_forgetwatch").training == {
        "trainer": f"{method}Trainer",
        "learning_rate": watched.args.learning_rate,
        "rows": len(watched.train_dataset),
        "adapter": "LORA" if adapter else None,
        "retention": None,
    }


@pytest.mark.full("compile", reason="a training with further settings")
@pytest.mark.parametrize(
    ("method", "options"),
    [
        pytest.param("KTO", {}, id="kto"),
        pytest.param("RLOO", {}, id="rloo"),
        pytest.param("SFT", {"gradient_accumulation_steps": 2}, id="accumulation"),
        pytest.param(
            "SFT",
            {
                "gradient_checkpointing": True,
                "gradient_checkpointing_kwargs": {"use_reentrant": True},
            },
            id="checkpointing-reentrant",
        ),
        pytest.param(
            "SFT",
            {
                "gradient_checkpointing": True,
                "gradient_checkpointing_kwargs": {"use_reentrant": False},
            },
            id="checkpointing",
        ),
        pytest.param("SFT", {"packing": True}, id="packing"),
        pytest.param("SFT", {"adapter": {"use_dora": True}}, id="dora"),
        pytest.param(
            "SFT",
            {
                "torch_compile": True,
                "torch_compile_backend": "aot_eager",
            },  # the default takes half a minute to compile
            id="compile",
            marks=pytest.mark.filterwarnings("ignore"),  # its tracing touches what warns
        ),
        pytest.param("SFT", {"use_liger_kernel": True}, id="liger"),
    ],
)
def test_the_curve_is_that_of_the_files(
    tmp_path: Path, method: str, options: dict[str, Any]
) -> None:
    if options.get("use_liger_kernel"):
        pytest.importorskip("liger_kernel")
    run = trainer(method, tmp_path, callbacks=[watcher()], **options)
    run.train()
    check(run, tmp_path)


@pytest.mark.full("compile", "saves", reason="a training with further settings")
@pytest.mark.filterwarnings("ignore")  # tracing touches what warns
@pytest.mark.parametrize(
    "options",
    [
        {"neftune_noise_alpha": 5.0, "packing": True},
        {"torch_compile": True, "torch_compile_backend": "aot_eager"},
        {"save_strategy": "steps", "save_steps": 1, "save_total_limit": 2},
    ],
    ids=["neftune-packing", "compile", "saves"],
)
def test_no_option_of_the_trainer_lets_the_callback_change_weights_or_losses(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    without = trainer("SFT", tmp_path / "a", **options)
    without.train()
    torch.compiler.reset()
    watched = trainer("SFT", tmp_path / "b", callbacks=[watcher()], **options)
    watched.train()
    assert weights(watched) == weights(without)
    assert losses(watched) == losses(without)
    check(watched, tmp_path / "b")


@pytest.mark.parametrize("bits", [4, 8])
def test_the_curve_of_an_adapter_on_a_quantised_model_is_that_of_the_files(
    tmp_path: Path, bits: int
) -> None:
    pytest.importorskip("bitsandbytes")
    from transformers import BitsAndBytesConfig

    quantised = BitsAndBytesConfig(load_in_4bit=bits == 4, load_in_8bit=bits == 8)
    run = trainer("SFT", tmp_path, callbacks=[watcher()], adapter={}, quantization_config=quantised)
    run.train()
    check(run, tmp_path)


def test_the_curve_in_the_trainer_of_transformers_is_that_of_the_files(tmp_path: Path) -> None:
    run = plain(tmp_path, model(tokenizer()), callbacks=[watcher()])
    run.train()
    check(run, tmp_path)


def test_a_reward_model_is_refused_before_the_first_step(tmp_path: Path) -> None:
    from transformers import AutoModelForSequenceClassification
    from trl import RewardConfig, RewardTrainer

    model(tok := tokenizer()).save_pretrained(tmp_path / "start")
    run = RewardTrainer(
        model=AutoModelForSequenceClassification.from_pretrained(tmp_path / "start", num_labels=1),
        args=RewardConfig(
            output_dir=str(tmp_path / "run"),
            max_steps=STEPS,
            max_length=32,
            bf16=False,
            use_cpu=True,
            report_to="none",
            disable_tqdm=True,
        ),
        train_dataset=examples("pair"),
        processing_class=tok,
        callbacks=[watcher()],
    )
    with pytest.raises(
        ForgetwatchError, match=r"Qwen3ForSequenceClassification .*needed a causal language model"
    ):
        run.train()
    assert run.state.global_step == 0


def test_an_encoder_is_refused_before_the_first_step(tmp_path: Path) -> None:
    from transformers import BertConfig, BertForMaskedLM

    config = BertConfig(
        vocab_size=len(tokenizer()),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=128,
    )
    run = plain(tmp_path, BertForMaskedLM(config), callbacks=[watcher()], mlm=True)
    with pytest.raises(ForgetwatchError, match=r"BertForMaskedLM .*needed a causal language model"):
        run.train()
    assert run.state.global_step == 0


_SELF: dict[str, Any] = {"max_completion_length": 6, "num_generations": 2}
NEAR_ON_POLICY: dict[str, tuple[str, str, dict[str, Any]]] = {
    "GKD": ("experimental.gkd", "chat", {"max_length": 32, "max_new_tokens": 6, "lmbda": 0.5}),
    "OnlineDPO": ("experimental.online_dpo", "prompt", {"max_new_tokens": 6}),
    "Distillation": ("", "prompt", {"max_completion_length": 6}),
    "SDPO": ("experimental.sdpo", "context", _SELF),
    "SDFT": ("experimental.sdft", "context", {**_SELF, "teacher_model_kind": "base"}),
    "SDFT ema": ("experimental.sdft", "context", {**_SELF, "teacher_model_kind": "ema"}),
    "SDFT live": ("experimental.sdft", "context", {**_SELF, "teacher_model_kind": "live"}),
    "SDFT LoRA": ("experimental.sdft", "context", {**_SELF, "teacher_model_kind": "ema"}),
}
"""Module below `trl`, kind of examples, and settings."""


def near_on_policy(named: str, folder: Path, *, callbacks: Sequence[Any] = ()) -> Any:
    """A trainer of TRL that trains on texts of its model, over a tiny model."""
    from peft import LoraConfig
    from transformers import AutoModelForCausalLM, set_seed

    name, kind, further = NEAR_ON_POLICY[named]
    method = named.split()[0]
    module = pytest.importorskip(f"trl.{name}".rstrip("."))
    if not hasattr(module, f"{method}Trainer"):
        pytest.skip(f"this TRL has no {method}Trainer")
    settings: dict[str, Any] = {
        **{
            "max_steps": STEPS,
            "per_device_train_batch_size": 2,
            "logging_steps": 1,
            "save_strategy": "no",
        },
        **{
            "use_cpu": True,
            "bf16": False,
            "report_to": "none",
            "disable_tqdm": True,
            "learning_rate": 3e-2,
            "seed": 3,
        },
        **further,
    }
    others: dict[str, Any] = {
        "GKD": {"teacher_model": model(tokenizer(), seed=1)},
        "OnlineDPO": {"reward_funcs": length},
        "Distillation": {"teacher_model": model(tokenizer(), seed=1)},
        "SDPO": {"reward_funcs": length},
    }.get(method, {})
    if "LoRA" in named:
        others["peft_config"] = LoraConfig(**LORA, task_type="CAUSAL_LM")
    start = folder / "start"
    model(tokenizer()).save_pretrained(start)
    set_seed(3)
    return getattr(module, f"{method}Trainer")(
        model=AutoModelForCausalLM.from_pretrained(start),
        args=getattr(module, f"{method}Config")(output_dir=str(folder / "run"), **settings),
        train_dataset=examples(kind),
        processing_class=tokenizer(),
        callbacks=list(callbacks),
        **others,
    )


@pytest.mark.full(reason="a training with further settings")
@pytest.mark.filterwarnings(
    "ignore"
)  # these trainers announce that they are experimental, and more
@pytest.mark.parametrize("method", NEAR_ON_POLICY)
def test_a_trainer_on_texts_of_its_model_is_watched_and_left_as_it_is(
    method: str, tmp_path: Path
) -> None:
    watched = near_on_policy(method, tmp_path / "with", callbacks=[watcher()])
    watched.train()
    alone = near_on_policy(method, tmp_path / "without")
    alone.train()
    assert weights(watched) == weights(alone)
    assert sorted(curve(watched)) == [0, 2, 4]
    assert curve(watched) == recomputed(tmp_path / "with")

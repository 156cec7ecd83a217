"""The shipped artefact: is what is deployed still what was trained? Flips and drift of its merged, 8- and 4-bit forms.

``python examples/lora.py`` trains an adapter; ``python examples/shipped.py`` then runs as it is. For a model of yours
name --model (a trained adapter, or a whole model) and ``--probe standard``. An adapter is merged into its base by PEFT,
and the model is quantized by bitsandbytes, on a GPU or the CPU; without bitsandbytes the two quantized forms are left
out. Each form is a folder below --output and is compared with what was trained, question by question.
"""

from __future__ import annotations

import argparse
from importlib.util import find_spec
from pathlib import Path

import torch
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    BitsAndBytesConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from forgetwatch import compare, load_probe
from forgetwatch.run.run_drift import model_drifts
from forgetwatch.scoring.cached_score import score_checkpoint
from forgetwatch.scoring.model_loading import load_model


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="runs/lora/checkpoint-90")
    parser.add_argument(
        "--probe", default="demo", help="for a pretrained model: standard, or a file of your own"
    )
    parser.add_argument("--output", default="runs/shipped")
    return parser.parse_args()


def main(given: argparse.Namespace) -> None:
    probe = load_probe(given.probe)
    forms = [str(form) for form in make_forms(Path(given.model), Path(given.output))]
    trained = score_checkpoint(given.model, probe)
    drifts = model_drifts(given.model, forms, probe)
    for form, drift in zip(forms, drifts, strict=True):
        whole = compare(before=trained, after=score_checkpoint(form, probe)).all
        low, high = whole.net_change_interval
        print(
            f"{Path(form).name:<8} {whole.forgotten:g} forgotten and {whole.gained:g} gained of {whole.n:g}, net "
            f"{100 * whole.net_change:+.1f} points ({100 * low:+.1f} to {100 * high:+.1f}); "
            f"drift {drift['probe'].kl_summed:.4f} nats a token"
        )


def make_forms(model: Path, output: Path) -> list[Path]:
    """Write each form that can be made here, and return the folders."""
    made = []
    whole = model
    if (model / "adapter_config.json").is_file():
        whole = output / "merged"
        adapted, tokenizer = load_model(str(model))
        save(adapted.merge_and_unload(), tokenizer, whole)
        made.append(whole)
    if find_spec("bitsandbytes") is None:
        print("8-bit and 4-bit are left out: bitsandbytes is not installed")
        return made
    device = "cuda" if torch.cuda.is_available() else "cpu"
    for name, settings in {
        "8-bit": BitsAndBytesConfig(load_in_8bit=True),
        "4-bit": BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4"),
    }.items():
        quantized = AutoModelForCausalLM.from_pretrained(
            whole, quantization_config=settings, device_map=device
        )
        save(quantized, AutoTokenizer.from_pretrained(whole), output / name)
        made.append(output / name)
    return made


def save(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


if __name__ == "__main__":
    main(options())

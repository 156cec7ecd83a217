"""Loading: how a model is loaded, as one value from a command to the loader, and weights that are not whole."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

LFS: Final = b"version https://git-lfs"
"""What a pointer of Git LFS begins with."""

_EXPORT: Final = "export them to Hugging Face's form with the tool of the trainer"
_PARTS: Final = (
    (
        "*/*.distcp",
        "weights that FSDP saved in parts",
        "merge them: accelerate merge-weights {part} {folder}",
    ),
    (
        "*.distcp",
        "weights that FSDP saved in parts",
        "merge them: accelerate merge-weights {part} NEW_FOLDER",
    ),
    (
        "model_world_size_*.pt",
        "weights that verl saved in parts",
        "merge them: python -m verl.model_merger merge",
    ),
    (
        "*/*_model_states.pt",
        "weights that DeepSpeed's ZeRO saved in parts",
        "merge them: python {folder}/zero_to_fp32.py {folder} {folder}",
    ),
    ("*/mp_rank_*", "weights that Megatron saved in parts", _EXPORT),
    ("latest_checkpointed_iteration.txt", "weights that Megatron saved in parts", _EXPORT),
    (
        "*.gguf",
        "weights in GGUF",
        "take the checkpoint that it was made from, or "
        "AutoModelForCausalLM.from_pretrained('{folder}', "
        "gguf_file='{name}'), and save that and its tokenizer",
    ),
)
"""Pattern of files, what they are, and what makes a model of them."""
_TAIL: Final = 2**24
"""Bytes at the end of a file of weights, at most an eighth of it, that are not all zeros in a whole
file.
"""


@dataclass(frozen=True, kw_only=True)
class Loading:
    """Settings with which a model is loaded.

    Attributes:
        trust_remote_code: Run code that comes with the model.
        device_map: ``auto`` to spread the layers over all GPUs, then the CPU and the disk; None for
            one device. Weights that are not in the model's files as it computes with them (those of
            experts) are written to a folder for temporary files, which TMPDIR chooses; it is
            removed with the model.
        concurrency: Number of questions that a served model is asked at once.
        may_spend: Ask a server that may charge a fee.
    """

    trust_remote_code: bool = False
    device_map: str | None = None
    concurrency: int = 16
    may_spend: bool = False


def weights_problem(folder: Path) -> str:
    """Find why a folder does not hold one whole model.

    Only names, first and last bytes of files are read.

    Returns:
        The reason and the remedy, or an empty text.
    """
    files = sorted(
        file
        for suffix in ("safetensors", "bin")
        for file in folder.glob(f"*.{suffix}")
        if file.is_file()
    )
    files = [file for file in files if file.stem not in ("training_args", "optimizer", "scheduler")]
    for pattern, finding, remedy in _PARTS if not files else ():
        if (part := next(folder.glob(pattern), None)) is not None:
            remedy = remedy.format(part=part.parent, folder=folder, name=part.name)
            return f"{finding} ({part.relative_to(folder)}); {remedy}"
    for file_name in ("model.safetensors", "pytorch_model.bin"):
        if (folder / file_name).is_file() and (folder / f"{file_name}.index.json").is_file():
            return (
                f"two sets of weights, {file_name} and those of {file_name}.index.json; "
                "needed one, remove the other (a training "
                "that saved into the folder of an earlier one leaves both)"
            )
    for file in files:
        with file.open("rb") as stream:
            if stream.read(len(LFS)) == LFS:
                return f"{file.name} is a pointer of Git LFS, without the weights; download them: git lfs pull"
            if file.name.startswith("adapter"):  # the second factors of a new adapter are zero
                continue
            stream.seek(-min(_TAIL, file.stat().st_size // 8), os.SEEK_END)
            if (tail := stream.read()) and not any(tail):
                return f"{file.name} ends in {len(tail):,} bytes of zeros or more; copy or download it again"
    return ""

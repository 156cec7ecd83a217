"""Packages that the base installation lacks, and the extra of the package that brings each."""

from typing import Final

EXTRAS: Final = {
    "httpx2": "endpoint",
    "torch": "score",
    "transformers": "score",
    "safetensors": "score",
    "huggingface_hub": "score",
    "fsspec": "score",
    "packaging": "score",
    "accelerate": "train",
    "datasets": "train",
    "tokenizers": "train",
    "trl": "train",
    "peft": "peft",
    "wandb": "wandb",
    "lm_eval": "harness",
    "math_verify": "math",
    "bm25s": "why",
}
"""Name of the extra by the name under which a package is imported."""


def install(package: str, *, training: bool = False) -> str:
    """Command that installs a missing package.

    Args:
        package: Its name, or that of a module in it.
        training: Whether it is needed to watch a training, which needs more than to score a model
            does.
    """
    name = package.partition(".")[0]
    extra = EXTRAS.get(name)
    if training and extra == "score":
        extra = "train"
    name = {"yaml": "pyyaml"}.get(name, name)
    return f"pip install '{f'forgetwatch[{extra}]' if extra else name}'"


def missing(error: BaseException, *, needed_by: str, training: bool = False) -> str | None:
    """Explain which package is missing, and how to install it.

    Args:
        error: What an import raised; transformers raises such errors anew, with the first one as
            their cause.
        needed_by: The name or command that needs the package.
        training: As in `install`.

    Returns:
        The sentence, or None if the error has another cause.
    """
    if not isinstance(error, ModuleNotFoundError):
        return None
    name = (error.name or "").partition(".")[0]
    if not name and error.__cause__ is not None:
        return missing(error.__cause__, needed_by=needed_by, training=training)
    if name in ("", "forgetwatch"):
        return None
    return f"{needed_by} needs the package {name}, which is not installed: {install(name, training=training)}"

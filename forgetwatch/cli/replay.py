"""`forgetwatch replay BASE -o replay.jsonl`: the base's own texts, to be mixed into a fine-tuning."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from forgetwatch.cli.options import DeviceMapOption, TrustOption, check_device_map, check_rows
from forgetwatch.cli.output import announce_import, echo
from forgetwatch.comparing.trajectory import Trajectory
from forgetwatch.errors import ForgetwatchError
from forgetwatch.loading import Loading
from forgetwatch.probe import Probe
from forgetwatch.probes.named import load_probe
from forgetwatch.probes.overlap import training_text
from forgetwatch.probes.row_files import SUFFIXES, question_rows, training_texts
from forgetwatch.progress import Done, log, shown
from forgetwatch.run_folder.contents import run_probe
from forgetwatch.text import count, one_line


def replay_command(
    base: Annotated[
        str,
        typer.Argument(help="The model before the training: a checkpoint folder or a model id."),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="File to write, JSONL in TRL's formats.")
    ],
    rows: Annotated[int, typer.Option("--rows", "-n", help="Number of rows.")] = 500,
    run_of: Annotated[
        Path | None,
        typer.Option(
            "--for", help="A watched run: rows are about what it lost, and none has its questions."
        ),
    ] = None,
    prompts: Annotated[
        Path | None,
        typer.Option(
            help="File of prompts (text lines, JSONL, CSV, Parquet). Default: prompts over the categories."
        ),
    ] = None,
    probe: Annotated[
        list[str] | None,
        typer.Option(
            help="Also keep the questions of this probe out: a name or a file; may be repeated."
        ),
    ] = None,
    plain: Annotated[
        bool, typer.Option("--plain", help="Plain text, also if the tokenizer has a chat template.")
    ] = False,
    tokens: Annotated[
        int | None,
        typer.Option(
            help="Maximum number of tokens of a text; by default 192, at most half of what the model reads."
        ),
    ] = None,
    temperature: Annotated[float, typer.Option(help="Temperature of the sampling, above 0.")] = 1.0,
    seed: Annotated[int, typer.Option(help="Seed of the prompts and of the sampling.")] = 0,
    trust_remote_code: TrustOption = False,
    device_map: DeviceMapOption = None,
) -> None:
    """Write texts of a base model for replay: whole, each once, without any question of the probe."""
    if rows < 1:
        raise typer.BadParameter(f"--rows: needed at least 1, got {rows}")
    check_device_map(device_map)
    check_rows(output)
    lost, forbidden = _of_run(run_of)
    forbidden += [load_probe(name) for name in probe or ()]
    if lost and prompts is not None:
        log("--prompts names no categories: --for keeps its questions out, and weights nothing")
    prompt_texts = None if prompts is None else _read_prompts(prompts)
    announce_import()
    from forgetwatch.retention.replay import sample_replay
    from forgetwatch.retention.topics import Prompt, shipped_prompts
    from forgetwatch.scoring.model_loading import load_model, silence_loading

    silence_loading()
    model, tokenizer = load_model(
        base, loading=Loading(trust_remote_code=trust_remote_code, device_map=device_map)
    )
    chat = not plain and bool(getattr(tokenizer, "chat_template", None))
    drawn = (
        shipped_prompts(chat=chat, categories=lost)
        if prompt_texts is None
        else [Prompt(text, "") for text in prompt_texts]
    )
    opening = f"sampling {count(rows)} texts of {base} {'in its chat template' if chat else 'as plain text'}"
    with shown("replay", opening=opening) as progress:

        def report(done: int) -> None:
            if progress:
                progress(Done(count=done, total=rows, share=done / rows, unit="rows"))

        with output.open("w", encoding="utf-8") as file:

            def write(row: Mapping[str, Any]) -> None:
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
                file.flush()  # what is there when the sampling is interrupted are whole rows

            sample = sample_replay(
                model,
                tokenizer,
                drawn,
                rows=rows,
                chat=chat,
                forbidden=forbidden,
                lost=lost or None,
                tokens=tokens,
                temperature=temperature,
                seed=seed,
                progress=report,
                on_row=write,
            )
    if not sample.rows:
        raise ForgetwatchError(f"{base}: no text was fit for replay: {_dropped(sample.dropped)}")
    _print(sample, output, rows=rows, probes=forbidden)


def _of_run(run_of: Path | None) -> tuple[dict[str, float], list[Probe]]:
    forbidden = [load_probe("confirmation")]
    if run_of is None:
        return {}, [load_probe("standard"), *forbidden]
    last_look = Trajectory.from_run(run_of).final
    lost = {
        name: float(group.forgotten)
        for name, group in last_look.by("category").items()
        if group.n and name
    }
    if not sum(lost.values()):
        log(f"{run_of} has lost no question: all categories get as many rows")
        lost = {}
    run_items = run_probe(run_of)
    if run_items is None:
        log(
            f"{run_of}: its questions cannot be read; those of standard are kept out instead "
            "(--probe names others)"
        )
    return lost, [load_probe("standard") if run_items is None else run_items, *forbidden]


def _read_prompts(path: Path) -> list[str]:
    rows: list[Any] = (
        [row for _, row in question_rows(path)]
        if path.suffix in SUFFIXES
        else [*training_texts([path])]
    )
    texts = [text for row in rows if (text := _prompt_of(row).strip())]
    if not texts:
        raise ForgetwatchError(f"{path}: needed a prompt in each line or row, found none")
    return texts


def _prompt_of(row: Any) -> str:
    """The column ``prompt``, the first message of the user, or all text."""
    if isinstance(row, dict):
        prompt = (
            row.get("prompt")
            or row.get("messages")
            or row.get("question")
            or row.get("text")
            or row
        )
        if isinstance(prompt, Sequence) and not isinstance(prompt, str):
            prompt = next(
                (
                    message
                    for message in prompt
                    if isinstance(message, dict) and message.get("role") == "user"
                ),
                prompt,
            )
        return training_text(prompt)
    return training_text(row)


def _print(sample: Any, output: Path, *, rows: int, probes: Sequence[Probe]) -> None:
    total = len(sample.rows)
    names = " and ".join(one_line(probe.name) for probe in probes)
    if total < rows:
        echo(f"{count(total)} of {count(rows)} rows; give more prompts, or --tokens, for the rest")
    if dropped := _dropped(sample.dropped):
        echo(f"dropped: {dropped}")
    by = ", ".join(
        f"{one_line(name)} {count(number)}"
        for name, number in sorted(sample.categories.items())
        if name
    )
    if by:
        echo(f"categories: {by}")
    echo(
        f"overlap with {names}: {count(sample.overlap)} of {count(total)} rows share a question "
        "or eight words in a row"
    )
    echo(f"{count(total)} rows: {output}")


def _dropped(dropped: Mapping[str, int]) -> str:
    return ", ".join(f"{count(number)} {reason}" for reason, number in dropped.items())

"""`forgetwatch merge A B`: models between a base and its fine-tuned version, each compared with both."""

import math
import shlex
from pathlib import Path
from typing import Annotated, Literal

import typer

from forgetwatch.cli.options import (
    STDOUT,
    DeviceMapOption,
    JsonOption,
    ReportOption,
    TrustOption,
    check_device_map,
    check_distinct,
    check_output,
    item_option,
    output_option,
    share,
)
from forgetwatch.cli.output import (
    announce_import,
    echo,
    print_hanging,
    result_console,
    scoring_unless_cached,
    shared_work,
    write_json,
    write_marked,
)
from forgetwatch.cli.resolve import fitted
from forgetwatch.errors import ScoringError
from forgetwatch.loading import Loading
from forgetwatch.probes.named import load_probe
from forgetwatch.progress import is_first_process

_NONE = "none"


def merge_command(
    a: Annotated[
        str, typer.Argument(metavar="A", help="The base: a checkpoint folder or a model id.")
    ],
    b: Annotated[
        str,
        typer.Argument(
            metavar="B",
            help="Its fine-tuned version: a checkpoint, a model id, or an adapter of A.",
        ),
    ],
    probe: Annotated[
        str, item_option(help="Probe that scores each point: a name or a file.")
    ] = "standard",
    alpha: Annotated[
        str, typer.Option(help="Shares of B, from 0 to 1, separated by commas.")
    ] = "0,.2,.8,1",
    method: Annotated[
        Literal["linear", "slerp"],
        typer.Option(
            help="Average each tensor along a line, or along the arc between its two versions."
        ),
    ] = "linear",
    confirmation: Annotated[
        str,
        item_option(
            help="Second probe, on which a point that was chosen on the first one is confirmed; none leaves it out."
        ),
    ] = "confirmation",
    target: Annotated[
        str | None,
        item_option(
            help="Rank the points also by this: a probe of what B was trained for, or FILE.csv with the columns alpha "
            "and metric."
        ),
    ] = None,
    keep_known: Annotated[
        str,
        output_option(
            help="Name the largest alpha that keeps this share of what A knew and is not FORGOT, and whether the "
            "second probe confirms it."
        ),
    ] = "98%",
    keep: Annotated[
        Path | None, output_option(help="Save the merged models in this folder.")
    ] = None,
    trust_remote_code: TrustOption = False,
    device_map: DeviceMapOption = None,
    detail: Annotated[
        bool, output_option("--detail", help="Also print all points and layers.")
    ] = False,
    json_path: JsonOption = None,
    output: ReportOption = None,
) -> None:
    """Average the weights of two models at several shares, and show what each point has lost of either."""
    alphas, is_known_kept = _alphas(alpha), share(keep_known, "--keep-known")
    chosen = load_probe(probe)
    second = None if confirmation == _NONE else load_probe(confirmation)
    if second is not None and second.fingerprint == chosen.fingerprint:
        raise ScoringError(
            f"--confirmation {confirmation}: needed another probe than {probe}, by which a "
            "point is chosen; or none"
        )
    ranked = target if target is None or target.endswith(".csv") else load_probe(target)
    if isinstance(ranked, str) and not Path(ranked).is_file():
        raise ScoringError(f"--target {target}: no such file")
    check_device_map(device_map)
    read = (probe, confirmation, target)
    check_output(json_path, "a JSON document", read, kind="merge")
    check_distinct(json_path, output)
    check_output(output, "a report", read)
    announce_import()
    with shared_work():
        # Not at the top: this imports torch, which the other commands do not need.
        from forgetwatch.merge.choice import choose
        from forgetwatch.merge.report import (
            choice_json,
            merge_detail,
            merge_json,
            merge_report,
            merge_table,
        )
        from forgetwatch.merge.sweep import run_sweep
        from forgetwatch.merge.weights import ModelPair
        from forgetwatch.scoring.model_loading import silence_loading

        silence_loading()
        loading = Loading(trust_remote_code=trust_remote_code, device_map=device_map)
        chosen = fitted(chosen, a, loading=loading)
        ends = ModelPair(a=a, b=b, method=method, alphas=alphas, keep=keep, loading=loading)
        sweep = run_sweep(
            ends, chosen, confirmation=second, target=ranked, progress_of=scoring_unless_cached
        )
    if not is_first_process():
        return
    point = choose(sweep, is_known_kept)
    if json_path is not None:
        write_json({**merge_json(sweep), "choice": choice_json(point)}, json_path)
    if json_path != STDOUT:
        console = result_console(wide=detail)
        console.print(merge_table(sweep))
        print_hanging(str(point))
        if point.alpha is not None and keep is None:
            words = ["forgetwatch", "merge", a, b, "--probe", probe, "--confirmation", confirmation]
            words += ["--method", method, "--alpha", f"{point.alpha:g}", "--keep", "merged"]
            echo(f"this one on disk: {shlex.join(words)}")
        if detail:
            console.print()
            console.print(merge_detail(sweep))
        if sweep.kept is not None:
            echo(f"kept: {sweep.kept}")
    if output is not None:
        write_marked(output, merge_report(sweep, output.suffix))
        echo(f"report: {output}", err=json_path == STDOUT)


def _alphas(values: str) -> tuple[float, ...]:
    shares: list[float] = []
    for word in values.split(","):
        try:
            value = (
                float(word) if word.isascii() else math.nan
            )  # float reads the digits of every script
        except ValueError:
            value = math.nan
        if not 0 <= value <= 1:
            raise typer.BadParameter(
                f"--alpha {values}: needed numbers from 0 to 1, got {word.strip()!r}"
            )
        if f"{value:g}" in [f"{earlier:g}" for earlier in shares]:  # by which points are named
            raise typer.BadParameter(f"--alpha {values}: {value:g} is named twice")
        shares.append(value + 0.0)  # never -0.0
    return tuple(sorted(shares))

"""`forgetwatch report RUN_DIR|DUMPS [...]`: a run, look by look; its stages, or the files of a training's steps."""

import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final

import typer

from forgetwatch.cli.options import (
    STDOUT,
    FailIfOption,
    JsonOption,
    LowerOption,
    NoWorseThanOption,
    PolicyOption,
    RightIfOption,
    ScaleOption,
    ToleranceOption,
    UnscoredIfOption,
    check_distinct,
    check_output,
    check_pictures,
    item_option,
    limits,
    outcome_options,
    outcome_rule,
    tolerated,
)
from forgetwatch.cli.output import (
    answer_json,
    bytes_bar,
    echo,
    exit_code_of_limits,
    judge,
    print_hanging,
    print_pictures,
    result_console,
    write_json,
    write_report,
)
from forgetwatch.cli.resolve import with_questions
from forgetwatch.comparing.causes import COLUMNS, Cause, Causes, why_lost
from forgetwatch.comparing.document import causes_json, trajectory_json
from forgetwatch.comparing.flips import first_forgotten, flips
from forgetwatch.comparing.stages import read_stages
from forgetwatch.comparing.trajectory import Trajectory, this_stage, trajectory_of
from forgetwatch.comparing.verdict import Tolerance
from forgetwatch.errors import ForgetwatchError, SnapshotError, WatchError, did_you_mean_path
from forgetwatch.extras import missing
from forgetwatch.grading.outcome_rule import UPPER_HALF
from forgetwatch.policy.policy import load_policy
from forgetwatch.policy.ruling import Sides
from forgetwatch.probes.nearness import answers_of, category_words, nearness_to
from forgetwatch.probes.row_files import training_texts
from forgetwatch.readers.dumps import is_dumps, read_dumps, read_step
from forgetwatch.report.advice import PAGE, Advice, advise, proposed
from forgetwatch.report.card import CARD, write_card
from forgetwatch.report.eight_lines import first_table, run_label
from forgetwatch.report.pictures import save_run
from forgetwatch.report.sentences import loss_sentences
from forgetwatch.report.stage_tables import paths_sentence, stage_lines
from forgetwatch.report.terminal import comparison_detail, first_lines
from forgetwatch.run_folder.contents import find_run_folder, is_run_folder, run_probe
from forgetwatch.run_folder.description import REPORT, RUN_FOLDER, Ending
from forgetwatch.snapshot import SAMPLED
from forgetwatch.text import count, fit_ends, one_line, percent, run_name

_CATEGORIES: Final = 8


def report_command(  # noqa: C901
    runs: Annotated[
        list[Path],
        typer.Argument(
            help="A run folder (_forgetwatch), or the output_dir that contains one; several are its stages. Or the "
            "files that a training writes at its steps, and folders of them."
        ),
    ],
    base: Annotated[
        Path | None,
        item_option(help="Outcomes before the training, in place of those of the first step."),
    ] = None,
    repeat: Annotated[
        Path | None,
        item_option(help="These outcomes measured again: flips between them are noise."),
    ] = None,
    step: Annotated[
        str,
        item_option(
            help="Column of the step in rows of many, or form of the names: 'run_{N}/val.csv'."
        ),
    ] = "",
    metric: Annotated[
        str | None, item_option(help="Metric that decides right or wrong, if there are several.")
    ] = None,
    right_if: RightIfOption = None,
    scale: ScaleOption = None,
    lower_is_better: LowerOption = False,
    unscored_if: UnscoredIfOption = None,
    detail: Annotated[
        bool,
        typer.Option("--detail", help="Also print every look, correction, diagnostic and alarm."),
    ] = False,
    json_path: JsonOption = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Write a report: .html, .md, .csv or .json. Default: report.html in the run folder.",
        ),
    ] = None,
    plots: Annotated[
        Path | None, typer.Option(help="Draw pictures into this folder, as PNG and SVG.")
    ] = None,
    model_card: Annotated[
        bool,
        typer.Option(
            "--model-card",
            help="Write the result into README.md, the model card in the output_dir.",
        ),
    ] = False,
    train: Annotated[
        list[Path] | None,
        typer.Option(
            help="File of the training set, in any format: is what is lost near its rows? May be repeated."
        ),
    ] = None,
    tolerance: ToleranceOption = None,
    fail_if: FailIfOption = None,
    no_worse_than: NoWorseThanOption = None,
    policy: PolicyOption = None,
) -> None:
    """Show a run: the last look against the start, its alarms, what to do, and the path of its page.

    The answers that verl, NeMo RL, SkyRL, TRL, AReaL and others write at each
    validation are a run too, and so are the logs of many checkpoints.
    """
    question_probe = None if policy is None else run_probe(runs[-1])
    limited = limits(
        fail_if=fail_if,
        no_worse_than=no_worse_than,
        policy=None if policy is None else load_policy(policy, question_probe),
    )
    check_output(json_path, "a JSON document", kind="trajectory")
    check_distinct(json_path, output)
    check_output(output, "a report")
    check_pictures(plots)
    tolerances = tolerated(tolerance)
    if missing_path := next((path for path in runs if not path.exists()), None):
        raise SnapshotError(f"{missing_path}: no such folder{did_you_mean_path(missing_path)}")
    rule = outcome_rule(right_if, scale, lower_is_better, unscored_if)
    is_run, flips_of = all(map(is_run_folder, runs)) and not step, ""
    if is_run and (base or repeat or metric or rule != UPPER_HALF):
        raise typer.BadParameter(
            f"{runs[0]} holds a run of forgetwatch, whose outcomes are settled; --base, --repeat, "
            "--metric and scores are for the files of a training (--step names their form)"
        )
    if is_run or not is_dumps(runs, step):
        trajectory = read_stages(runs)
    else:
        with bytes_bar(f"reading {runs[0]}") as progress:
            dumps = read_dumps(
                runs, base=base, form=step, metric=metric, rule=rule, progress=progress
            )
        second = None if repeat is None else read_step([repeat], metric=metric, rule=rule)
        trajectory = replace(
            trajectory_of(dumps.looks, repeat=second),
            notes=dumps.notes,
            ending=Ending(failed=dumps.failed),
        )
        ends = [look.meta.get("source") for look in (dumps.looks[0], dumps.looks[-1])]
        if ends[0] != ends[1] and None not in ends:
            options = outcome_options(rule, metric)
            flips_of = shlex.join(["forgetwatch", "flips", *map(str, ends), *options])
    if train and len(runs) > 1:
        raise typer.BadParameter(
            "--train: needed one run, whose training rows the questions are compared with"
        )
    if train and len(trajectory) < 2:
        raise WatchError(
            f"{runs[0]}: --train needs a look after the start, found none; nothing is lost yet"
        )
    causes = _causes(runs[0], trajectory, train) if train else None
    has_weights = is_run and not trajectory.baseline.meta.get(SAMPLED)
    has_advice = has_weights and len(runs) == 1 and len(this_stage(trajectory)) > 1
    advice = advise(trajectory, runs[0], tolerance=tolerances) if has_advice else []
    json_alone = json_path == STDOUT
    sides = Sides(
        before=trajectory.baseline,
        after=trajectory.last,
        probe=question_probe,
        trajectory=trajectory,
    )
    results = judge(limited, (trajectory.final, sides), tolerance=tolerances)
    if json_path is not None:
        document = trajectory_json(trajectory, tolerance=tolerances)
        document |= {
            "advice": [vars(proposal) for proposal in advice],
            "why": None if causes is None else causes_json(causes),
        }
        write_json(
            document | ({"gate": [answer_json(result) for result in results]} if results else {}),
            json_path,
        )
    if plots is not None:
        print_pictures(save_run(trajectory, plots), err=json_alone)
    if not json_alone:
        console = result_console(wide=detail)
        run_of = runs[0] if is_run and len(runs) == 1 else ""
        last_look = trajectory.final
        table = first_table(
            last_look,
            trajectory=trajectory,
            run=run_of,
            name="" if is_run else run_label(trajectory, _folder(runs[0])),
            flips=flips_of,
            tolerance=tolerances,
            gate=results[0] if results else None,
        )
        console.print(first_lines(table, last_look.notes), soft_wrap=True)
        if sentences := loss_sentences(last_look, trajectory):
            echo("")
        for sentence in sentences:
            print_hanging(sentence)
        if trajectory.matrix is not None:
            console.print()
            console.print(stage_lines(trajectory.matrix))
            echo(f"paths: {paths_sentence(trajectory.matrix)}")
        for note in trajectory.notes:  # on files of the run: each in one whole line
            echo(f"note: {one_line(note)}")
        if detail:
            console.print()
            console.print(comparison_detail(last_look, table, trajectory=trajectory))
        _show_advice(advice)
        if causes is not None:
            _show_causes(causes, step=this_stage(trajectory).final_step)
        echo(_write(trajectory, runs, output, is_run=is_run, tolerance=tolerances, causes=causes))
    elif output is not None:
        _write(trajectory, runs, output, is_run=is_run, tolerance=tolerances, causes=causes)
    if model_card:
        folder = find_run_folder(runs[-1]).resolve()
        if folder.name != RUN_FOLDER:
            raise WatchError(
                f"--model-card: needed the output_dir of a training or its {RUN_FOLDER}, got "
                f"{folder}"
            )
        card = folder.parent / CARD
        write_card(card, trajectory, tolerance=tolerances)
        echo(f"model card: {card}", err=json_alone)
    if status := exit_code_of_limits(results, to_stderr=json_alone):
        raise typer.Exit(status)


def _folder(path: Path) -> Path:
    return path if path.is_dir() else path.parent


def _causes(run: Path, trajectory: Trajectory, train: Sequence[Path]) -> Causes:
    probe = run_probe(run)
    if probe is None:
        raise SnapshotError(
            f"{run}: needed the probe of the run (probe.jsonl), to compare its questions with rows"
        )
    texts, texts_named = list(training_texts(train)), ", ".join(map(str, train))
    try:
        near = nearness_to(probe.items, texts).tolist()
    except ModuleNotFoundError as error:
        raise ForgetwatchError(missing(error, needed_by="--train") or str(error)) from error
    except ValueError as error:
        raise SnapshotError(f"{texts_named}: {error}") from error
    own_rows = this_stage(trajectory)
    return why_lost(
        own_rows.baseline,
        own_rows.last,
        near={
            (item.task, item.id): float(similarity)
            for item, similarity in zip(probe, near, strict=True)
        },
        words=category_words(probe.items, texts),
        answers=answers_of(probe),
    )


def _show_advice(proposals_all: Sequence[Advice]) -> None:
    for number, proposal in enumerate(proposals := proposed(proposals_all), start=1):
        if number == 1:
            echo("")
            print_hanging("To try, the least work first; measure again after each:", style="bold")
        print_hanging(
            f"{number}. "
            f"{one_line(proposal.text)}{f' [{proposal.measured}]' if proposal.measured else ''}"
        )
        if proposal.command:
            echo(f"   {proposal.command}")
    if any(proposal.measured for proposal in proposals):
        print_hanging(f"[points less of the clearly known lost, one model of 135M: {PAGE}]")


def _show_causes(causes: Causes, *, step: int) -> None:
    echo("")
    print_hanging(
        f"step {count(step)}: {count(causes.lost)} of {count(causes.items)} questions that it "
        "had right are lost"
    )
    for sentence in filter(None, (causes.answers_text(), str(causes))):
        print_hanging(sentence)
    parts = max((len(cause.parts) for cause in causes.causes), default=0)
    if parts:
        part = {3: "third", 10: "tenth"}.get(parts, "part")
        numbers = "".join(f"{at:>5}" for at in range(1, parts + 1))
        echo(f"{f'lost of each {part}, %':<44}{numbers}   explains, beside the others")
        for cause in causes.causes:
            echo(_cause_line(cause))
        echo(f"{part} 1: the least sure, or the farthest from the rows, of each category")
    if causes.categories:
        echo(f"{'category':<24}{'lost':>6}{'of':>6}   its words in the rows, per 1,000")
        for name, items, lost, uses in causes.categories[:_CATEGORIES]:
            echo(f"{fit_ends(one_line(name), 23):<24}{lost:>6}{items:>6}   {uses:.1f}")
    if sentence := causes.between_text():
        print_hanging(sentence)


def _cause_line(cause: Cause) -> str:
    cells = "".join(f"{100 * part.lost / part.items:>5.0f}" for part in cause.parts)
    if cause.separation is None or cause.explained is None:
        return f"{COLUMNS[cause.column]:<44}{cells}   too few to test"
    share, chance = percent(cause.explained.share), percent(cause.explained.permuted)
    return (
        f"{COLUMNS[cause.column]:<44}{cells}   {share} % (chance {chance}), p {cause.p_value:.2g}"
    )


def _write(
    trajectory: Trajectory,
    runs: Sequence[Path],
    output: Path | None,
    *,
    is_run: bool,
    tolerance: Tolerance,
    causes: Causes | None,
) -> str:
    changed = flips(
        trajectory.baseline,
        trajectory.last,
        probe=run_probe(runs[0]) if is_run else None,
        first=first_forgotten(trajectory),
    )
    last_look, title = trajectory.final, " → ".join(map(run_name, runs))
    if is_run:
        path = output or find_run_folder(runs[-1]) / REPORT
    else:
        folder, title = _folder(runs[-1]), _folder(runs[-1]).resolve().name
        path = output or folder / f"forgetwatch-{REPORT}"
        changed = with_questions(changed, "", trajectory.baseline, None)
    try:
        write_report(
            path,
            [last_look],
            changed,
            tolerance=tolerance,
            trajectory=trajectory,
            title=title,
            folder=runs[0] if len(runs) == 1 and is_run else None,
            causes=causes,
        )
    except OSError as error:
        # The page is by default written into the run folder, which may be read-only: the table is
        # shown all the same.
        if output is not None:
            raise
        return f"no page was written to {path} ({error.strerror}); -o names another file"
    return f"report: {path}"

"""The run folder ``output_dir/_forgetwatch``: all files that a run keeps of its looks, written and read.

    probe.jsonl            the items, and how they were scored
    baseline.parquet       the snapshot that every look is compared with
    null.parquet           the baseline measured twice: what flips between the two is noise
    first.parquet          the baseline of the first training of this model, in a run of a later stage
    step-000200.parquet    one snapshot per look
    completions.parquet    token ids of texts that the base generated, if the drift from it is measured
    run.json               description of the run: its id, and the steps of its looks
    report.html            the report of the run, for people

Every snapshot carries the id of its run, what it is (baseline, null, step) and its step inside its
checksum, and ``run.json`` lists the steps. So a file that is missing, damaged, renamed or from
another run is found: readers leave it out and say so.

A file that cannot be used is renamed to ``*.damaged`` by a resume, the folder of an earlier run to
``_forgetwatch-1``, ``-2``, ... The leading underscore keeps the folder out of uploads of
`output_dir`. Every file is written whole or not at all. Checkpoints carry copies of the baseline
and the latest look in ``checkpoint-N/forgetwatch``, itself a run folder of one look. A process that
follows the run from outside it writes such a folder of its own, ``_forgetwatch_follow``, and takes
part in none of the above.

    description    names of the files; ``run.json``, and the findings of the guard in it
    contents       which files are looks of a run; StoredRun, which everything that only reads uses
    task_figure    the figure of the new task in a trainer's log
    lineage        the trainings before this one, and the base of the first
    folder         RunFolder, through which a run writes; one process at a time has an output_dir

None of them needs torch.
"""

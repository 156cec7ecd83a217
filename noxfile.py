"""Install the wheel with each Python and at both ends of every range of versions, and use it.

    .ci/matrix                          every Python that is found, about five minutes each
    .ci/matrix --python 3.12            one Python
    .ci/matrix --session tests          the tests, with the lowest and the newest versions
    python tools/matrix_table.py        the table of docs/reference/versions.md, from build/matrix.jsonl

Each session makes an environment, adds its results to build/matrix.jsonl, and deletes the environment.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import nox

ROOT = Path(__file__).parent
RESULTS = ROOT / "build" / "matrix.jsonl"
PYTHONS = ("3.11", "3.12", "3.13", "3.14", "3.15")
VERSIONS = {
    "newest": (),
    "lowest": ("--resolution=lowest-direct", "--only-binary=:all:"),
    "transformers 4.56.2": ("transformers==4.56.2",),
    "transformers 4.57.6": ("transformers==4.57.6",),
    "torch 2.6": (
        "torch==2.6.*",
        "setuptools",
    ),  # its triton imports setuptools and does not ask for it
}
"""Arguments of the installation, by the name of the row in the table."""

nox.options.default_venv_backend = "uv"
nox.options.sessions = ["files", "training"]
nox.options.error_on_missing_interpreters = False
_WITHOUT_WHEEL = ("sqlitedict", "rouge-score", "word2number", "antlr4-python3-runtime")
"""Packages that lm-eval and math-verify need, and that have to be built."""
_BUILT: set[Path] = set()
"""Folders whose wheel is of this run."""


def _wheel(session: nox.Session) -> str:
    folder = Path(session.cache_dir).resolve() / "wheel"
    if folder not in _BUILT:
        _BUILT.add(folder)
        shutil.rmtree(folder, ignore_errors=True)
        session.run_install(
            "uv", "build", "--wheel", "--quiet", "--out-dir", str(folder), str(ROOT), external=True
        )
    (wheel,) = folder.glob("*.whl")
    return str(wheel)


def _direct(versions: str, *extras: str) -> list[str]:
    """Return arguments that name all requirements: the lowest version is taken of those alone that are named."""
    return (
        ["-r", str(ROOT / "pyproject.toml"), *(f"--extra={extra}" for extra in extras)]
        if versions == "lowest"
        else []
    )


def _use(session: nox.Session, versions: str, *extras: str) -> None:
    wheel = f"forgetwatch[{','.join(extras)}] @ file://{_wheel(session)}"
    session.install("--quiet", wheel, *_direct(versions, *extras), *VERSIONS[versions])
    try:
        session.run("python", str(ROOT / "tools" / "use.py"), versions, str(RESULTS), *extras)
    finally:
        shutil.rmtree(session.virtualenv.location, ignore_errors=True)


@nox.session(python=PYTHONS)
@nox.parametrize("versions", ["newest", "lowest"])
def files(session: nox.Session, versions: str) -> None:
    """Compare files without any extra."""
    _use(session, versions)


@nox.session(python=PYTHONS)
@nox.parametrize("versions", ["newest", "lowest"])
def training(session: nox.Session, versions: str) -> None:
    """Run the demo, and the callback for ten steps."""
    _use(session, versions, "train")


@nox.session(python="3.11")
@nox.parametrize("versions", ["transformers 4.56.2", "transformers 4.57.6", "torch 2.6"])
def older(session: nox.Session, versions: str) -> None:
    """Run the demo and the callback with one package of an earlier year."""
    _use(session, versions, "train")


@nox.session(python="3.11")
@nox.parametrize("versions", ["newest", "lowest"])
def tests(session: nox.Session, versions: str) -> None:
    """Run the tests."""
    built = [f"--no-binary={name}" for name in _WITHOUT_WHEEL] if versions == "lowest" else []
    session.install(
        "--quiet", "-e", ".[dev]", *_direct(versions, "dev"), *VERSIONS[versions], *built
    )
    session.run("pytest", *session.posargs)

"""The wheel that is built here has what an index page shows and what a user needs without this folder."""

import re
import tomllib
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    builder = pytest.importorskip("hatchling.builders.wheel").WheelBuilder(str(ROOT))
    return zipfile.ZipFile(next(builder.build(directory=str(tmp_path_factory.mktemp("wheel")))))


@pytest.fixture(scope="module")
def metadata(wheel: zipfile.ZipFile) -> Message:
    (name,) = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
    return Parser().parsestr(wheel.read(name).decode("utf-8"))


def test_every_file_of_the_package_is_in_the_wheel(wheel: zipfile.ZipFile) -> None:
    there = {
        path
        for path in (ROOT / "forgetwatch").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {path.relative_to(ROOT).as_posix() for path in there} == {
        name for name in wheel.namelist() if name.startswith("forgetwatch/")
    }


def test_every_card_names_a_licence(wheel: zipfile.ZipFile) -> None:
    cards = [name for name in wheel.namelist() if "/shipped/" in name and name.endswith(".md")]
    assert len(cards) == 8
    for card in cards:
        assert re.search(
            "licence.{0,4}Apache-2.0", wheel.read(card).decode("utf-8"), flags=re.IGNORECASE
        ), card


def test_the_notices_of_others_go_with_the_wheel(wheel: zipfile.ZipFile) -> None:
    (notice,) = [name for name in wheel.namelist() if name.endswith("/licenses/NOTICE")]
    assert "UNICODE LICENSE V3" in wheel.read(notice).decode("utf-8")
    assert any(name.endswith("uPlot.LICENSE") and "/licenses/" in name for name in wheel.namelist())


def test_the_page_on_an_index_has_no_link_into_a_folder(metadata: Message) -> None:
    page = str(metadata.get_payload())
    home = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["urls"][
        "Homepage"
    ]
    links = re.findall(r"\]\(([^)]+)\)", page)
    assert all(link.startswith("https://") for link in links)
    own = [
        link.removeprefix(f"{home}/blob/v{metadata['Version']}/")
        for link in links
        if link.startswith(home)
    ]
    assert len(own) > 10
    assert all((ROOT / path.partition("#")[0]).exists() for path in own)
    assert any(link.endswith(".png") and link.startswith("https://raw.") for link in links)


def test_the_metadata_name_where_to_look(metadata: Message) -> None:
    labels = {line.partition(",")[0] for line in metadata.get_all("Project-URL", [])}
    assert labels == {"Homepage", "Documentation", "Changelog", "Issues"}
    assert metadata["Author"]

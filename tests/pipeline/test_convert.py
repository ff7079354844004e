"""What was published before there were tables that others read: `former` has four versions of a folder.

They were published by tidelog at 4bf662e: a first run, a row of `edge.csv` replaced, a row of `price.csv`
added and a rule removed, and going back to the first version.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import deltalake
import pytest

from tests.pipeline.conftest import Write
from tidelog.__main__ import main
from tidelog.pipeline import publishing, read

FORMER = Path(__file__).parent / "former"
JOB = """\
program = "rules.rls"
publish = "published.converted"
engine.name = "columnar"

[[source]]
predicate = "edge"
path = "edge.csv"
header = true

[[source]]
predicate = "price"
path = "price.csv"
header = true
"""


@pytest.fixture
def former(folder: Path) -> Path:
    shutil.copytree(FORMER, folder, dirs_exist_ok=True)
    return folder / "published"


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("form", ["delta", "iceberg", "parquet"])
def test_versions_and_changes_are_kept(
    former: Path, form: str, write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["versions", "published"]) == 1
    assert "tidelog convert published" in capsys.readouterr().err
    assert main(["convert", "published", "--format", form]) == 0
    new = "published.converted"
    assert main(["versions", new, "-f", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    told = [(each["reason"], each["facts"], each["added"], each["removed"]) for each in found]
    # As `tidelog versions published` showed them at that commit.
    assert told == [
        ("full", 20, 20, 0),
        ("incremental", 19, 5, 6),
        ("incremental", 19, 1, 1),
        ("rollback", 20, 7, 6),
    ]
    assert [each["rejected"] for each in found] == [1, 1, 1, 1]
    assert found[0]["created"].startswith("2026-11-18T20:14:56")
    # As `tidelog diff published 1 2` and so on did.
    for first, lines in (
        (
            1,
            {
                '- edge("b", "c") .',
                '+ edge("c", "d") .',
                '- kind("b", <http://ex.org/one>) .',
                '+ kind("c", 1) .',
            },
        ),
        (2, {'- dear("ink") .'}),
        (3, {'+ dear("ink") .', '+ reach("a", "c") .'}),
    ):
        assert main(["diff", new, str(first), str(first + 1)]) == 0
        assert lines <= set(capsys.readouterr().out.splitlines())
    version = read(new)
    assert set(version["edge"]) == {("a", "b"), ("b", "c")} and len(version["flag"]) == 1
    assert version.to_arrow("mixed").column(0).to_pylist() == ["1", '"one"', "<http://ex.org/one>"]
    assert version.to_arrow("open").to_pylist() == [
        {"c1": "gate", "start": "2", "end": "5", "start_open": False, "end_open": True}
    ]
    assert set(version.changes("dear").added) == {("ink",)}
    rejects = version.manifest.inputs["edge < edge.csv"].rejects
    assert rejects is not None and "only" in Path(new, rejects).read_text()
    if form == "delta":
        assert deltalake.DeltaTable(f"{new}/edge").to_pyarrow_table().num_rows == 2
        feed = deltalake.DeltaTable(f"{new}/dear").load_cdf(starting_version=1).read_all()
        assert {"delete", "insert"} <= set(feed.column("_change_type").to_pylist())
    # The job goes on from there: its change is the difference to what was published.
    path = str(write("job.toml", JOB))
    assert main(["pipeline", path]) == 0
    assert set(read(new)["edge"]) == {("a", "b"), ("c", "d")} and read(new).number == 5
    assert set(read(new).changes("edge").removed) == {("b", "c")}
    # The old folder is still there.
    assert (former / "CURRENT").is_file()


def test_a_conversion_that_was_stopped(
    former: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stop(number: int, now: int) -> None:
        if number == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        publishing.convert(former, Path("new"), "parquet", stop)
    assert main(["convert", "published", "new", "--delete-old"]) == 0
    said = capsys.readouterr().err
    assert "version 2" not in said and "version 3: version 3" in said and "deleted" in said
    assert not former.exists() and read("new").number == 4 and "dear" not in read("new", 3)
    assert main(["convert", "new"]) == 1 and "nothing has to be converted" in capsys.readouterr().err


def test_what_cannot_be_converted(former: Path, capsys: pytest.CaptureFixture[str], write: Write) -> None:
    assert main(["convert", "nothing"]) == 1 and "E810" in capsys.readouterr().err
    base = former / "versions" / "1" / "facts" / "edge.base.parquet"
    base.write_bytes(b"PAR1")
    assert main(["convert", "published"]) == 1
    assert "E811" in (said := capsys.readouterr().err) and "edge.base.parquet" in said
    write("published/versions/2/manifest.json", '{"layout": 7}')
    assert main(["convert", "published", "again"]) == 1 and "E811" in capsys.readouterr().err

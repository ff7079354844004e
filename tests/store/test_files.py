"""What is on the disk: every damage is found, torn ends are cut, one writes and others read."""

from __future__ import annotations

import shutil
import struct
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from zlib import crc32

import pytest

import tidelog as tl
from tests.store.forging import forge
from tests.store.imprint import imprint
from tests.store.test_laws import crash
from tidelog.errors import codes
from tidelog.reasoner.store_repair import Examination, repair
from tidelog.store import journal, snapshot
from tidelog.store import store as superblock
from tidelog.store.store import LOCK, StoreFolder, read_found
from tidelog.temporal.temporal import TimeSettings

PROGRAM = tl.parse("""
    edge(a, b) .
    reach(?x, ?y) :- edge(?x, ?y) .
    reach(?x, ?z) :- reach(?x, ?y), edge(?y, ?z) .
""")
CHANGES = (
    "+ edge(b, c) .",
    "- edge(a, b) . + edge(c, 17) .",
    '+ edge(17, "ä") . + even(?x) :- edge(?x, 17) .',
)
EQUAL = "?x = ?y :- key(?x, ?k), key(?y, ?k) . key(a, 1) . key(b, 1) . p(a) ."
EQUALITIES = ("+ key(c, 1) .", "- key(a, 1) . + p(c) .", "+ c = d .")
TIMED = "alarm(?x) :- diamondminus[0, 5] hot(?x) . hot(oven)@[1, 2] ."
TIMES = ("+ hot(pan)@[1/3, 9) .", "- hot(oven)@[1, 1.5] .", "+ calm(?x) :- hot(?x), boxminus[0, 1] hot(?x) .")
every_byte = pytest.mark.parametrize("stride", [13, pytest.param(1, marks=pytest.mark.slow)])


def written(path: Path, program: tl.Program, changes: Iterable[str], durability: str = "full") -> Path:
    """A store whose journal has a record for each change; where it is `fast`, none is confirmed."""
    reasoner = tl.open(path, program, durability=durability)
    for change in changes:
        reasoner.apply(change)
    crash(reasoner)
    return path


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store whose journal has three records."""
    return written(tmp_path / "store", PROGRAM, CHANGES)


KINDS = {
    "plain": (PROGRAM, CHANGES),
    "equal": (tl.parse(EQUAL), EQUALITIES),
    "timed": (tl.parse(TIMED), TIMES),
}


@pytest.fixture(params=list(KINDS))
def any_store(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The same for programs of each kind."""
    return written(tmp_path / "store", *KINDS[request.param])


@pytest.fixture(params=list(KINDS))
def unconfirmed(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The same where nobody waited for the disk."""
    return written(tmp_path / "store", *KINDS[request.param], durability="fast")


def code_of(error: pytest.ExceptionInfo[tl.TidelogError]) -> str:
    return error.value.diagnostics[0].code


# ---- damage


@every_byte
def test_every_flipped_byte_of_a_snapshot_is_found(any_store: Path, stride: int) -> None:
    folder = StoreFolder(any_store)
    path = folder.snapshot(1)
    whole = path.read_bytes()
    for place in range(0, len(whole), stride):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x10]) + whole[place + 1 :])
        with pytest.raises(tl.DataError) as error:
            read_found(folder.find())
        assert code_of(error) == codes.STORE_DAMAGED
        assert str(path) in str(error.value)


@every_byte
def test_every_flipped_byte_of_a_journal_is_found(any_store: Path, stride: int) -> None:
    folder = StoreFolder(any_store)
    path = folder.journal(1)
    whole = path.read_bytes()
    for place in range(0, len(whole), stride):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x10]) + whole[place + 1 :])
        with pytest.raises(tl.DataError) as error:
            folder.find()
        assert code_of(error) == codes.STORE_DAMAGED
        assert not Examination(any_store).is_whole


@every_byte
def test_every_flipped_byte_of_records_that_were_not_confirmed_is_found(
    unconfirmed: Path, stride: int
) -> None:
    folder = StoreFolder(unconfirmed)
    path = folder.journal(1)
    whole = path.read_bytes()
    *_, last = folder.find().records
    for place in range(0, len(whole), stride):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x10]) + whole[place + 1 :])
        if place < last.offset:
            with pytest.raises(tl.DataError) as error:
                read_found(folder.find())
            assert code_of(error) == codes.STORE_DAMAGED
        else:  # it may as well have been torn
            opened = read_found(folder.find())
            assert [record.number for record in opened.records] == [1, 2]
            assert "an incomplete record" in opened.notices[0]


@every_byte
def test_a_journal_that_was_not_confirmed_may_be_torn_anywhere(unconfirmed: Path, stride: int) -> None:
    folder = StoreFolder(unconfirmed)
    path = folder.journal(1)
    whole = path.read_bytes()
    ends = [record.end for record in folder.find().records]
    for length in range(journal.HEADER.size, len(whole), stride):
        path.write_bytes(whole[:length])
        records = read_found(folder.find()).records
        assert len(records) == sum(end <= length for end in ends)
        assert Examination(unconfirmed).is_whole


def test_a_torn_end_is_cut_and_told_and_kept_aside(store: Path) -> None:
    path = StoreFolder(store).journal(1)
    torn = path.read_bytes()[-70:-3]
    with path.open("ab") as stream:
        stream.write(torn)
    told: list[str] = []
    with tl.open(store, listeners=[lambda event: told.append(getattr(event, "text", ""))]) as reasoner:
        assert reasoner.commits == 3
        assert any("an incomplete record" in text for text in told)
        reasoner.apply("+ edge(x, y) .")
        crash(reasoner)
    with tl.open(store) as reasoner:
        assert reasoner.commits == 4
        assert ("x", "y") in list(reasoner["edge"])
    assert path.with_suffix(".cut").read_bytes() == torn


@pytest.mark.parametrize("file", ["snapshot", "journal", "superblock", "beside"])
def test_what_is_newer_says_so_and_is_left_alone(store: Path, file: str) -> None:
    newer(store, file)
    before = {path.name: path.read_bytes() for path in store.iterdir() if path.name != LOCK}
    for attempt in (tl.open, Examination, repair):
        with pytest.raises(tl.DataError) as error:
            attempt(store)
        assert code_of(error) == codes.NEWER
        assert "newer tidelog" in str(error.value)
    assert {path.name: path.read_bytes() for path in store.iterdir() if path.name != LOCK} == before


def newer(store: Path, file: str) -> None:
    """Write a file of a store as a later version might."""
    folder = StoreFolder(store)
    if file == "snapshot":
        begin = struct.pack("<8sI", snapshot.MAGIC, snapshot.VERSION + 1)
        put(folder.snapshot(1), 0, begin + struct.pack("<I", crc32(begin)))
    elif file == "journal":
        begin = struct.pack("<8sI", journal.MAGIC, journal.VERSION + 1)
        put(folder.journal(1), 0, begin + struct.pack("<I", crc32(begin)))
    elif file == "superblock":
        begin = superblock.BEGIN.pack(superblock.MAGIC, superblock.VERSION + 1, 100) + bytes(100)
        put(folder.superblock, superblock.BLOCK, begin + struct.pack("<I", crc32(begin)))
    else:
        forge(store, lambda index: index["beside"].update(space={}))


def put(path: Path, place: int, data: bytes) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole[:place] + data + whole[place + len(data) :])


def test_a_journal_that_does_not_follow_is_found(store: Path) -> None:
    folder = StoreFolder(store)
    for record, said in ((8, "4 is missing"), (3, "does not continue the one before it")):
        follower = journal.StoreJournal.create(folder.journal(2), journal.Position(record, 0, 7), False)
        follower.close()
        root = folder.root()
        assert root is not None
        superblock.Superblock.create(
            folder.superblock, replace(root, journal=2, confirmed=follower.position)
        ).close()
        with pytest.raises(tl.DataError, match=said) as error:
            tl.open(store)
        assert code_of(error) == codes.STORE_DAMAGED


def test_what_was_begun_and_not_finished_does_not_matter(store: Path) -> None:
    folder = StoreFolder(store)
    (store / ".snapshot-00000002.tide.tmp").write_bytes(b"half")
    folder.journal(2).write_bytes(b"TIDE")
    folder.snapshot(2).write_bytes(folder.snapshot(1).read_bytes())
    with tl.open(store) as reasoner:
        assert reasoner.commits == 3
        reasoner.apply("+ edge(x, y) .")
        crash(reasoner)
    assert not list(store.glob(".snapshot*")) and not list(store.glob("*2.tide"))
    with tl.open(store) as reasoner:
        assert reasoner.commits == 4


# ---- who may do what


def test_no_store_is_an_error_without_a_program(tmp_path: Path) -> None:
    for read_only in (True, False):
        with pytest.raises(tl.DataError) as error:
            tl.open(tmp_path / "nowhere", read_only=read_only)
        assert code_of(error) == codes.NO_STORE
    assert not (tmp_path / "nowhere").exists()


def test_a_folder_of_other_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(tl.DataError) as error:
        tl.open(tmp_path, PROGRAM)
    assert code_of(error) == codes.NO_STORE
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_one_writes_and_the_others_are_told_who(store: Path) -> None:
    program = f"import tidelog as tl\nwith tl.open({str(store)!r}):\n    print(flush=True)\n    input()"
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdin is not None and other.stdout is not None
        other.stdout.readline()
        with pytest.raises(tl.DataError) as error:
            tl.open(store)
        assert code_of(error) == codes.STORE_LOCKED
        assert f"process {other.pid}" in str(error.value)
        assert tl.open(store, read_only=True).commits == 3
        other.communicate("\n")
    tl.open(store).close()


def test_readers_see_one_version_and_change_nothing(store: Path) -> None:
    with tl.open(store) as writer:
        reader = tl.open(store, read_only=True)
        writer.apply("+ edge(x, y) .")
        writer.close()  # with a snapshot: the files that the reader has read are gone
        assert reader.commits == 3
        assert ("x", "y") not in list(reader["edge"])
        assert reader.query("reach(b, ?x)").to_texts().rows()
        before = sorted(path.read_bytes() for path in store.iterdir())
        with pytest.raises(tl.DataError) as error:
            reader.insert("edge", [("p", "q")])
        assert code_of(error) == codes.READ_ONLY
        assert sorted(path.read_bytes() for path in store.iterdir()) == before
    assert ("x", "y") in list(tl.open(store, read_only=True)["edge"])


def test_a_closed_store_takes_no_changes_but_answers(store: Path) -> None:
    with tl.open(store) as reasoner:
        pass
    reasoner.close()
    with pytest.raises(tl.DataError) as error:
        reasoner.insert("edge", [("p", "q")])
    assert code_of(error) == codes.CLOSED
    assert len(reasoner["edge"]) == 3


def test_a_store_survives_being_copied(store: Path, tmp_path: Path) -> None:
    shutil.copytree(store, tmp_path / "copy")
    with tl.open(store) as one, tl.open(tmp_path / "copy") as other:
        assert imprint(one) == imprint(other)


def test_equality_by_axioms_is_stored(tmp_path: Path) -> None:
    tl.open(tmp_path / "store", tl.parse(EQUAL), equality="axiomatise").close()
    said = "made with equality=axiomatise, but equality=rewrite was requested"
    with pytest.raises(tl.DataError, match=said) as error:
        tl.open(tmp_path / "store", equality="rewrite")
    assert code_of(error) == codes.NOT_STORABLE
    with tl.open(tmp_path / "store") as reasoner:
        assert sorted(reasoner["p"]) == [("a",), ("b",)]
        reasoner.apply("- key(b, 1) .")
        assert sorted(reasoner["p"]) == [("a",)]


def test_equality_by_rewriting_is_stored(tmp_path: Path) -> None:
    tl.open(tmp_path / "store", tl.parse(EQUAL)).close()
    said = "made with equality=rewrite, unique_names=false, but equality=axiomatise, unique_names=true"
    with pytest.raises(tl.DataError, match=said):
        tl.open(tmp_path / "store", equality="axiomatise", unique_names=True)
    with tl.open(tmp_path / "store") as reasoner:
        assert sorted(reasoner["p"]) == [("a",), ("b",)]
        reasoner.apply("- key(b, 1) .")
        assert sorted(reasoner["p"]) == [("a",)]


def test_an_inconsistency_is_stored_and_can_be_put_right(tmp_path: Path) -> None:
    for number, (text, cure) in enumerate(
        [(EQUAL + "a != b .", "- key(b, 1) ."), (EQUAL + "key(3, 1) . key(4, 1) .", "- key(4, 1) .")]
    ):
        path = tmp_path / str(number)
        tl.open(path, tl.parse(text)).close()
        with tl.open(path) as reasoner:
            with pytest.raises(tl.Inconsistent) as error:
                reasoner.materialise()
            assert code_of(error) == "E605"
            reasoner.apply(cure)
        with tl.open(path) as reasoner:
            reasoner.materialise()


def test_times_are_opened_as_they_were_derived(tmp_path: Path) -> None:
    program = tl.parse("boxplus[1, 1] p(?x) :- p(?x) . p(a)@0 .")
    time = TimeSettings(horizon=tl.read_interval("[0, 5]"))
    tl.open(tmp_path / "store", program, time=time).close()
    with tl.open(tmp_path / "store") as reasoner:
        assert str(reasoner.time.outcome) == "complete within [0, 5], after 5 rounds"
        reasoner.apply("+ p(b)@[4.5, 5] .")
        assert len(reasoner["p"]) == 7
    said = r"made with rounds=none, horizon=\[0, 5\], but rounds=3, horizon=none was requested"
    with pytest.raises(tl.DataError, match=said):
        tl.open(tmp_path / "store", time=TimeSettings(rounds=3))


def test_another_program_cannot_be_that_of_a_store_that_is_only_read(store: Path) -> None:
    with tl.open(store) as reasoner:
        program = reasoner.program
    assert tl.open(store, program, read_only=True).commits == 3
    with pytest.raises(tl.DataError, match="would change its rules: \\+1 −3") as error:
        tl.open(store, "p(?x) :- edge(?x, ?y) .", read_only=True)
    assert code_of(error) == codes.READ_ONLY


def test_a_durability_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="full, fast"):
        tl.open(tmp_path / "store", PROGRAM, durability="maybe")

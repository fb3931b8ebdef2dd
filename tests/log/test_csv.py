"""CSV files by RFC 4180: what programs write comes in as it was; what is not sure is refused with file and line."""

from __future__ import annotations

import csv
import itertools
import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakelog.errors import Invalid, InvalidRecords, InvalidRequest
from tests.conftest import Answer
from tests.quality.folders import rows, write
from tests.strategies import few
from tests.tables import versions

if TYPE_CHECKING:
    from lakelog import Lake, Topic

SIGNS = st.sampled_from(['"', ",", ";", "\n", "\r", "\r\n", " ", "\t", "é", "🙂", "a", "1", "'", "\\", "null", "\x0b", "\u2028"])
NUMBERS = itertools.count()
TEXTS = st.lists(SIGNS, max_size=6).map("".join)


@pytest.fixture(scope="module")
def text(house: Lake) -> Topic:
    return house.create_topic("text", key="STRING", value="STRING")


def _file(path: Path, content: str | bytes) -> str:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(path)


def _appended(topic: Topic, source: Any, **options: Any) -> list[tuple[Any, ...]]:
    """The (key, value, tombstone) of what an append of these files added, in order."""
    start = topic.ends()[0]
    topic.append(source, **options)
    return [(row["key"], row["value"], row["tombstone"]) for row in topic.read(0, start).collect()]


def _refused(topic: Topic, source: Any, *words: str, kind: type[Invalid] = InvalidRecords, **options: Any) -> Any:
    before = versions(topic.root, topic.name)
    with pytest.raises(kind) as caught:
        topic.append(source, **options)
    assert [word for word in words if word not in str(caught.value)] == [], str(caught.value)
    assert versions(topic.root, topic.name) == before
    return caught.value


@pytest.mark.long
@given(st.lists(TEXTS, min_size=150, max_size=150))
@few(2)
def test_texts_written_by_other_programs_come_back_equal(house: Lake, tmp_path_factory: pytest.TempPathFactory, texts: list[str]) -> None:
    import duckdb
    import pandas
    import polars

    folder = tmp_path_factory.mktemp("writers")
    rows = [(f"k{index:04}", value) for index, value in enumerate(texts)]
    with (folder / "a_module.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL).writerows([("key", "value"), *rows])
    pandas.DataFrame(rows, columns=["key", "value"]).to_csv(folder / "b_pandas.csv", index=False, quoting=csv.QUOTE_NONNUMERIC)
    # Where it quotes what it must alone, an empty text and a lone carriage return are not quoted.
    filled = [(key, value.replace("\r", "r") or "-") for key, value in rows]
    pandas.DataFrame(filled, columns=["key", "value"]).to_csv(folder / "c_minimal.csv", index=False)
    frame = pandas.DataFrame(rows, columns=["key", "value"])  # noqa: F841 - DuckDB finds it by its name
    duckdb.sql(f"COPY (SELECT * FROM frame) TO '{folder}/d_duckdb.csv' (FORMAT csv, HEADER)")
    polars.DataFrame({"key": [key for key, _ in rows], "value": texts}).write_csv(folder / "e_polars.csv")
    topic = house.create_topic(f"writers{next(NUMBERS)}", key="STRING", value="STRING")
    paths = [str(path) for path in sorted(folder.iterdir())]
    found = [(key, value) for key, value, _ in _appended(topic, paths)]
    assert found == [*rows, *rows, *filled, *rows, *rows]


def test_a_quoted_empty_field_is_text_and_an_empty_one_is_never_guessed_to_be_a_delete(text: Topic, tmp_path: Path) -> None:
    path = _file(tmp_path / "a.csv", 'key,value\na,1\n"b",""\nc,\n')
    error = _refused(text, path, "a.csv", "line 4", "a delete is not guessed", "say what means NULL: null=''")
    assert (error.count, error.problems[0]["line"]) == (1, 4)
    assert _appended(text, path, null="") == [("a", "1", False), ("b", "", False), ("c", None, True)]
    assert _appended(text, path, null="1") == [("a", None, True), ("b", "", False), ("c", "", False)]
    flagged = _file(tmp_path / "b.csv", 'key,value,tombstone\na,"",false\nb,,true\n')
    assert _appended(text, flagged) == [("a", "", False), ("b", None, True)]
    _refused(text, _file(tmp_path / "c.csv", "key,value,tombstone\na,,false\n"), "line 2", "delete")
    _refused(text, _file(tmp_path / "d.csv", "key\na\n"), "every record would be a delete", kind=InvalidRequest)


def test_fields_with_delimiters_line_breaks_and_doubled_quotes(text: Topic, tmp_path: Path) -> None:
    path = _file(tmp_path / "a.csv", '\ufeffkey,value\r\n1,"12"" pipe"\r\n\r\n2,"a,b\r\nc\n"\r\n3,x"y\r\n4,"last"')
    assert _appended(text, path) == [("1", '12" pipe', False), ("2", "a,b\r\nc\n", False), ("3", 'x"y', False), ("4", "last", False)]


WRONG: dict[str, tuple[str | bytes, tuple[str, ...]]] = {
    "a quote that is not closed": ('key,value\na,"x\ny"\nb,"open\nc,3\n', ("line 4", "not closed")),
    "text behind a closing quote": ('key,value\na,"x\ny"\n\nb,"12" pipe"\nc,3\n', ("line 5", "doubled")),
    "a carriage return that is not quoted": ("key,value\na,1\nb,\r2\n", ("line 3", "quoted")),
    "too few fields": ('key,value\n"a\n",1\nb\nc,3\n', ("line 4", "1 instead of 2")),
    "too many fields": ("key,value\na,1\nb,2,3\n", ("line 3", "3 instead of 2")),
    "octets that are not UTF-8": (b"key,value\na,1\n\nb,\xe9\nc,3\n", ("line 4", "is not utf-8 text", "encoding='cp1252'")),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_not_csv_is_refused_with_file_and_line(what: str, text: Topic, tmp_path: Path) -> None:
    content, words = WRONG[what]
    _refused(text, _file(tmp_path / "some file.csv", content), "some file.csv", *words)


def test_a_file_that_names_other_columns_than_the_first_is_refused(text: Topic, tmp_path: Path) -> None:
    one, other = _file(tmp_path / "a.csv", "key,value\n" + "a,1\n" * 9), _file(tmp_path / "b.csv", "value,key\n1,a\n")
    _refused(text, [one, other], "b.csv", "line 1", "names the columns value, key")


def test_where_records_are_put_aside_lines_are_kept_and_what_hides_others_refuses_the_file(house: Lake, tmp_path: Path) -> None:
    suites = write(tmp_path / "suites", "sifted", append=[rows("any", "true")])
    config = {"quality.suites": suites, "quality.on.failure": "quarantine"}
    topic = house.create_topic("sifted", key="STRING", value="STRING", config=config)
    one = _file(tmp_path / "a.csv", b"key,value\nk1,v1\nk2,v2,and more\nk3,caf\xe9\nk4,v4\n")
    for content, *words in (
        (WRONG["text behind a closing quote"][0], "line 5", "doubled"), (WRONG["a quote that is not closed"][0], "line 4", "not closed"),
        ("value,key\n1,a\n", "line 1", "names the columns value, key"),
    ):  # fmt: skip
        error = _refused(topic, [one, _file(tmp_path / "b.csv", content)], "b.csv", *words, "mend the file, or leave it out")
        assert (error.count, len(error.problems), error.name) == (1, 1, "INVALID_RECORD")
    done = topic.append(one)
    assert (done.records, done.quarantined) == (2, 2)
    assert [row["key"] for row in topic.read().collect()] == ["k1", "k4"]
    aside = {row["raw"]: row["reason"] for row in topic.quarantined().collect()}
    assert set(aside) == {"k2,v2,and more", '{"hex": "' + b"k3,caf\xe9".hex() + '"}'}, aside


def test_delimiter_encoding_and_names_are_as_stated_or_a_hint_is_given(text: Topic, tmp_path: Path) -> None:
    semicolons = _file(tmp_path / "a.csv", "key;value\né;1\n".encode("cp1252"))
    assert _appended(text, semicolons, delimiter=";", encoding="cp1252") == [("é", "1", False)]
    assert _appended(text, _file(tmp_path / "b.csv", "key\tvalue\né\t1\n".encode("utf-16")), delimiter="\t", encoding="utf-16") == [
        ("é", "1", False)
    ]
    _refused(text, semicolons, "another delimiter", "delimiter=';'", kind=InvalidRequest)
    _refused(text, semicolons, "line 2", "is not utf-8 text", delimiter=";")
    _refused(text, _file(tmp_path / "c.csv", "Key,value\na,1\n"), "The column 'Key' must be called 'key'", kind=InvalidRequest)
    _refused(text, _file(tmp_path / "d.csv", "key, value\na,1\n"), "Did you mean value?", kind=InvalidRequest)
    _refused(text, _file(tmp_path / "e.csv", "key,value,value\na,1,2\n"), "named twice", kind=InvalidRequest)
    _refused(text, semicolons, "one character", kind=InvalidRequest, delimiter=";;")
    _refused(text, semicolons, "no such encoding", kind=InvalidRequest, encoding="klingon")
    _refused(text, _file(tmp_path / "f.ndjson", "{}"), "CSV", kind=InvalidRequest, delimiter=";")
    _refused(text, _file(tmp_path / "g.csv", "key,headers,value\na,[],1\n"), "headers", "NDJSON", kind=InvalidRequest)


def test_files_in_folders_and_compressed_ones_are_read(text: Topic, tmp_path: Path) -> None:
    import gzip

    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "b%20 é.csv.gz").write_bytes(gzip.compress(b"key,value\nb,2\n"))
    _file(tmp_path / "in" / "a.csv", "key,value\na,1\n")
    assert _appended(text, str(tmp_path / "in"), format="csv") == [("a", "1", False), ("b", "2", False)]
    whole = gzip.compress("".join(f"{index},{uuid.uuid4()}\n" for index in range(5000)).encode())
    broken = _file(tmp_path / "broken.csv.gz", gzip.compress(b"key,value\n") + whole[: len(whole) // 2])
    _refused(text, broken, "broken.csv.gz", "cannot be read")


def test_a_large_file_is_read_in_batches(house: Lake, tmp_path: Path) -> None:
    topic = house.create_topic("large", key="id BIGINT", value="note STRING")
    lines = [f'{index},"note\n{index}"\n' for index in range(50_000)]
    assert topic.append(_file(tmp_path / "a.csv", "id,note\n" + "".join(lines))).records == 50_000
    assert topic.read().filter("offset <> key.id OR value.note <> 'note\n' || key.id").count() == 0
    lines[49_000] = 'x,"note"\n'
    _refused(topic, _file(tmp_path / "b.csv", "id,note\n" + "".join(lines)), f"line {2 * 49_000 + 2}", "id should be bigint but is x")


def test_the_command_line_takes_the_same_options(house: Lake, text: Topic, cli: Callable[..., Answer], tmp_path: Path) -> None:
    path = _file(tmp_path / "a.csv", "key\tvalue\né\tNA\n".encode("cp1252"))
    start = text.ends()[0]
    answer = cli(["--root", house.root, "append", "text", path, "--delimiter", "\\t", "--encoding", "cp1252", "--null", "NA"])
    assert answer.code == 0, answer.err
    assert [(row["key"], row["tombstone"]) for row in text.read(0, start).collect()] == [("é", True)]


def test_what_runs_within_sparks_tasks_needs_no_package_there(tmp_path: Path) -> None:
    from pyspark import cloudpickle

    from lakelog.formats import csv as module
    from lakelog.formats import files

    for one in (module, files):
        cloudpickle.register_pickle_by_value(one)
    (tmp_path / "f").write_bytes(cloudpickle.dumps((module.batches, files.stream)))
    _file(tmp_path / "a.csv", 'k,v\n"a",""\nb,\n')
    program = (
        "import sys, types, pickle; sys.modules['lakelog'] = None\n"
        "batches, stream = pickle.load(open(sys.argv[1], 'rb'))\n"
        "how = types.SimpleNamespace(delimiter=',', encoding='utf-8', codec='utf-8-sig', octets='utf-8', errors='surrogateescape', null='')\n"
        "print([b.to_pylist() for b in batches('s', stream('file:' + sys.argv[2], None), names=['k', 'v'], of='', options=how)])"
    )
    done = subprocess.run([sys.executable, "-c", program, tmp_path / "f", tmp_path / "a.csv"], capture_output=True, text=True, check=False)
    assert "'c0': 'a', 'c1': ''" in done.stdout and "'c0': 'b', 'c1': None" in done.stdout, done.stderr

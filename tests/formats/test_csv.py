"""The encoding of CSV: a file that is not of it is told so, wherever that shows, and only encodings of text are taken."""

from __future__ import annotations

import encodings.aliases
import gzip
import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lakelog.errors import InvalidRequest
from lakelog.formats.csv import CsvOptions, batches
from lakelog.formats.files import stream


def rows(data: Any, *names: str, encoding: str = "utf-8") -> list[dict[str, Any]]:
    said = CsvOptions(encoding=encoding)
    how = SimpleNamespace(delimiter=",", encoding=encoding, codec=said.codec, octets=said.octets, errors=said.errors, null="")
    return [row for one in batches("b.csv", data, names=list(names), of="a.csv", options=how) for row in one.to_pylist()]


def test_a_header_that_is_not_of_the_encoding_is_told_as_that() -> None:
    data = io.BytesIO("key,gr\u00f6\u00dfe\n1,2\n".encode("cp1252"))
    assert rows(data, "key", "gr\u00f6\u00dfe") == [{
        "src": "b.csv", "line": 1, "problem": "is not utf-8 text: name the encoding (encoding='cp1252', for example)", "rest": True, "raw": None,
        "c0": None, "c1": None,
    }]  # fmt: skip


def test_a_record_that_cannot_be_read_alone_keeps_its_lines_and_those_behind_it_are_read() -> None:
    data = b'key,value\nk1,v1\nk2,v2,and more\n\nk3,caf\xe9\r\n"k\n4",x,"y"\r\nk5,"v5"'
    found = [(row["line"], row["rest"], row["raw"], row["c0"]) for row in rows(io.BytesIO(data), "key", "value")]
    assert found == [
        (2, False, None, "k1"), (3, False, "k2,v2,and more", None), (5, False, '{"hex": "' + b"k3,caf\xe9".hex() + '"}', None),
        (6, False, '"k\n4",x,"y"', None), (8, False, None, "k5"),
    ]  # fmt: skip
    one = rows(io.BytesIO(b"key,value\nk\x81,a,b\n"), "key", "value", encoding="cp1252")
    assert [row["raw"] for row in one] == ['{"hex": "' + b"k\x81,a,b".hex() + '"}']


REST: dict[str, tuple[bytes, str, str]] = {
    "text behind a quote": (b'key,value\nk1,v1\nk2,"v2" oops\nk3,v3\n', "utf-8", "is not CSV"),
    "a quote that is not closed": (b'key,value\nk1,v1\nk2,"v2\nk3,v3\n', "utf-8", "not closed"),
    "an encoding of pairs of octets": ("key,value\nk1,v1\n".encode("utf-16") + b"\x80\xdck,v\n", "utf-16", "is not utf-16 text"),
    "other columns": (b"value,key\nv1,k1\nv2,k2\n", "utf-8", "names the columns value, key, but a.csv names key, value: append it alone"),
}


@pytest.mark.parametrize("what", REST)
def test_what_hides_the_rest_of_a_file_is_told_as_that_and_ends_it(what: str) -> None:
    data, encoding, says = REST[what]
    *before, last = rows(io.BytesIO(data), "key", "value", encoding=encoding)
    assert [row["c0"] for row in before] in ([], ["k1"])
    assert (last["rest"], last["c0"], says in last["problem"]) == (True, None, True), last["problem"]


def test_a_compressed_file_that_is_cut_off_ends_in_a_problem_of_its_rest(tmp_path: Path) -> None:
    whole = gzip.compress(b"key,value\n" + b"".join(f"k{index},{index * 7919 % 10007}\n".encode() for index in range(9000)))
    (tmp_path / "a.csv.gz").write_bytes(whole[: len(whole) // 2])
    found = rows(stream(f"file:{tmp_path}/a.csv.gz", None), "key", "value")
    assert [row["rest"] for row in found] == [False] * (len(found) - 1) + [True]
    assert "cannot be read, here or shortly after" in found[-1]["problem"]


@pytest.mark.parametrize(("encoding", "errors"), [
    ("utf-8", "surrogateescape"), ("utf-8-sig", "surrogateescape"), ("cp1252", "surrogateescape"), ("gbk", "surrogateescape"), ("utf-16", "strict"),
    ("utf-16-le", "strict"), ("utf-32", "strict"), ("utf-7", "strict"),
])  # fmt: skip
def test_octets_that_are_no_text_are_kept_where_an_encoding_can_write_them_again(encoding: str, errors: str) -> None:
    assert CsvOptions(encoding=encoding).errors == errors


@pytest.mark.parametrize("encoding", ["hex", "rot13", "base64", "zlib", "undefined", "punycode", "idna", "klingon", "", "a\0b"])
def test_what_is_no_encoding_of_text_is_refused_by_name(encoding: str) -> None:
    with pytest.raises(InvalidRequest, match="no such encoding of text") as refused:
        CsvOptions(encoding=encoding).check()
    assert repr(encoding) in str(refused.value)


def test_encodings_of_text_are_taken() -> None:
    others = {"base64_codec", "bz2_codec", "hex_codec", "quopri_codec", "rot_13", "uu_codec", "zlib_codec", "mbcs"}
    for encoding in ({*encodings.aliases.aliases.values()} - others) | {"utf-8-sig", "UTF8", "latin1", "utf-16-le", "cp037"}:
        CsvOptions(encoding=encoding).check()

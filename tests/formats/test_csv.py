"""The encoding of CSV: a file that is not of it is told so, wherever that shows, and only encodings of text are taken."""

from __future__ import annotations

import encodings.aliases
import io
from types import SimpleNamespace

import pytest

from lakelog.errors import InvalidRequest
from lakelog.formats.csv import CsvOptions, batches

HOW = SimpleNamespace(delimiter=",", encoding="utf-8", codec="utf-8-sig", null="")


def test_a_header_that_is_not_of_the_encoding_is_told_as_that() -> None:
    data = io.BytesIO("key,gr\u00f6\u00dfe\n1,2\n".encode("cp1252"))
    found = [row for one in batches("b.csv", data, names=["key", "gr\u00f6\u00dfe"], of="a.csv", options=HOW) for row in one.to_pylist()]
    assert found[0] == {
        "src": "b.csv", "line": 1, "problem": "is not utf-8 text: name the encoding (encoding='cp1252', for example)", "c0": None, "c1": None,
    }  # fmt: skip


@pytest.mark.parametrize("encoding", ["hex", "rot13", "base64", "zlib", "undefined", "punycode", "idna", "klingon", "", "a\0b"])
def test_what_is_no_encoding_of_text_is_refused_by_name(encoding: str) -> None:
    with pytest.raises(InvalidRequest, match="no such encoding of text") as refused:
        CsvOptions(encoding=encoding).check()
    assert repr(encoding) in str(refused.value)


def test_encodings_of_text_are_taken() -> None:
    others = {"base64_codec", "bz2_codec", "hex_codec", "quopri_codec", "rot_13", "uu_codec", "zlib_codec", "mbcs"}
    for encoding in ({*encodings.aliases.aliases.values()} - others) | {"utf-8-sig", "UTF8", "latin1", "utf-16-le", "cp037"}:
        CsvOptions(encoding=encoding).check()

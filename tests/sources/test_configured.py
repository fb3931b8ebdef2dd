"""Sources as a configuration names them."""

from __future__ import annotations

import pytest

from lakelog import InvalidConfig
from lakelog.sources.configured import DirectorySource, of_name, parsed


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ("./in", "must be a list"),
        ([3], r"s\[0\] must be a directory"),
        ([{"directry": "./in"}], r"no setting directry\. Did you mean directory\?"),
        ([{"directory": "./in", "recursive": "yes"}], r"recursive must be true or false"),
        ([{"directory": ""}], "directory must be text"),
        ([{"name": "a"}], "needs either a directory or a table"),
        (["./in", "in/"], "two sources are the directory /here/in"),
        (["./in", "file:///here/in"], "two sources are the directory /here/in"),
        (["file:/here/in/", "file:///here/in"], "two sources are the directory /here/in"),
        ([{"table": "./raw"}, {"table": "file:///here/raw/"}], "two sources are the table /here/raw"),
    ],
)
def test_sources_that_are_not_understood(said: object, problem: str) -> None:
    with pytest.raises(InvalidConfig, match=problem):
        parsed(said, where="s", folder="/here")


def test_sources_as_they_are_written() -> None:
    found = parsed(["in", {"directory": "s3://bucket/in/", "name": "shop", "null": ""}], where="s", folder="/here")
    assert found == (DirectorySource("/here/in"), DirectorySource("s3://bucket/in", name="shop", null=""))
    assert [one.identity for one in found] == ["directory /here/in", "directory shop"]
    for written in ("in", "/here/in/", "file:/here/in", "file:///here/in"):
        assert of_name(written, found, "/here") == found[:1]
    ledger = parsed(["file:///here/in", "//here/in", "s3a://b/in"], where="s", folder="/")
    assert [one.identity for one in ledger] == ["directory /here/in", "directory //here/in", "directory s3a://b/in"]

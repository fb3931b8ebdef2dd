"""The door to files beside the tables: what lies in a folder, and folders that are removed."""

from __future__ import annotations

import re
from typing import Any

from lakelog.errors import InvalidRequest
from lakelog.model.names import local_path


def filesystem(location: str) -> tuple[Any, str]:
    """The file system of a path or URI and the path within it (pyarrow's, credentials from the environment)."""
    from pyarrow import fs

    try:
        path = local_path(location)
        if path is not None:
            return fs.LocalFileSystem(), path
        return fs.FileSystem.from_uri(re.sub(r"^s3[an]://", "s3://", location))  # type: ignore[no-any-return]
    except Exception as error:
        raise InvalidRequest(f"{location}: pyarrow cannot open this file system: {error}") from error

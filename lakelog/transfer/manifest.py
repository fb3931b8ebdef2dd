"""What an exported topic is: its types, settings, state and files with their checksums; the manifest is written last, so it makes the export whole."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from lakelog.delta.filesystem import filesystem
from lakelog.errors import Damaged, InvalidConfig, NotFound

NAME = "manifest.json"
FORMAT = 1
SILVER, LOG = "silver", "log"
CHUNK = 1 << 20


@dataclass(frozen=True)
class File:
    """A data file: its path below the directory, its size and the SHA-256 of its octets."""

    path: str
    octets: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """An exported topic.

    Attributes:
        topic: its name.
        uuid: its identity.
        types: of key and value, as Spark's JSON.
        partitions: how many.
        settings: every setting that is not the default, as text.
        rule: the ordering rule, as its JSON.
        epoch: the log's.
        snapshot: the name or version of the snapshot.
        states: partition to what its log says of itself at the export: epochs, origin, deletes_from, cleaned, forgotten,
            and log end.
        marks: partition to (last merged offset, epoch, control) of the snapshot.
        rows: how many rows the latest table has; the versions of deleted keys that it remembers are in its files too, and not counted.
        records: how many records the log has from the snapshot's end on.
        version: bronze's.
        files: every data file.
    """

    topic: str
    uuid: str
    types: str
    partitions: int
    settings: Mapping[str, str]
    rule: str
    epoch: int
    snapshot: str
    states: Mapping[str, Mapping[str, Any]]
    marks: Mapping[str, Sequence[Any]]
    rows: int
    records: int
    version: int
    files: Sequence[File]
    format: int = FORMAT

    @property
    def identity(self) -> str:
        """Tells this export from any other, of the same topic too."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()[:32]

    def to_json(self) -> str:
        """The manifest as its file holds it."""
        return json.dumps(asdict(self), indent=1, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Manifest:
        """The manifest that a file holds.

        Raises:
            Damaged: it is none.
            InvalidConfig: a newer lakelog wrote it.
        """
        try:
            said = json.loads(text)
            newer = said["format"] > FORMAT
            if not newer:
                return cls(**{**said, "files": [File(**one) for one in said["files"]]})
        except (ValueError, KeyError, TypeError) as error:
            raise Damaged(f"{NAME} is not as lakelog writes it: {error}. Nothing was imported. Export the topic again.") from error
        raise InvalidConfig(
            f"The export was written by a newer lakelog (format {said['format']}, this one knows {FORMAT}). Upgrade lakelog."
        )


def read(directory: str) -> Manifest:
    """The manifest of an export.

    Raises:
        NotFound: there is none: the directory is no export, or one that was cut off.
    """
    store, root = filesystem(directory)
    try:
        with store.open_input_stream(f"{root.rstrip('/')}/{NAME}") as stream:
            return Manifest.from_json(stream.read().decode())
    except FileNotFoundError as error:
        raise NotFound(
            f"{directory} holds no {NAME}: it is no export of a topic, or one that was cut off. Export the topic again.",
            name="NOT_AN_EXPORT",
        ) from error


def write(directory: str, manifest: Manifest) -> None:
    """Write the manifest: under another name first, so that it is there as a whole or not at all."""
    store, root = filesystem(directory)
    place = f"{root.rstrip('/')}/{NAME}"
    with store.open_output_stream(f"{place}.new") as stream:
        stream.write(manifest.to_json().encode())
    store.move(f"{place}.new", place)


def is_there(directory: str) -> bool:
    """Whether a directory holds a manifest, or anything that is no export's."""
    store, root = filesystem(directory)
    from pyarrow import fs

    found = store.get_file_info(fs.FileSelector(root, allow_not_found=True))
    names = {one.base_name for one in found}
    return NAME in names or bool(names - {SILVER, LOG, f"{NAME}.new"})


def files(directory: str) -> list[File]:
    """The data files of an export with their checksums, by path. Cost: each is read once."""
    from pyarrow import fs

    store, root = filesystem(directory)
    found = []
    for side in (SILVER, LOG):
        for one in store.get_file_info(fs.FileSelector(f"{root.rstrip('/')}/{side}", recursive=True, allow_not_found=True)):
            if one.type == fs.FileType.File and one.base_name.endswith(".parquet"):
                digest = hashlib.sha256()
                with store.open_input_stream(one.path) as stream:
                    while chunk := stream.read(CHUNK):
                        digest.update(chunk)
                found.append(File(f"{side}/{one.path.rsplit(f'/{side}/', 1)[1]}", one.size, digest.hexdigest()))
    return sorted(found, key=lambda one: one.path)


def remove(directory: str, gone: Sequence[File]) -> None:
    """Remove data files of an export, with the checksum that Hadoop writes beside them on a disk; those that are not there are passed over."""
    store, root = filesystem(directory)
    for one in gone:
        folder, name = f"{root.rstrip('/')}/{one.path}".rsplit("/", 1)
        for path in (f"{folder}/{name}", f"{folder}/.{name}.crc"):
            with contextlib.suppress(FileNotFoundError):
                store.delete_file(path)


def check(directory: str, manifest: Manifest) -> None:
    """Compare every file with the manifest.

    Raises:
        Damaged: files are missing, changed, or none of the export's; they are named.
    """
    wanted, held = {one.path: one for one in manifest.files}, {one.path: one for one in files(directory)}
    wrong = [f"{path} is missing" for path in wanted.keys() - held.keys()] + [
        f"{path} is not the export's" for path in held.keys() - wanted.keys()
    ]
    wrong += [f"{path} was changed" for path in wanted.keys() & held.keys() if wanted[path] != held[path]]
    if wrong:
        raise Damaged(
            f"{directory}: {'; '.join(sorted(wrong)[:5])}. Nothing was imported. Export the topic again, or copy its files again."
        )

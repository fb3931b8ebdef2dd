"""The archive of Spark's classes: Java reads and checks some 20 thousand of them at each start, or maps them into memory, ready, from a file.

The file is Java's own (class data sharing), made once: a Java that was told to writes it when it ends. `lakelog doctor --spark` does that,
and else a process in the background after the first command that started Spark.
It belongs to one Java, one set of jars and one class path; Java compares them itself, and goes on without a word where they do not fit. What it
does not look at is whether the file is whole. LAKELOG_CLASS_ARCHIVE=off is to do without.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lakelog.delta.prerequisites import cache_folder, java_command

SWITCH = "LAKELOG_CLASS_ARCHIVE"
# How many archives are kept, of other Javas or other jars; each is as large as README says.
KEPT = 3
QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off -Xlog:class+path=off"
# How often it is tried in the background.
ATTEMPTS = 3
LOWEST = ("nice", "-n", "19") if shutil.which("nice") else ()
# What the process in the background does: the doctor's small lake goes the way of every verb.
MAKER = "from lakelog.cli import doctor; from lakelog.terminal import settings; doctor.try_spark(settings.Settings(master='local[2]', memory='1g'))"
# Of this process: archives that are being made, with the file that is written; those that are made when it ends.
_pending: dict[Path, Path] = {}
_later: set[Path] = set()


@dataclass(frozen=True)
class ClassArchive:
    """Where the archive for one Java and one class path is, or will be."""

    file: Path

    @property
    def exists(self) -> bool:
        """Whether it has been made, and is as long as it was then: Java maps it unseen, and breaks where it ends too early."""
        try:
            return self._lock.read_text().rpartition(" ")[2] == str(self.file.stat().st_size)
        except (OSError, ValueError):
            return False

    def java_options(self) -> str:
        """The options of a Java that uses the archive, or within `recording` writes it; empty where there is none."""
        pending = _pending.get(self.file)
        if pending is not None:
            return f'"-XX:ArchiveClassesAtExit={pending}" -XX:TieredStopAtLevel=1 {QUIET}'
        return f'-Xshare:auto "-XX:SharedArchiveFile={self.file}" {QUIET}' if self.exists else ""

    @contextlib.contextmanager
    def recording(self) -> Iterator[bool]:
        """Make the archive: a Java that is started by `java_options` within, and has ended, has written it.

        Where it wrote none, or not to the end, nothing is changed.

        Gives:
            Whether it is being made: not when it is there, another process is at it, or nothing can be written in the cache folder.
        """
        with _alone(self._lock) as mine:
            if not mine or self.exists:
                yield False
                return
            with self._lock.open("ab") as attempts:
                attempts.write(b".")
            pending = self.file.with_suffix(f".{os.getpid()}")
            _pending[self.file] = pending
            try:
                yield True
                if pending.exists() and pending.stat().st_size:
                    with pending.open("rb") as written:
                        os.fsync(written.fileno())
                    os.replace(pending, self.file)
                    with self._lock.open("a") as noted:
                        noted.write(f" {self.file.stat().st_size}")
                    self._remove_others()
            finally:
                del _pending[self.file]
                pending.unlink(missing_ok=True)

    def make_later(self) -> None:
        """When this process ends, begin another that makes the archive: of the lowest priority, and with nothing that this one has open.

        It gives up where that came to nothing `ATTEMPTS` times: a container or a service ends its last process with its first.
        """
        if self.file not in _later and not self._tried_enough():
            _later.add(self.file)
            atexit.register(self._begin)

    def _tried_enough(self) -> bool:
        try:
            return self._lock.read_text().count(".") >= ATTEMPTS
        except (OSError, ValueError):
            return False

    def _begin(self) -> None:
        if self.exists or self._tried_enough():
            return
        environment = {name: value for name, value in os.environ.items() if name != "JDK_JAVA_OPTIONS"}
        with contextlib.suppress(OSError):
            self.file.parent.mkdir(parents=True, exist_ok=True)
            with _alone(self._lock) as mine:
                if not mine:
                    return
            subprocess.Popen(
                [*LOWEST, sys.executable, "-c", MAKER], cwd=self.file.parent, env=environment, start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )  # fmt: skip

    @property
    def _lock(self) -> Path:
        """The file that the maker locks; a dot for every attempt, and the archive's size."""
        return self.file.with_suffix(".lock")

    def _remove_others(self) -> None:
        """Of the archives beside this one keep the newest."""
        others = sorted(self.file.parent.glob("*.jsa"), key=lambda one: one.stat().st_mtime, reverse=True)
        for old in others[KEPT:]:
            old.unlink(missing_ok=True)
            old.with_suffix(".lock").unlink(missing_ok=True)


def class_archive(class_path: Sequence[Path], environment: Mapping[str, str] = os.environ) -> ClassArchive | None:
    """The archive for the Java that Spark would start and the jars that go before Spark's own; None where there shall be none.

    Args:
        class_path: those jars.
        environment: where JAVA_HOME, the cache folder and the switch are looked up.
    """
    java = java_command(environment)
    if environment.get(SWITCH, "").lower() in ("off", "0", "false", "no") or java is None:
        return None
    import pyspark

    home = Path(java).resolve().parent.parent
    spark = Path(pyspark.__file__).parent / "jars"
    parts = [str(home), str(spark), pyspark.__version__, *map(str, class_path)]
    for file in (home / "release", home / "lib" / "modules", home / "lib" / "server" / "libjvm.so", spark, *class_path):
        with contextlib.suppress(OSError):
            found = file.stat()
            # Whole seconds, as Java compares them: an image keeps no parts of them.
            parts.append(f"{file.name} {found.st_size} {int(found.st_mtime)}")
    key = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
    return ClassArchive(cache_folder(environment) / "classes" / f"spark-{pyspark.__version__}-{key}.jsa")


def beside_spark(jars: Sequence[Path]) -> list[Path]:
    """Of the jars that Delta needs, those that Spark does not bring itself, in whatever version: Spark's goes before."""
    import pyspark

    def artifact(name: str) -> str:
        return re.sub(r"-\d[^/]*$", "", name)

    own = {artifact(name) for name in os.listdir(Path(pyspark.__file__).parent / "jars")}
    return [jar for jar in jars if artifact(jar.name.partition("_")[2]) not in own]


@contextlib.contextmanager
def _alone(file: Path) -> Iterator[bool]:
    """Whether this process is the only one in here; the operating system's lock on a file, released by whatever ends the process."""
    try:
        import fcntl
    except ImportError:  # Windows
        yield False
        return
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError:
        yield False
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        mine = True
    except OSError:
        mine = False
    try:
        yield mine
    finally:
        os.close(descriptor)

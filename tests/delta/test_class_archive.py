"""The archive of Spark's classes: made once, by one process; what does not fit or is broken changes nothing but the time a start takes."""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lakelog.delta import class_archive
from lakelog.delta.class_archive import ATTEMPTS, SWITCH, ClassArchive
from lakelog.delta.prerequisites import cache_folder, delta_jars, java_command

REPOSITORY = Path(__file__).parent.parent.parent


def java(archive: ClassArchive, *given: str) -> subprocess.CompletedProcess[str]:
    """A Java with the archive's options, and Spark's jars, that puts together a command line: the least of Spark that runs."""
    import pyspark

    jars = Path(pyspark.__file__).parent / "jars"
    class_path = os.pathsep.join(map(str, [next(jars.glob("spark-launcher_*.jar")), next(jars.glob("spark-common-utils_*.jar"))]))
    main = ["-cp", class_path, *given, "org.apache.spark.launcher.Main", "org.apache.spark.deploy.SparkSubmit", "--version"]
    environment = {**os.environ, "SPARK_HOME": str(jars.parent), "SPARK_SCALA_VERSION": "2.13"}
    command = [str(java_command()), *shlex.split(archive.java_options()), *main]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120, check=False)


def test_an_archive_is_made_and_a_broken_one_changes_nothing(tmp_path: Path) -> None:
    archive = ClassArchive(tmp_path / "with space" / "classes.jsa")
    plain = java(archive)
    assert plain.returncode == 0, plain.stderr
    with archive.recording() as making:
        assert making
        made = java(archive)
        assert not archive.exists
    assert (made.returncode, archive.exists) == (0, True), made.stderr
    assert [file.suffix for file in sorted(archive.file.parent.iterdir())] == [".jsa", ".lock"]
    # That it is used: without one that fits, this Java would not start.
    assert java(archive, "-Xshare:on").returncode == 0

    whole = archive.file.read_bytes()
    archive.file.chmod(0o644)
    for broken in (b"", whole[: len(whole) // 2], whole[:-1], bytes(4096) + whole[4096:]):
        archive.file.write_bytes(broken)
        assert archive.exists == (len(broken) == len(whole))
        started = java(archive)
        assert (started.returncode, started.stdout, started.stderr) == (0, plain.stdout, plain.stderr)
    archive.file.write_bytes(whole)
    with archive.recording() as making:
        assert not making, "it is whole again"


def test_one_process_makes_it_and_gives_up_after_some_attempts(tmp_path: Path) -> None:
    archive = ClassArchive(tmp_path / "classes.jsa")
    for _ in range(ATTEMPTS):
        with archive.recording() as making, ClassArchive(archive.file).recording() as second:
            assert (making, second) == (True, False)
            assert "-XX:ArchiveClassesAtExit=" in archive.java_options()
    assert archive.java_options() == ""

    began = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subprocess, "Popen", lambda *given, **_: began.append(given))
        archive._begin()
        ClassArchive(tmp_path / "other.jsa")._begin()
    assert len(began) == 1


def test_it_belongs_to_one_java_and_one_set_of_jars_and_can_be_switched_off(tmp_path: Path) -> None:
    jar = tmp_path / "one.jar"
    jar.write_bytes(b"1")
    here = {"LAKELOG_CACHE": str(tmp_path / "cache"), "PATH": os.environ["PATH"]}
    first = class_archive.class_archive([jar], here)
    assert first is not None
    assert first.file.parent == tmp_path / "cache" / "classes"
    assert class_archive.class_archive([jar], here) == first
    jar.write_bytes(b"12")
    changed = class_archive.class_archive([jar], here)
    assert changed is not None
    assert changed.file != first.file
    assert class_archive.class_archive([jar], {**here, SWITCH: "off"}) is None
    assert class_archive.class_archive([jar], {**here, "PATH": ""}) is None


def test_of_delta_only_what_spark_does_not_bring_goes_before_spark() -> None:
    beside = [jar.name for jar in class_archive.beside_spark(delta_jars(print))]

    assert any(name.startswith("io.delta_delta-spark") for name in beside)
    assert not [name for name in beside if "jackson-databind" in name or "hadoop-client" in name or "log4j" in name]


@pytest.mark.long
def test_the_first_start_of_spark_has_it_made_and_the_second_one_uses_it(tmp_path: Path) -> None:
    script = (
        "from lakelog import local_session\n"
        "spark = local_session(master='local[1]', memory='1g')\n"
        "spark.range(1).count()\n"
        "maps = open(f'/proc/{spark._sc._gateway.proc.pid}/maps').read()\n"
        "print('ARCHIVE' if '.jsa' in maps.replace('classes.jsa', '').replace('classes_nocoops.jsa', '') else 'NONE')\n"
    )
    cache = tmp_path / "cache"
    cache.mkdir()
    (cache / "jars").symlink_to(cache_folder() / "jars")
    environment = {**os.environ, "LAKELOG_CACHE": str(cache), "PYTHONPATH": str(REPOSITORY)}

    def start() -> str:
        done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True, timeout=300)
        return done.stdout.strip()

    assert start() == "NONE"
    until = time.monotonic() + 600
    while not list((cache / "classes").glob("*.jsa")):
        assert time.monotonic() < until, (cache / "spark.log").read_text(errors="replace")[-2000:]
        time.sleep(1)
    assert start() == "ARCHIVE"
    with contextlib.suppress(OSError):
        assert len(list((cache / "classes").iterdir())) == 2

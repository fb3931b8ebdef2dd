"""A real Kafka broker: Maven Central's jars, KRaft, a process of its own on loopback, that can be killed and started again."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyspark

VERSION = "3.9.1"
STORE_PASSWORD = "of-the-store"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
JARS = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "lakelog-tests" / f"kafka-{VERSION}"


def jars() -> Path:
    """The folder with the broker's jars, fetched once (Ivy comes with Spark)."""
    if not JARS.is_dir():
        ivy = next((Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar"))
        part = JARS.with_name(f"{JARS.name}.{os.getpid()}")
        pattern = f"{part}/[artifact]-[revision].[ext]"
        wanted = [
            "-dependency",
            "org.apache.kafka",
            "kafka_2.13",
            VERSION,
            "-types",
            "jar",
            "bundle",
            "-confs",
            "default",
            "-retrieve",
            pattern,
        ]
        subprocess.run(["java", "-jar", str(ivy), *wanted], check=True, capture_output=True, timeout=600)
        with contextlib.suppress(OSError):
            part.rename(JARS)
    return JARS


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


class Broker:
    """One broker that is its own controller. `start`, `kill` (with -9), `start` again: its log stays.

    With ``users`` (name to password) it has a second door, at ``secured_port``, for these alone: SASL_SSL with PLAIN, and a certificate that
    ``truststore`` (PKCS12, `STORE_PASSWORD`) trusts.
    """

    def __init__(self, folder: Path, users: Mapping[str, str] | None = None) -> None:
        self.folder, self.port, self.controller, self.secured_port = folder, _free_port(), _free_port(), _free_port()
        self.truststore = folder / "trusted.p12"
        self.process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True)
        self.settings = folder / "server.properties"
        self.settings.write_text(
            f"""process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{self.controller}
listeners=PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{self.controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{self.port}
controller.listener.names=CONTROLLER
log.dirs={folder}/log
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
num.network.threads=2
num.io.threads=2
log.cleaner.backoff.ms=200
log.cleaner.threads=1
log.cleaner.dedupe.buffer.size=16000000
log.retention.check.interval.ms=1000
auto.create.topics.enable=false
""",
            encoding="utf-8",
        )
        if users:
            self._secure(users)
        self._run("kafka.tools.StorageTool", "format", "-t", _cluster_id(), "-c", str(self.settings))

    def _secure(self, users: Mapping[str, str]) -> None:
        """Add the second door to the settings, with a certificate of its own."""
        store = self.folder / "broker.p12"
        own = ["-storetype", "PKCS12", "-storepass", STORE_PASSWORD, "-alias", "broker"]
        name = ["-dname", "CN=127.0.0.1", "-ext", "SAN=ip:127.0.0.1", "-validity", "2"]
        certificate = self.folder / "broker.pem"
        for given in (
            ["-genkeypair", "-keystore", str(store), "-keyalg", "RSA", "-keysize", "2048", *name, *own],
            ["-exportcert", "-rfc", "-keystore", str(store), "-file", str(certificate), *own],
            ["-importcert", "-noprompt", "-keystore", str(self.truststore), "-file", str(certificate), *own],
        ):
            subprocess.run(["keytool", *given], check=True, capture_output=True, timeout=120)
        known = " ".join(f'user_{user}="{password}"' for user, password in users.items())
        secured, text = f"SASL_SSL://127.0.0.1:{self.secured_port}", self.settings.read_text(encoding="utf-8")
        for doors in ("\nlisteners=", "\nadvertised.listeners="):
            text = text.replace(doors, f"{doors}{secured},")
        text += f"""listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_SSL:SASL_SSL
inter.broker.listener.name=PLAINTEXT
sasl.enabled.mechanisms=PLAIN
listener.name.sasl_ssl.plain.sasl.jaas.config={PLAIN} required {known};
ssl.keystore.location={store}
ssl.keystore.type=PKCS12
ssl.keystore.password={STORE_PASSWORD}
"""
        self.settings.write_text(text, encoding="utf-8")

    @property
    def address(self) -> str:
        """Where clients find it."""
        return f"127.0.0.1:{self.port}"

    def _command(self, main: str, *given: str) -> list[str]:
        return ["java", "-Xmx384m", "-cp", f"{jars()}/*", main, *given]

    def _run(self, main: str, *given: str) -> None:
        done = subprocess.run(self._command(main, *given), capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]

    def start(self) -> None:
        """Start it and wait until it takes connections."""
        with (self.folder / "broker.out").open("ab") as out:
            self.process = subprocess.Popen(
                self._command("kafka.Kafka", str(self.settings)), stdout=out, stderr=subprocess.STDOUT, start_new_session=True
            )
        until = time.monotonic() + 120
        while True:
            assert self.process.poll() is None, (self.folder / "broker.out").read_text(errors="replace")[-3000:]
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
                return
            assert time.monotonic() < until, "the broker did not start"
            time.sleep(0.2)

    def kill(self) -> None:
        """kill -9."""
        if self.process is not None and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(30)


def _cluster_id() -> str:
    """A new id in Kafka's spelling; as in ``Uuid.randomUuid`` none that begins with a dash, which is read as an option."""
    import base64

    while True:
        given = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not given.startswith("-"):
            return given


@contextlib.contextmanager
def running(folder: Path, users: Mapping[str, str] | None = None) -> Iterator[Broker]:
    """A broker that is there for the length of a block."""
    broker = Broker(folder, users)
    try:
        broker.start()
        yield broker
    finally:
        broker.kill()

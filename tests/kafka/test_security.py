"""A broker that asks who comes and shows a certificate (SASL_SSL): its topic is taken, the secrets by reference; without them nothing is."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from lakelog import Lake
from tests.conftest import Answer
from tests.kafka.broker import PLAIN, STORE_PASSWORD, running
from tests.kafka.test_source import log, messages
from tests.kafka.topics import create, produce

SECRET = "s3cr3t-of-the-shop"


@pytest.mark.long
def test_a_topic_is_taken_from_a_broker_with_sasl_and_tls(
    lake: Lake, cli: Callable[..., Answer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The way of README's "From Kafka": the name and password in the environment, the store's password in a file."""
    topic, report, store = lake.create_topic("shop"), tmp_path / "run.json", tmp_path / "store-password"
    store.write_text(f"{STORE_PASSWORD}\n", encoding="utf-8")

    def jaas(password: str) -> str:
        return f'{PLAIN} required username="shop" password="{password}";'

    with running(tmp_path / "broker", {"shop": SECRET}) as broker:
        create(broker, "shop")
        truth = produce(broker, "shop", messages("abc"))
        options = {
            "kafka.security.protocol": "SASL_SSL", "kafka.sasl.mechanism": "PLAIN", "kafka.sasl.jaas.config": "env:SHOP_JAAS",
            "kafka.ssl.truststore.location": str(broker.truststore), "kafka.ssl.truststore.type": "PKCS12",
            "kafka.ssl.truststore.password": f"file:{store}", "kafka.default.api.timeout.ms": "6000", "kafka.request.timeout.ms": "5000",
        }  # fmt: skip

        def run(**changed: str | None) -> Answer:
            held = {name: text for name, text in {**options, **changed}.items() if text is not None}
            written = ", ".join(f'"{name}" = "{text}"' for name, text in held.items())
            toml = f'root = "{lake.root}"\n[topics.shop]\nsources = [{{kafka = "shop", mirror = true,'
            toml += f' bootstrap_servers = "127.0.0.1:{broker.secured_port}", options = {{{written}}}}}]\n'
            (tmp_path / "lakelog.toml").write_text(toml, encoding="utf-8")
            return cli(f"--json run shop --config {tmp_path / 'lakelog.toml'} --report {report}")

        monkeypatch.setenv("SHOP_JAAS", jaas("of-somebody-else"))
        refused = run()
        assert refused.code != 0 and "uthentication" in refused.out + refused.err
        monkeypatch.setenv("SHOP_JAAS", jaas(SECRET))
        stranger = run(**{"kafka.ssl.truststore.location": None, "kafka.ssl.truststore.password": None, "kafka.ssl.truststore.type": None})
        assert stranger.code != 0
        assert log(topic) == {}
        done = run()
        assert done.code == 0, done.out + done.err
        assert (json.loads(report.read_text())["steps"][0]["report"]["sources"][0]["ends"], log(topic)) == ({"0": 3}, truth)

    runs = [str(row) for row in lake.spark.read.format("delta").load(f"{lake.root}/_lakelog/runs").collect()]
    told = "".join([report.read_text(), *runs, *(one.out + one.err for one in (refused, stranger, done))])
    assert not any(secret in told for secret in (SECRET, "of-somebody-else", STORE_PASSWORD, "PlainLoginModule"))

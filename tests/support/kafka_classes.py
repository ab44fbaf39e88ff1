"""Kafka's classes, read and verified once a run: after that its programs are up in half the time.

Java's class data sharing: a first process writes at its end what it has loaded, and later ones map
that file (https://docs.oracle.com/en/java/javase/17/vm/class-data-sharing.html). They are Kafka's
own programs as ever; a class that is not in the file is loaded from its jar, and so is everything
where Java cannot make or use the file.
"""

import fcntl
import random
import shlex
import signal
import subprocess
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from admin.tools import kafka_brokers
from admin.tools.kafka_runtime import Runtime
from admin.tools.local_plan import as_properties
from quorum.transport.address import Address
from tests.support.ports import free_ports

CLUSTER_ID: Final = "4L6g3nShT-eMCtK--X86sw"
HOST: Final = "127.0.0.1"
UP: Final = "Kafka Server started"
LOOKS_MAX: Final = 1_200
LOOK_AGAIN_SECONDS: Final = 0.05
STOP_SECONDS: Final = 60


def sharing_classes(runtime: Runtime, folder: Path) -> Runtime:
    """The same release, whose Java maps the classes that are kept in this folder.

    Who comes first makes the file; who comes meanwhile, from another process, waits for it.
    """
    home = folder / runtime.release.version
    home.mkdir(parents=True, exist_ok=True)
    java, archive = home / "java", home / "classes.jsa"
    with (home / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not java.exists():
            _make(runtime, home, archive)
            options = [f"-XX:SharedArchiveFile={archive}"] if archive.exists() else []
            command = shlex.join([str(runtime.java), *options])
            java.write_text(f'#!/bin/sh\nexec {command} "$@"\n', encoding="utf-8")
            java.chmod(0o700)
    return replace(runtime, java=java)


def _make(runtime: Runtime, home: Path, archive: Path) -> None:
    """Run a broker that is its own controller until it is up, and let it write down what it has."""
    storage = home / "data"
    settings, logging = home / "broker.properties", home / "logging.properties"
    broker, controller = (Address(HOST, port) for port in free_ports(home, 2).values())
    kafka_brokers.format_storage(storage, CLUSTER_ID, 1, random.Random(1))
    listeners = f"PLAINTEXT://{broker},{kafka_brokers.CONTROLLER_LISTENER}://{controller}"
    values = kafka_brokers.broker_settings(
        1,
        broker,
        storage,
        controllers={1: controller},
        brokers=1,
        voters_in_log=False,
        more={"process.roles": "broker,controller", "listeners": listeners},
    )
    settings.write_text(as_properties(values), encoding="utf-8")
    logging.write_text(runtime.release.logging_file, encoding="utf-8")
    java, *rest = runtime.broker(settings, logging)
    log = home / "broker.log"
    with log.open("wb") as said:
        process = subprocess.Popen(
            [java, f"-XX:ArchiveClassesAtExit={archive}", *rest], stdout=said, stderr=said
        )
    _until_up(process, log)
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        archive.unlink(missing_ok=True)


def _until_up(process: "subprocess.Popen[bytes]", log: Path) -> None:
    """Return when it is up, or has ended, or has had its time."""
    for _ in range(LOOKS_MAX):
        if process.poll() is not None or UP in log.read_text(encoding="utf-8"):
            return
        with suppress(subprocess.TimeoutExpired):
            process.wait(LOOK_AGAIN_SECONDS)

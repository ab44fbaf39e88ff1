"""The Debian package and the container image, built and tried, where there is what builds them."""

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.process.installed import RUN_SECONDS_MAX, build_sdist, build_wheel, run
from tests.support import tree

pytestmark = [pytest.mark.process, pytest.mark.long]

LOCK: Final = tree.ROOT / "requirements" / "run.txt"
BUILD_SECONDS_MAX: Final = 1_800
IMAGE: Final = "localhost/metaquorum-test:latest"
ARGS_VARIABLE: Final = "IMAGE_ARGS"
"""Further arguments of the build, such as other bases than those of the public registry."""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to install a package")
@pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="there is no dpkg-deb")
@pytest.mark.skipif(sys.base_prefix != "/usr", reason="this Python is not Debian's")
def test_the_debian_package_is_installed_runs_a_node_and_is_removed(tmp_path: Path) -> None:
    wheel = build_wheel(tmp_path, {})
    pip = tmp_path / "pip"
    pip.write_text(f'#!/bin/sh\nexec {sys.executable} -m pip "$@"\n', encoding="utf-8")
    pip.chmod(0o755)
    debian = tree.ROOT / "deploy" / "debian"
    made = tmp_path / "made"
    build = (debian / "build.sh", pip, wheel, LOCK, made)
    run(*build, cwd=tree.ROOT, seconds=BUILD_SECONDS_MAX)
    (package,) = made.glob("*.deb")
    said = run(debian / "try.sh", package, cwd=tmp_path, seconds=RUN_SECONDS_MAX)
    for line in ("(pure, Python 3.", "CurrentVoters:          [1]", "installed, run, removed and"):
        assert line in said
    assert not Path("/usr/lib/metaquorum").exists()


@pytest.fixture(scope="module")
def builder() -> str:
    for name in ("docker", "podman", "buildah"):
        if shutil.which(name) is not None:
            answered = subprocess.run([name, "info"], capture_output=True, check=False, timeout=60)
            if answered.returncode == 0:
                return name
    pytest.skip("no docker, podman or buildah answers here")


@pytest.fixture(scope="module")
def image(builder: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The image, built of the sdist."""
    folder = tmp_path_factory.mktemp("image")
    given = shlex.split(os.environ.get(ARGS_VARIABLE, ""))
    containerfile = tree.ROOT / "deploy" / "container" / "Containerfile"
    bases = [
        line.partition("=")[2]
        for line in containerfile.read_text(encoding="utf-8").splitlines()
        if line.startswith(("ARG BASE=", "ARG BUILD_BASE="))
    ]
    for base in () if given else bases:
        pulled = subprocess.run(
            [builder, "pull", base], capture_output=True, check=False, timeout=BUILD_SECONDS_MAX
        )
        if pulled.returncode != 0:
            pytest.skip(f"{base} cannot be pulled here; {ARGS_VARIABLE} may name another base")
    sdist = build_sdist(folder)
    run("tar", "-xzf", sdist, cwd=folder, seconds=RUN_SECONDS_MAX)
    source = folder / sdist.name.removesuffix(".tar.gz")
    file = source / "deploy" / "container" / "Containerfile"
    build = (builder, "build", "-t", IMAGE, "-f", str(file), *given, str(source))
    run(*build, cwd=folder, seconds=BUILD_SECONDS_MAX)
    return IMAGE


def test_the_image_is_nobody_and_has_the_program(builder: str, image: str, tmp_path: Path) -> None:
    def called(*arguments: str) -> str:
        return run(builder, *arguments, cwd=tmp_path, seconds=RUN_SECONDS_MAX).strip()

    if builder == "buildah":
        config = json.loads(called("inspect", "--type", "image", image))["OCIv1"]["config"]
        container = called("from", image)
        try:
            said = called("run", container, "--", "sh", "-c", "id -u; metaquorum --version")
        finally:
            called("rm", container)
    else:
        config = json.loads(called("inspect", image))[0]["Config"]
        restricted = ("--rm", "--read-only", "--cap-drop", "ALL", "--entrypoint", "sh")
        said = called("run", *restricted, image, "-c", "id -u; metaquorum --version")
    assert config["User"] == "10001:10001"
    assert config["Entrypoint"] == ["metaquorum"]
    number, version = said.splitlines()
    assert number == "10001"
    assert version.startswith("metaquorum ")

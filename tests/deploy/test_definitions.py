"""The definitions of `deploy/`: by their schemas, and with settings that a node accepts.

Wherever something runs a node, the settings are loaded as the node itself would load them: a name
that is no setting, or a value out of its bounds, would keep every node of such a cluster down.
"""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import Any, Final

import jsonschema
import kubernetes_validate
import pytest
import yaml

from admin.config import Config, load
from hatch_build import ASKED
from tests.support import tree

DEPLOY: Final = tree.ROOT / "deploy"
RELEASES: Final = ("1.32", kubernetes_validate.latest_version())
"""The oldest release of Kubernetes that docs/install.md names, and the newest that is known."""
UID: Final = 10001


def documents() -> list[dict[str, Any]]:
    return [
        each
        for name in ("namespace.yaml", "metaquorum.yaml")
        for each in yaml.safe_load_all((DEPLOY / "kubernetes" / name).read_text(encoding="utf-8"))
    ]


def of_kind(kind: str, name: str = "metaquorum") -> dict[str, Any]:
    (found,) = (
        each for each in documents() if (each["kind"], each["metadata"]["name"]) == (kind, name)
    )
    return found


def compose() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
    return found


def controller(variables: Mapping[str, str]) -> Config:
    """The settings of a controller, as it would load them; variables of others are ignored."""
    config = load(None, variables)
    assert isinstance(config, Config)
    return config


# --- Kubernetes ------------------------------------------------------------------------------


@pytest.mark.parametrize("release", RELEASES)
def test_every_manifest_is_valid_in_each_release(release: str) -> None:
    kinds = set()
    for each in documents():
        kubernetes_validate.validate(each, release, strict=True)
        kinds.add(each["kind"])
    assert kinds >= {"StatefulSet", "PodDisruptionBudget", "Service", "NetworkPolicy"}


def test_a_misspelt_field_would_be_found() -> None:
    budget = of_kind("PodDisruptionBudget")
    budget["spec"]["maxUnavailabel"] = budget["spec"].pop("maxUnavailable")
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(budget, RELEASES[-1], strict=True)


def test_everything_selects_the_pods_of_the_stateful_set() -> None:
    spec = of_kind("StatefulSet")["spec"]
    labels = spec["template"]["metadata"]["labels"]
    assert spec["selector"]["matchLabels"] == labels
    for name in ("metaquorum", "metaquorum-controllers"):
        assert of_kind("Service", name)["spec"]["selector"] == labels
    assert of_kind("PodDisruptionBudget")["spec"]["selector"]["matchLabels"] == labels
    assert of_kind("NetworkPolicy")["spec"]["podSelector"]["matchLabels"] == labels
    for spread in spec["template"]["spec"]["topologySpreadConstraints"]:
        assert spread["labelSelector"]["matchLabels"] == labels


def test_no_drain_takes_the_majority_and_controllers_find_each_other_before_they_are_ready() -> (
    None
):
    replicas = of_kind("StatefulSet")["spec"]["replicas"]
    assert replicas - of_kind("PodDisruptionBudget")["spec"]["maxUnavailable"] > replicas // 2
    service = of_kind("Service", "metaquorum-controllers")["spec"]
    assert service["clusterIP"] == "None"
    assert service["publishNotReadyAddresses"] is True
    assert of_kind("StatefulSet")["spec"]["serviceName"] == "metaquorum-controllers"


def variables_of(pod: int) -> dict[str, str]:
    """The environment of a pod, as Kubernetes would make it."""
    spec = of_kind("StatefulSet")["spec"]["template"]["spec"]
    # Else there were METAQUORUM_PORT and others, of the service: no settings.
    assert spec["enableServiceLinks"] is False
    (container,) = spec["containers"]
    fields = {
        "metadata.name": f"metaquorum-{pod}",
        "metadata.labels['apps.kubernetes.io/pod-index']": str(pod),
    }
    found = dict[str, str]()
    for each in container["env"]:
        value = each.get("value")
        if value is None:
            value = fields[each["valueFrom"]["fieldRef"]["fieldPath"]]
        found[each["name"]] = re.sub(r"\$\((\w+)\)", lambda name: found[name[1]], value)
    return {name: value for name, value in found.items() if name.startswith("METAQUORUM_")}


def test_each_pod_is_the_voter_that_the_others_know() -> None:
    count = of_kind("StatefulSet")["spec"]["replicas"]
    configs = [controller(variables_of(pod)) for pod in range(count)]
    assert [config.quorum.node_id for config in configs] == list(range(count))
    assert len({str(config.quorum.voters) for config in configs}) == 1
    voters = variables_of(0)["METAQUORUM_QUORUM_VOTERS"].split(",")
    for pod, voter in enumerate(voters):
        advertised = variables_of(pod)["METAQUORUM_ADVERTISED_LISTENERS"]
        assert voter == f"{pod}@{advertised.removeprefix('CONTROLLER://')}"
    assert len(voters) == count


def test_probes_ask_what_answers_them_and_the_ports_are_those_of_the_settings() -> None:
    (container,) = of_kind("StatefulSet")["spec"]["template"]["spec"]["containers"]
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    variables = variables_of(0)
    assert variables["METAQUORUM_HTTP_LISTENER"] == f"0.0.0.0:{ports['http']}"
    assert variables["METAQUORUM_LISTENERS"] == f"CONTROLLER://0.0.0.0:{ports['controller']}"
    paths = {name: container[name]["httpGet"] for name in container if name.endswith("Probe")}
    assert paths == {
        "startupProbe": {"path": "/livez", "port": "http"},
        "livenessProbe": {"path": "/livez", "port": "http"},
        "readinessProbe": {"path": "/readyz", "port": "http"},
    }


def test_a_pod_is_nobody_and_writes_nothing_but_its_data() -> None:
    spec = of_kind("StatefulSet")["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["runAsUser"] == UID
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    mounts = {each["mountPath"] for each in container["volumeMounts"]}
    data = Path(variables_of(0)["METAQUORUM_LOG_DIR"])
    # A folder below that of the volume, whose mode the node chooses itself.
    assert str(data.parent) in mounts
    assert mounts == {"/var/lib/metaquorum", "/tmp"}


@pytest.mark.parametrize("release", RELEASES)
def test_the_pod_of_a_volume_sees_it_as_the_controller_does(release: str) -> None:
    """docs/recovery.md puts a restored folder there, or recovers what is left."""
    text = (DEPLOY / "kubernetes" / "volume.yaml").read_text(encoding="utf-8")
    pod, claim = yaml.safe_load_all(text.replace("ORDINAL", "0"))
    for each in (pod, claim):
        kubernetes_validate.validate(each, release, strict=True)
    controllers = of_kind("StatefulSet")["spec"]
    (template,) = controllers["volumeClaimTemplates"]
    volume = template["metadata"]["name"]
    assert claim["spec"] == template["spec"]
    assert claim["metadata"]["name"] == f"{volume}-metaquorum-0"
    data, _ = pod["spec"]["volumes"]
    assert data["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    (mine,), (theirs,) = pod["spec"]["containers"], controllers["template"]["spec"]["containers"]
    for same in ("image", "volumeMounts", "securityContext"):
        assert mine[same] == theirs[same]
    assert pod["spec"]["securityContext"] == controllers["template"]["spec"]["securityContext"]
    assert pod["spec"]["enableServiceLinks"] is False


def test_recovery_names_the_folders_of_the_packages() -> None:
    page = (tree.ROOT / "docs" / "recovery.md").read_text(encoding="utf-8")
    assert f"`{variables_of(0)['METAQUORUM_LOG_DIR']}` in the volume `data-metaquorum-N`" in page
    assert f"`{UID}:{UID}`" in page
    assert "`/var/lib/metaquorum/NAME`" in page
    (voters,) = re.findall(r"BOOTSTRAP_SERVERS=(\S+)", page)
    assert variables_of(1)["METAQUORUM_ADVERTISED_LISTENERS"] == f"CONTROLLER://{voters}"


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="there is no kubectl")
def test_kustomize_puts_everything_into_the_namespace() -> None:
    command = ["kubectl", "kustomize", str(DEPLOY / "kubernetes")]
    made = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    found = list(yaml.safe_load_all(made))
    assert len(found) == len(documents())
    others = [each for each in found if each["kind"] != "Namespace"]
    assert {each["metadata"]["namespace"] for each in others} == {"metaquorum"}


# --- the compose file ------------------------------------------------------------------------


def test_the_compose_file_is_valid() -> None:
    schemas = resources.files("check_jsonschema") / "builtin_schemas" / "vendor"
    schema = json.loads((schemas / "compose-spec.json").read_text(encoding="utf-8"))
    validator = jsonschema.Draft202012Validator(schema)
    validator.validate(compose())
    broken = compose()
    broken["services"]["controller-1"]["read-only"] = True
    with pytest.raises(jsonschema.ValidationError):
        validator.validate(broken)


def test_each_service_is_the_voter_that_the_others_know() -> None:
    services = compose()["services"]
    voters = set()
    for name, service in services.items():
        config = controller(service["environment"])
        advertised = service["environment"]["METAQUORUM_ADVERTISED_LISTENERS"]
        voters.add(f"{config.quorum.node_id}@{advertised.removeprefix('CONTROLLER://')}")
        assert advertised == f"CONTROLLER://{name}:9093"
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        data = service["environment"]["METAQUORUM_LOG_DIR"]
        assert service["volumes"] == [f"{name}:{data}"]
        # Nothing asks for a password: only this machine reaches the live page.
        assert all(port.startswith("127.0.0.1:") for port in service["ports"])
    for service in services.values():
        assert set(service["environment"]["METAQUORUM_QUORUM_VOTERS"].split(",")) == voters


# --- the image -------------------------------------------------------------------------------


def instructions() -> Iterator[tuple[str, str]]:
    """Each instruction of the Containerfile with its arguments, lines joined."""
    text = (DEPLOY / "container" / "Containerfile").read_text(encoding="utf-8")
    joined = re.sub(r"\\\n\s*", "", re.sub(r"(?m)^#.*\n", "", text))
    for line in filter(None, joined.splitlines()):
        word, _, rest = line.partition(" ")
        yield word, rest


KNOWN: Final = {
    *("ARG", "CMD", "COPY", "ENTRYPOINT", "ENV", "EXPOSE", "FROM", "HEALTHCHECK", "RUN"),
    *("STOPSIGNAL", "USER", "VOLUME", "WORKDIR"),
}


def final_stage() -> dict[str, str]:
    """The last instruction of each kind in the stage that becomes the image."""
    found = list(instructions())
    assert {word for word, _ in found} <= KNOWN
    last = max(at for at, (word, _) in enumerate(found) if word == "FROM")
    return dict(found[last:])


def test_the_image_is_nobody_and_starts_a_node() -> None:
    stage = final_stage()
    assert stage["USER"] == f"{UID}:{UID}"
    assert json.loads(stage["ENTRYPOINT"]) == ["metaquorum"]
    assert json.loads(stage["CMD"]) == ["start"]
    assert stage["VOLUME"] == stage["WORKDIR"] == "/var/lib/metaquorum"
    # The variables of the image would win over those of a file.
    assert "METAQUORUM_" not in stage["ENV"]


def test_the_health_check_is_a_program() -> None:
    said = final_stage()["HEALTHCHECK"].partition("CMD ")[2]
    program, *options, code = json.loads(said)
    assert (program, options) == ("python", ["-I", "-c"])
    compile(code, "the health check", "exec")
    assert "HEALTH_URL=http://127.0.0.1:8080/livez" in final_stage()["ENV"]


def test_the_image_installs_nothing_without_its_hash() -> None:
    installs = [each for word, each in instructions() if word == "RUN" and " install " in each]
    for line in installs:
        for each in re.findall(r"pip.*?install (.*?)(?:&&|$)", line):
            assert "--require-hashes" in each or "--no-index" in each, each
    assert sum(line.count("pip") for line in installs) >= 3
    assert any(word == "ARG" and rest == f"{ASKED}=1" for word, rest in instructions())


# --- systemd ---------------------------------------------------------------------------------

UNIT: Final = DEPLOY / "systemd" / "metaquorum@.service"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd")
def test_systemd_takes_the_unit_and_finds_it_well_confined(tmp_path: Path) -> None:
    unit = tmp_path / "metaquorum@node.service"
    # The program is where the package puts it; systemd asks for one that is there.
    text = UNIT.read_text(encoding="utf-8").replace("/usr/bin/metaquorum", "/bin/true")
    unit.write_text(text, encoding="utf-8")
    done = analyze("verify", "--man=no", str(unit))
    assert (done.returncode, done.stderr) == (0, "")
    done = analyze("security", "--offline=true", "--threshold=15", str(unit))
    assert done.returncode == 0, done.stdout
    unit.write_text(text.replace("LimitNOFILE", "LimitNOFILES"), encoding="utf-8")
    assert "LimitNOFILES" in analyze("verify", "--man=no", str(unit)).stderr


def analyze(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = ["systemd-analyze", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_the_unit_gives_a_node_its_descriptors_and_its_folder() -> None:
    lines = UNIT.read_text(encoding="utf-8").splitlines()
    assert "LimitNOFILE=65536" in lines
    example = (DEPLOY / "debian" / "controller.properties").read_text(encoding="utf-8")
    assert "log.dir=/var/lib/metaquorum/controller-1\n" in example
    assert {"StateDirectory=metaquorum/%i", "ProtectSystem=strict", "User=metaquorum"} <= set(lines)


def test_the_unit_and_the_package_agree_who_may_read_the_settings() -> None:
    """systemd would call another mode a mistake at every start."""
    install = (DEPLOY / "debian" / "postinst").read_text(encoding="utf-8")
    (mode,) = re.findall(r"chmod (\d+) /etc/metaquorum\n", install)
    lines = UNIT.read_text(encoding="utf-8").splitlines()
    assert f"ConfigurationDirectoryMode={mode}" in lines


def test_the_example_of_the_package_is_a_controller() -> None:
    config = load(DEPLOY / "debian" / "controller.properties", {})
    assert isinstance(config, Config)
    assert config.quorum.node_id == 1

"""deploy/helm: rendered by Helm, checked by kubeconform against Kubernetes' own document, and read as settings."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from tests.support.chart_tools import CHART, KUBERNETES, build_tools, find_go, render, run, validate
from winnow.config.settings import Settings, load_settings

pytestmark = [
    pytest.mark.timeout(1900),
    pytest.mark.skipif(find_go() is None and "CI" not in os.environ, reason="Helm is built with Go, which is missing"),
]


@pytest.fixture(scope="module")
def tools() -> Path:
    """Both programs, and the schemas."""
    return build_tools()


def load_example() -> dict[str, Any]:
    values: dict[str, Any] = yaml.safe_load((CHART / "example-values.yaml").read_text())
    return values


def load_rendered(tools: Path, values: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    """The manifests by kind and name."""
    done = render(tools, values)
    assert done.returncode == 0, done.stderr
    return {(each["kind"], each["metadata"]["name"]): each for each in yaml.safe_load_all(done.stdout) if each}


def read_settings(variables: dict[str, str], folder: Path) -> Settings:
    return load_settings(cwd=folder, env={"WINNOW_HOME": str(folder), **variables})


VALUES: dict[str, dict[str, Any]] = {
    "example": {},
    "without-driver": {"driver": {"enabled": False}},
    "without-anyone": {"driver": {"enabled": False}, "airflow": {"serviceAccounts": []}},
    "roles-instead-of-keys": {
        "secrets": [],
        "driver": {"serviceAccountAnnotations": {"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/driver"}},
        "executor": {
            "image": "registry.example/winnow-executor:1",
            "serviceAccountAnnotations": {"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/executor"},
        },
    },
    "everything": {
        "settings": {"WINNOW_ENGINE__MEMORY_BYTES": "1073741824"},
        "sparkConf": {"spark.executor.heartbeatInterval": "20s", "spark.executor.instances": "9"},
        "driver": {"storageClassName": "fast", "homeSize": "100Gi"},
    },
}


@pytest.mark.parametrize("name", VALUES)
def test_manifests_are_those_of_kubernetes(tools: Path, name: str) -> None:
    """No member that Kubernetes does not know, none of another type."""
    done = render(tools, load_example() | VALUES[name])
    assert done.returncode == 0, done.stderr
    checked = validate(tools, done.stdout)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "Invalid: 0, Errors: 0, Skipped: 0" in checked.stdout


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("serviceName: ", "service-name: "),
        ("replicas: 1", "replicas: one"),
        ("kind: StatefulSet", "kind: StatefulSett"),
        ("storage: 20Gi", "storage: [20Gi]"),
    ],
)
def test_a_manifest_that_kubernetes_would_refuse_is_found(tools: Path, right: str, wrong: str) -> None:
    """What the test before relies on."""
    manifests = render(tools, load_example()).stdout
    assert right in manifests
    assert validate(tools, manifests.replace(right, wrong)).returncode == 1


def test_chart_is_one_that_helm_s_linter_accepts(tools: Path) -> None:
    """With the example's values, and strictly."""
    done = run(tools / "helm", "lint", CHART, "--strict", "--kube-version", KUBERNETES,
               "--values", CHART / "example-values.yaml")  # fmt: skip
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"warehouse": ""}, "/warehouse"),
        ({"warehouse": "/local/folder"}, "/warehouse"),
        ({"image": {}}, "/image/repository"),
        ({"executor": {"instances": 2}}, "/executor/image"),
        ({"secrets": [{"variable": "AWS_SECRET_ACCESS_KEY", "value": "hidden"}]}, "/secrets/0"),
        ({"catalog": {"token": "hidden"}}, "token"),
        ({"catalog": {"uri": "postgresql+psycopg://winnow:hidden@db/catalog"}}, "/catalog/uri"),
        ({"settings": {"WINNOW_STORE_URL": "postgresql+psycopg://winnow:hidden@db/store"}}, "WINNOW_STORE_URL"),
        ({"unknown": True}, "unknown"),
    ],
)
def test_values_that_are_missing_or_secret_are_refused(tools: Path, given: dict[str, Any], said: str) -> None:
    """Secrets come by reference only; the refusal names the value."""
    done = render(tools, load_example() | given)
    assert done.returncode == 1
    assert said in done.stderr


def test_settings_of_the_chart_are_settings_of_winnow(tools: Path, tmp_path: Path) -> None:
    """A misspelt one would have no effect; secrets reach the executors by reference."""
    manifests = load_rendered(tools, load_example() | VALUES["everything"])
    settings = read_settings(manifests["ConfigMap", "winnow-settings"]["data"], tmp_path)
    assert settings.notices == ()
    assert (settings.warehouse, settings.staging) == ("s3://lake/warehouse", "s3://lake/staging")
    assert settings.catalog == {"type": "rest", "uri": "https://catalog.example/iceberg"}
    assert settings.spark.master == "k8s://https://kubernetes.default.svc:443"
    conf = settings.spark.conf
    assert conf["spark.kubernetes.namespace"] == "lake"
    assert conf["spark.kubernetes.executor.secretKeyRef.AWS_SECRET_ACCESS_KEY"] == "lake:secret-access-key"
    assert "spark.kubernetes.executor.secretKeyRef.WINNOW_STORE_URL" not in conf
    assert conf["spark.executor.instances"] == "9"
    assert ("ServiceAccount", conf["spark.kubernetes.authenticate.executor.serviceAccountName"]) in manifests


def test_driver_names_itself_and_has_a_service_with_its_ports(tools: Path, tmp_path: Path) -> None:
    """Executors find it by the headless service, and are removed with its pod."""
    manifests = load_rendered(tools, load_example())
    pods = manifests["StatefulSet", "winnow-driver"]["spec"]
    (container,) = pods["template"]["spec"]["containers"]
    service = manifests["Service", pods["serviceName"]]["spec"]
    assert service["clusterIP"] == "None"
    assert service["selector"].items() <= pods["template"]["metadata"]["labels"].items()
    given = {each["name"]: each for each in container["env"]}
    assert given["POD_NAME"]["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.name"
    named = {name: each["value"].replace("$(POD_NAME)", "winnow-driver-0") for name, each in given.items()
             if "SPARK" in name}  # fmt: skip
    conf = read_settings(manifests["ConfigMap", "winnow-settings"]["data"] | named, tmp_path).spark.conf
    assert conf["spark.kubernetes.driver.pod.name"] == "winnow-driver-0"
    assert conf["spark.driver.host"] == "winnow-driver-0.winnow-driver.lake.svc"
    ports = {str(each["port"]) for each in service["ports"]}
    assert ports == {conf["spark.driver.port"], conf["spark.driver.blockManager.port"]}


def test_secrets_are_references_and_nothing_else(tools: Path) -> None:
    """The chart makes no Secret, and its pod takes each from the one that the values name."""
    manifests = load_rendered(tools, load_example())
    assert "Secret" not in {kind for kind, _ in manifests}
    (container,) = manifests["StatefulSet", "winnow-driver"]["spec"]["template"]["spec"]["containers"]
    taken = {each["name"]: each["valueFrom"]["secretKeyRef"] for each in container["env"]
             if "secretKeyRef" in each.get("valueFrom", {})}  # fmt: skip
    assert taken == {
        "WINNOW_STORE_URL": {"name": "winnow", "key": "store-url"},
        "AWS_ACCESS_KEY_ID": {"name": "lake", "key": "access-key-id"},
        "AWS_SECRET_ACCESS_KEY": {"name": "lake", "key": "secret-access-key"},
    }


def test_only_drivers_may_start_pods(tools: Path) -> None:
    """Airflow's service accounts and the chart's own; executors have no token."""
    manifests = load_rendered(tools, load_example())
    binding = manifests["RoleBinding", "winnow-driver"]
    assert {each["name"] for each in binding["subjects"]} == {"winnow-driver", "airflow-scheduler", "airflow-worker"}
    assert ("Role", binding["roleRef"]["name"]) in manifests
    assert manifests["ServiceAccount", "winnow-executor"]["automountServiceAccountToken"] is False
    assert not any(kind.startswith("Cluster") for kind, _ in manifests)
    nobody = load_rendered(tools, load_example() | VALUES["without-anyone"])
    assert "RoleBinding" not in {kind for kind, _ in nobody}


def test_values_for_airflow_s_chart_fit_this_chart(tools: Path, tmp_path: Path) -> None:
    """The settings that they take exist, and each variable is one of Winnow's."""
    values = yaml.safe_load((CHART / "airflow-values.yaml").read_text())
    manifests = load_rendered(tools, load_example())
    (source,) = yaml.safe_load(values["extraEnvFrom"])
    assert ("ConfigMap", source["configMapRef"]["name"]) in manifests
    variables = yaml.safe_load(values["extraEnv"])
    given = {each["name"]: each.get("value", "postgresql+psycopg://winnow@db/store") for each in variables}
    settings = read_settings(given | {"WINNOW_HOME": str(tmp_path)}, tmp_path)
    assert settings.notices == ()
    assert settings.spark.conf.keys() == {"spark.driver.host", "spark.kubernetes.driver.pod.name"}
    asked = {each["variable"] for each in load_example()["secrets"]}
    assert {each["name"] for each in variables if "secretKeyRef" in each.get("valueFrom", {})} <= asked

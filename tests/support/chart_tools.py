"""Helm and kubeconform, built once per user from the Go module proxy, and Kubernetes' schemas from its own document."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from broker.jars import locate_cache

ROOT = Path(__file__).parents[2]
MODULE = ROOT / "scripts" / "chart-check"
CHART = ROOT / "deploy" / "helm"
PROGRAMS = ("github.com/yannh/kubeconform/cmd/kubeconform", "helm.sh/helm/v3/cmd/helm")
KUBERNETES = "1.34.1"
KUBERNETES_SUM = "h1:F3p8dtpv+i8zQoebZeK5zBqM1g9x1aIdnA5vthvcuUk="
"""The checksum of the module k8s.io/kubernetes of that version."""


def find_go() -> str | None:
    """The command of Go, where it is installed."""
    usual = Path("/usr/local/go/bin/go")
    return shutil.which("go") or (str(usual) if usual.is_file() else None)


def run(*command: str | Path, folder: Path = ROOT, text: str = "") -> subprocess.CompletedProcess[str]:
    words = [str(each) for each in command]
    return subprocess.run(words, cwd=folder, input=text, capture_output=True, text=True, timeout=1800)


def run_go(*arguments: str | Path) -> str:
    go = find_go()
    assert go is not None, "Go is not installed, and the tests of the chart need it"
    done = run(go, *arguments, folder=MODULE)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


def build_tools() -> Path:
    """The folder with both programs and the schemas."""
    pinned = b"".join((MODULE / name).read_bytes() for name in ("go.mod", "go.sum"))
    own = Path(__file__).read_bytes()
    folder = locate_cache().parent / "chart-tools" / hashlib.sha256(pinned + own).hexdigest()[:12]
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="draft-", dir=folder.parent) as draft:
            made = Path(draft) / "tools"
            run_go("build", "-o", f"{made}{os.sep}", *PROGRAMS)
            told = json.loads(run_go("mod", "download", "-json", f"k8s.io/kubernetes@v{KUBERNETES}"))
            assert told["Sum"] == KUBERNETES_SUM
            document = Path(told["Dir"]) / "api" / "openapi-spec" / "swagger.json"
            write_schemas(json.loads(document.read_text()), made / "schemas")
            made.rename(folder)
    return folder


def write_schemas(document: dict[str, Any], folder: Path) -> None:
    """Write JSON schemas as kubeconform looks for them: a file per kind, which refers to one of all definitions."""
    folder.mkdir()
    definitions = document["definitions"]
    for name, definition in definitions.items():
        definitions[name] = make_strict(name, definition)
        for kind in definition.get("x-kubernetes-group-version-kind", ()):
            group = f"-{kind['group'].partition('.')[0]}" if kind["group"] else ""
            reference = {"$ref": f"definitions.json#/definitions/{name}"}
            (folder / f"{kind['kind']}{group}-{kind['version']}.json".lower()).write_text(json.dumps(reference))
    (folder / "definitions.json").write_text(json.dumps({"definitions": definitions}))


def make_strict(name: str, definition: dict[str, Any]) -> dict[str, Any]:
    """A definition that allows no member that it does not name, and numbers where Kubernetes takes them."""
    if name.endswith((".IntOrString", ".Quantity")):
        return {"type": ["string", "integer", "number"]}
    if "properties" in definition:
        return {**definition, "additionalProperties": False}
    return definition


def render(tools: Path, values: dict[str, Any], *more: str) -> subprocess.CompletedProcess[str]:
    """Render the chart as release `winnow` in namespace `lake`."""
    command = (tools / "helm", "template", "winnow", CHART, "--namespace", "lake", "--kube-version", KUBERNETES)
    return run(*command, "--values", "-", *more, text=yaml.safe_dump(values))


def validate(tools: Path, manifests: str) -> subprocess.CompletedProcess[str]:
    """Check manifests with kubeconform: unknown members are errors, and so are kinds without a schema."""
    places = f"{tools}/schemas/{{{{ .ResourceKind }}}}{{{{ .KindSuffix }}}}.json"
    return run(tools / "kubeconform", "-strict", "-summary", "-schema-location", places, text=manifests)

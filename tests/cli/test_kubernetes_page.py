"""The page about Kubernetes: its manifest is one by the published schemas, its names fit, and so do its exit codes."""

from __future__ import annotations

import re
from typing import Any

import kubernetes_validate
import pytest
import yaml

from cli.pages import DOCS
from rekindle.cli.boundary import ExitCode

TEXT = (DOCS / "how-to" / "kubernetes.md").read_text()
SCHEMAS = "1.30"


def manifests() -> list[dict[str, Any]]:
    [block] = re.findall(r"^```yaml\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
    return list(yaml.safe_load_all(block))


@pytest.mark.parametrize("manifest", manifests(), ids=lambda one: one["kind"])
def test_each_part_is_valid(manifest: dict[str, Any]) -> None:
    assert SCHEMAS in TEXT
    kubernetes_validate.validate(manifest, SCHEMAS, strict=True)


def test_an_unknown_field_is_not_valid() -> None:
    """The control."""
    job = manifests()[-1]
    job["spec"]["restarts"] = 3
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(job, SCHEMAS, strict=True)


def test_its_names_fit() -> None:
    found = {one["kind"]: one for one in manifests()}
    job = found["Job"]["spec"]["template"]["spec"]
    name = found["ServiceAccount"]["metadata"]["name"]
    assert job["serviceAccountName"] == found["RoleBinding"]["subjects"][0]["name"] == name
    assert found["RoleBinding"]["roleRef"]["name"] == found["Role"]["metadata"]["name"]
    [driver] = job["containers"]
    [codes, _] = found["Job"]["spec"]["podFailurePolicy"]["rules"]
    assert codes["onExitCodes"]["containerName"] == driver["name"]
    given = {one["name"] for one in driver["env"]}
    assert set(re.findall(r"\$\((\w+)\)", " ".join(driver["args"]))) <= given
    assert f"image={driver['image']}" in " ".join(driver["args"]), "executors have the image of the driver"


def test_it_gives_up_where_a_retry_cannot_help() -> None:
    codes = manifests()[-1]["spec"]["podFailurePolicy"]["rules"][0]["onExitCodes"]["values"]
    assert set(codes) == {ExitCode.FAILED, ExitCode.STALE}
    assert ExitCode.RESUMABLE not in codes and ExitCode.REFUSED not in codes, (
        "a fenced driver must not end its successor"
    )

"""Spark 3.5 cannot add a properties file to its defaults: Winnow's file has both."""

from __future__ import annotations

from pathlib import Path

import pytest

from winnow.config.settings import Settings, load_settings
from winnow.errors import ConfigurationError
from winnow.pipeline.spark.submit import open_properties_file


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Settings of an installation in a folder of its own."""
    return load_settings(cwd=tmp_path, env={"WINNOW_SPARK__CLASS_ARCHIVE": "false"})


@pytest.fixture
def spark_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Spark 3.5 as its files name it, with defaults of its own."""
    home = tmp_path / "spark"
    (home / "jars").mkdir(parents=True)
    (home / "jars" / "spark-core_2.12-3.5.6.jar").touch()
    (home / "conf").mkdir()
    (home / "conf" / "spark-defaults.conf").write_text("spark.a  default\nspark.b  default")
    monkeypatch.setenv("SPARK_HOME", str(home))
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)
    return home


@pytest.mark.usefixtures("spark_home")
def test_defaults_of_spark_3_stand_before_the_settings_so_that_the_settings_hold(settings: Settings) -> None:
    """Java keeps the last line of a name."""
    with open_properties_file(settings, {"spark.b": "set"}) as arguments:
        assert arguments[0] == "--properties-file"
        assert Path(arguments[1]).read_text().split("\n") == ["spark.a  default", "spark.b  default", "spark.b=set", ""]


def test_defaults_that_cannot_be_read_are_an_error_and_not_left_out(settings: Settings, spark_home: Path) -> None:
    """A job without the installation's defaults might write elsewhere."""
    (spark_home / "conf" / "spark-defaults.conf").write_bytes(b"spark.a \xff")
    with (
        pytest.raises(ConfigurationError, match=r"spark-defaults\.conf cannot be read"),
        open_properties_file(settings, {}),
    ):
        pass


def test_spark_3_without_defaults_gets_the_settings(settings: Settings, spark_home: Path) -> None:
    """Most installations have no such file."""
    (spark_home / "conf" / "spark-defaults.conf").unlink()
    with open_properties_file(settings, {"spark.b": "set"}) as arguments:
        assert Path(arguments[1]).read_text().strip() == "spark.b=set"

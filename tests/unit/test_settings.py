"""Settings: where each value comes from, which win, what is refused, and what is never shown."""

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import BaseModel, ValidationError

from winnow.config import layers
from winnow.config.masking import mask
from winnow.config.setting_names import MAPS, NAMES
from winnow.config.settings import Settings, load_settings, read_dag_prefix
from winnow.engine.task_planning import DEFAULT_GIANT_BYTES
from winnow.errors import ConfigurationError


def write_toml(folder: Path, text: str, name: str = "winnow.toml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def refusal(cwd: Path, env: dict[str, str] | None = None) -> str:
    with pytest.raises(ConfigurationError) as caught:
        load_settings(cwd=cwd, env=env or {})
    assert caught.value.exit_code == 2
    return str(caught.value)


def sources(settings: Settings) -> dict[str, str]:
    return {row.name: row.source for row in settings.rows()}


def shown(settings: Settings) -> dict[str, str]:
    return {row.name: row.value for row in settings.rows()}


# Defaults


def test_everything_is_embedded_below_the_home_folder_when_nothing_is_set(tmp_path: Path) -> None:
    """Catalog, warehouse, staging, store, Airflow and Data Docs."""
    settings = load_settings(cwd=tmp_path, env={})
    home = tmp_path / ".winnow"
    assert settings.home == home
    assert settings.catalog == {"type": "sql", "uri": f"sqlite:///{home}/catalog.db"}
    assert settings.warehouse == f"file://{home}/warehouse"
    assert settings.staging == f"file://{home}/staging"
    assert settings.store_url == f"sqlite:///{home}/store.db"
    assert settings.airflow_home == home / "airflow"
    assert settings.data_docs == home / "data_docs"
    assert set(sources(settings).values()) == {"default"}
    assert settings.notices == ()


def test_engine_spark_and_lease_have_their_defaults(tmp_path: Path) -> None:
    """1 GiB, one thread, spilling below the home, all local cores, one hour, no alerts, no defaults of topics."""
    settings = load_settings(cwd=tmp_path, env={})
    assert settings.engine.memory_bytes == 1_073_741_824
    assert settings.engine.threads == 1
    assert settings.engine.spill_folder == str(tmp_path / ".winnow" / "spill")
    assert settings.engine.giant_bytes == DEFAULT_GIANT_BYTES
    assert settings.spark.master == "local[*]"
    assert settings.spark.conf == {}
    assert settings.lease_ms == 3_600_000
    assert settings.expectations is None
    assert settings.alert.webhook is None
    assert settings.kafka == {}
    assert settings.topic_defaults == {}


def test_loading_settings_creates_no_folder(tmp_path: Path) -> None:
    """Looking is not touching."""
    load_settings(cwd=tmp_path, env={})
    assert list(tmp_path.iterdir()) == []


def test_current_folder_and_process_environment_are_used_when_not_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a command line does."""
    for variable in [name for name in os.environ if name.startswith("WINNOW_")]:
        monkeypatch.delenv(variable)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WINNOW_ENGINE__THREADS", "3")
    settings = load_settings()
    assert settings.home == Path.cwd() / ".winnow"
    assert settings.engine.threads == 3


def test_settings_are_frozen(tmp_path: Path) -> None:
    """Neither the whole nor a group can be changed."""
    settings = load_settings(cwd=tmp_path, env={})
    with pytest.raises(ValidationError):
        settings.lease_ms = 1
    with pytest.raises(ValidationError):
        settings.engine.threads = 2


def test_settings_survive_a_process_border_with_their_sources(tmp_path: Path) -> None:
    """Tasks may hand them on."""
    settings = load_settings(cwd=tmp_path, env={"WINNOW_LEASE_MS": "5"})
    again = pickle.loads(pickle.dumps(settings))
    assert again == settings
    assert again.rows() == settings.rows()


# Environment


@pytest.mark.parametrize(
    ("variable", "text", "name", "value"),
    [
        ("WINNOW_WAREHOUSE", "s3://lake/winnow/", "warehouse", "s3://lake/winnow"),
        ("WINNOW_STAGING", "/scratch/winnow", "staging", "file:///scratch/winnow"),
        ("WINNOW_STORE_URL", "postgresql+psycopg://db/winnow", "store_url", "postgresql+psycopg://db/winnow"),
        ("WINNOW_SPARK__MASTER", "yarn", "spark.master", "yarn"),
        ("WINNOW_ENGINE__THREADS", "4", "engine.threads", "4"),
        ("WINNOW_ENGINE__SPILL_FOLDER", "/spill", "engine.spill_folder", "/spill"),
        ("WINNOW_EXPECTATIONS", "/suites", "expectations", "/suites"),
        ("WINNOW_LEASE_MS", "1000", "lease_ms", "1000"),
        ("WINNOW_CATALOG__URI", "postgresql://db/x", "catalog.uri", "postgresql://db/x"),
        ("WINNOW_CATALOG__S3__ENDPOINT", "http://minio:9000", "catalog.s3.endpoint", "http://minio:9000"),
        ("WINNOW_CATALOG__POOL_PRE_PING", "true", "catalog.pool_pre_ping", "true"),
        ("WINNOW_CATALOG__OAUTH2_SERVER_URI", "http://o", "catalog.oauth2-server-uri", "http://o"),
        ("WINNOW_SPARK__CONF__spark.executor.memory", "2g", "spark.conf.spark.executor.memory", "2g"),
        ("WINNOW_SPARK__CONF__spark__memory__offHeap__size", "1g", "spark.conf.spark.memory.offHeap.size", "1g"),
    ],
)
def test_environment_variable_sets_its_setting(tmp_path: Path, variable: str, text: str, name: str, value: str) -> None:
    """Names of maps: double underscores are dots; in the catalog single ones are dashes; Spark's case is kept."""
    settings = load_settings(cwd=tmp_path, env={variable: text})
    assert shown(settings)[name] == value
    assert sources(settings)[name] == f"environment {variable}"


def test_access_key_of_the_object_store_reaches_the_catalog(tmp_path: Path) -> None:
    """The rule of names, on the property everybody needs."""
    settings = load_settings(cwd=tmp_path, env={"WINNOW_CATALOG__S3__ACCESS_KEY_ID": "id"})
    assert settings.catalog["s3.access-key-id"] == "id"


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("536870912", 536_870_912),
        ("512MB", 512_000_000),
        ("512 mib", 536_870_912),
        ("1.5GB", 1_500_000_000),
        ("1g", 10**9),
        ("1GiB", 2**30),
        ("1000000", 1_000_000),
    ],
)
def test_memory_is_read_with_and_without_a_unit(tmp_path: Path, text: str, size_bytes: int) -> None:
    """Powers of 1000, with an i powers of 1024; 1 MB is the least."""
    assert load_settings(cwd=tmp_path, env={"WINNOW_ENGINE__MEMORY_BYTES": text}).engine.memory_bytes == size_bytes


def test_home_folder_moves_everything_embedded(tmp_path: Path) -> None:
    """A relative one begins at the current folder."""
    settings = load_settings(cwd=tmp_path, env={"WINNOW_HOME": "elsewhere"})
    assert settings.home == tmp_path / "elsewhere"
    assert settings.warehouse == f"file://{tmp_path}/elsewhere/warehouse"
    assert sources(settings)["home"] == "environment WINNOW_HOME"
    assert sources(settings)["data_docs"] == "below home"


def test_path_with_dots_in_it_has_one_spelling(tmp_path: Path) -> None:
    """Tables remember where they are."""
    (tmp_path / "inner").mkdir()
    settings = load_settings(cwd=tmp_path / "inner", env={"WINNOW_WAREHOUSE": "../lake"})
    assert settings.warehouse == f"file://{tmp_path.resolve()}/lake"


def test_home_folder_of_the_user_is_expanded(tmp_path: Path) -> None:
    """As a shell would."""
    assert load_settings(cwd=tmp_path, env={"WINNOW_HOME": "~/winnow"}).home == Path.home() / "winnow"


def test_the_spill_is_below_the_home_and_not_in_the_temporary_folder(tmp_path: Path) -> None:
    """It holds records, and everybody looks into the temporary folder."""
    settings = load_settings(cwd=tmp_path, env={"TMPDIR": "/big", "WINNOW_HOME": "lake"})
    assert settings.engine.spill_folder == str(tmp_path / "lake" / "spill")
    assert settings.spill_folder_is_default
    chosen = load_settings(cwd=tmp_path, env={"WINNOW_ENGINE__SPILL_FOLDER": "/big"})
    assert (chosen.engine.spill_folder, chosen.spill_folder_is_default) == ("/big", False)


def test_empty_variable_counts_as_not_set(tmp_path: Path) -> None:
    """Compose files set variables to nothing."""
    env = dict.fromkeys(["WINNOW_HOME", "WINNOW_STORE_URL", "WINNOW_ALERT__WEBHOOK", "WINNOW_CONFIG"], "")
    assert load_settings(cwd=tmp_path, env=env) == load_settings(cwd=tmp_path, env={})


def test_home_of_the_user_is_not_taken_for_winnows(tmp_path: Path) -> None:
    """Variables without the prefix mean nothing here."""
    settings = load_settings(cwd=tmp_path, env={"HOME": "/root", "CATALOG": "{}", "WAREHOUSE": "s3://x/y"})
    assert settings.home == tmp_path / ".winnow"
    assert settings.notices == ()


@pytest.mark.parametrize(
    ("variable", "near"),
    [
        ("WINNOW_SPARK_MASTER", "WINNOW_SPARK__MASTER"),
        ("WINNOW_STOREURL", "WINNOW_STORE_URL"),
        ("WINNOW_CATALOG", "WINNOW_CATALOG__*"),
        ("WINNOW_CATALOG__", "WINNOW_CATALOG__*"),
        ("WINNOW_KAFKA_LOG_ROLL_MS", "WINNOW_KAFKA__*"),
    ],
)
def test_unknown_variable_is_a_notice_with_the_nearest_name(tmp_path: Path, variable: str, near: str) -> None:
    """It stops nothing: it may be somebody else's."""
    (notice,) = load_settings(cwd=tmp_path, env={variable: "x"}).notices
    assert notice == (
        f"The environment variable {variable} is no setting of Winnow and has no effect. "
        f"The nearest known name is {near}."
    )


def test_two_variables_for_one_property_are_refused(tmp_path: Path) -> None:
    """Neither could be said to win."""
    env = {"WINNOW_SPARK__CONF__spark__x": "1", "WINNOW_SPARK__CONF__spark.x": "2"}
    assert refusal(tmp_path, env) == (
        "environment WINNOW_SPARK__CONF__spark.x and environment WINNOW_SPARK__CONF__spark__x both set "
        "spark.conf.spark.x. Unset one of them."
    )


# The embedded catalog


@pytest.mark.parametrize(
    ("env", "catalog"),
    [
        ({"WINNOW_CATALOG__URI": "postgresql://db/x"}, {"uri": "postgresql://db/x"}),
        (
            {"WINNOW_CATALOG__TYPE": "rest", "WINNOW_CATALOG__URI": "http://c"},
            {"type": "rest", "uri": "http://c"},
        ),
        ({"WINNOW_CATALOG__TYPE": "glue"}, {"type": "glue"}),
        ({"WINNOW_CATALOG__PY_CATALOG_IMPL": "a.B"}, {"py-catalog-impl": "a.B"}),
    ],
)
def test_embedded_catalog_leaves_when_another_is_named(
    tmp_path: Path, env: dict[str, str], catalog: dict[str, str]
) -> None:
    """Half of one beside half of another is neither."""
    assert load_settings(cwd=tmp_path, env=env).catalog == catalog


def test_embedded_catalog_stays_beside_further_properties(tmp_path: Path) -> None:
    """Naming its own type changes nothing either."""
    env = {"WINNOW_CATALOG__S3__REGION": "eu-west-1", "WINNOW_CATALOG__TYPE": "sql"}
    settings = load_settings(cwd=tmp_path, env=env)
    assert settings.catalog == {
        "type": "sql",
        "uri": f"sqlite:///{tmp_path}/.winnow/catalog.db",
        "s3.region": "eu-west-1",
    }
    assert sources(settings)["catalog.type"] == "environment WINNOW_CATALOG__TYPE"
    assert sources(settings)["catalog.uri"] == "default"


# winnow.toml

TREE_TOML = """
home = "base"
warehouse = "lake"
warehouse_shared = true
vended_credentials = true
namespace = "shop"
staging = "s3://scratch/winnow"
store_url = "postgresql+psycopg://db/winnow"
expectations = "suites"
lease_ms = 60000
[catalog]
uri = "postgresql://db/catalog"
pool_pre_ping = true
[catalog.s3]
access_key_id = "id"
connect-timeout = 5
[spark]
master = "yarn"
class_archive = false
[spark.conf]
"spark.executor.memory" = "2g"
spark.executor.cores = 2
spark.memory.offHeap.enabled = false
[engine]
memory_bytes = "2GiB"
threads = 2
spill_folder = "spill"
tasks = 3
bytes_per_second = "50MB"
giant_bytes = "1GB"
[facts]
workers = 3
spark_from_bytes = "2GB"
[ingest]
roots = ["/archive/", "s3://lake/kafka"]
spark_from_bytes = "3GB"
spark_from_records = 7000000
processes = 3
[source]
bootstrap_servers = "kafka:9092"
properties_file = "client.properties"
topics_regex = 'shop[.].*'
create = true
sync_config = true
recreated = "new_epoch"
interval_ms = 60000
[alert]
webhook = "https://hooks.example.org/T0"
page_url = "https://airflow.example.org/"
deadline_warning_ms = 7200000
deadline_grace_ms = 600000
sweep_stuck_ms = 86400000
run_late_ms = 7200000
[[alert.notifiers]]
class = "airflow.providers.slack.notifications.slack_webhook.SlackWebhookNotifier"
arguments = { slack_webhook_conn_id = "on_call", text = "{{ alert.text }}" }
[metrics]
most_topics = 500

[scrub]
bytes_per_day = "50GB"
bytes_per_second = "50MB"
spark_from_bytes = "2GiB"
[read]
spark_from_bytes = "4GiB"
[history]
retention_ms = 86400000
[page]
record_readers = ["ada", "grace"]
masked_patterns = ['[0-9]{16}']
masked_fields = ["email"]
reader_seconds = 10
reader_memory_bytes = "3GiB"
reader_processes = 4
[airflow]
dag_prefix = "sales_"
[schema_registry]
url = "https://registry.example.org/apis/ccompat/v7/"
user = "winnow"
password = "a password"
token = "a token"
ca_file = "ca.pem"
certificate_file = "client.pem"
key_file = "client.key"

[latest]
secret = "another of sixteen"
spark_from_bytes = "3GiB"
[erase]
secret = "a secret of sixteen"
hmac_key_file = "keys/erase"
register_folder = "s3://privacy/erasures"
roots = ["s3://privacy/requests"]
approvals = 2
shell_approval = true
trust_bucket_deletes = true
spark_from_bytes = "5GiB"
[change]
approvals = 2
[kafka]
"log.retention.hours" = 168
"""


def test_file_sets_the_whole_tree(tmp_path: Path) -> None:
    """Every setting has its place; paths begin at the file's folder."""
    write_toml(tmp_path, TREE_TOML)
    settings = load_settings(cwd=tmp_path, env={})
    assert settings.home == tmp_path / "base"
    assert settings.warehouse == f"file://{tmp_path}/lake"
    assert (settings.warehouse_shared, settings.vended_credentials, settings.namespace) == (True, True, "shop")
    assert settings.staging == "s3://scratch/winnow"
    assert settings.store_url == "postgresql+psycopg://db/winnow"
    assert settings.expectations == tmp_path / "suites"
    assert settings.lease_ms == 60_000
    assert settings.catalog == {
        "uri": "postgresql://db/catalog",
        "pool_pre_ping": "true",
        "s3.access-key-id": "id",
        "s3.connect-timeout": "5",
    }
    assert settings.spark.master == "yarn"
    assert settings.spark.conf == {
        "spark.executor.memory": "2g",
        "spark.executor.cores": "2",
        "spark.memory.offHeap.enabled": "false",
    }
    assert settings.engine.memory_bytes == 2 * 2**30
    assert settings.engine.threads == 2
    assert settings.engine.spill_folder == str(tmp_path / "spill")
    assert settings.engine.tasks == 3
    assert settings.engine.bytes_per_second == 50_000_000
    assert settings.engine.giant_bytes == 1_000_000_000
    assert (settings.facts.workers, settings.facts.spark_from_bytes) == (3, 2_000_000_000)
    assert settings.ingest.roots == ("/archive", "s3://lake/kafka")
    assert settings.ingest.spark_from_bytes == 3_000_000_000
    assert settings.ingest.spark_from_records == 7_000_000
    assert settings.ingest.processes == 3
    assert settings.source.bootstrap_servers == "kafka:9092"
    assert settings.source.properties_file == tmp_path / "client.properties"
    assert settings.source.topics_regex == "shop[.].*"
    assert settings.source.create is True
    assert settings.source.sync_config is True
    assert settings.source.recreated == "new_epoch"
    assert settings.source.interval_ms == 60_000
    assert settings.kafka == {"log.retention.hours": "168"}
    assert settings.alert.webhook is not None
    assert settings.alert.webhook.get_secret_value() == "https://hooks.example.org/T0"
    assert settings.alert.page_url == "https://airflow.example.org"
    assert settings.alert.deadline_warning_ms == 7_200_000
    assert settings.alert.deadline_grace_ms == 600_000
    assert (settings.alert.sweep_stuck_ms, settings.alert.run_late_ms) == (86_400_000, 7_200_000)
    (notifier,) = settings.alert.notifiers
    assert notifier.path == "airflow.providers.slack.notifications.slack_webhook.SlackWebhookNotifier"
    assert settings.metrics.most_topics == 500
    assert (settings.scrub.bytes_per_day, settings.scrub.bytes_per_second) == (50_000_000_000, 50_000_000)
    assert [each.spark_from_bytes // 2**30 for each in (settings.scrub, settings.latest, settings.read)] == [2, 3, 4]
    assert settings.history.retention_ms == 86_400_000
    assert settings.page.record_readers == ("ada", "grace")
    assert (settings.page.masked_patterns, settings.page.masked_fields) == (("[0-9]{16}",), ("email",))
    assert (settings.page.reader_seconds, settings.page.reader_memory_bytes) == (10, 3 * 2**30)
    assert (settings.page.reader_processes, settings.name_dag("compact_now")) == (4, "sales_compact_now")
    assert notifier.arguments == {"slack_webhook_conn_id": "on_call", "text": "{{ alert.text }}"}
    assert set(sources(settings).values()) == {"winnow.toml", "below home"}


def test_file_sets_what_erasures_need(tmp_path: Path) -> None:
    """The secret is masked where settings are shown."""
    write_toml(tmp_path, TREE_TOML)
    erase = load_settings(cwd=tmp_path, env={}).erase
    assert erase.secret is not None
    assert erase.secret.get_secret_value() == "a secret of sixteen"
    assert "sixteen" not in str(erase)
    assert (erase.hmac_key_file, erase.roots) == (tmp_path / "keys/erase", ("s3://privacy/requests",))
    assert erase.register_folder == "s3://privacy/erasures"


def test_file_sets_the_secret_of_masked_fields(tmp_path: Path) -> None:
    write_toml(tmp_path, TREE_TOML)
    secret = load_settings(cwd=tmp_path, env={}).latest.secret
    assert secret is not None
    assert secret.get_secret_value() == "another of sixteen"


def test_file_sets_the_schema_registry(tmp_path: Path) -> None:
    """Its secrets are masked where settings are shown, and refused inside of the address."""
    write_toml(tmp_path, TREE_TOML)
    settings = load_settings(cwd=tmp_path, env={})
    registry = settings.schema_registry
    assert (registry.url, registry.user) == ("https://registry.example.org/apis/ccompat/v7", "winnow")
    assert registry.password is not None
    assert registry.token is not None
    assert registry.password.get_secret_value() == "a password"
    assert registry.token.get_secret_value() == "a token"
    assert registry.ca_file == tmp_path / "ca.pem"
    assert (registry.certificate_file, registry.key_file) == (tmp_path / "client.pem", tmp_path / "client.key")
    assert "a password" not in f"{settings.rows()} {registry}"
    assert "a token" not in f"{settings.rows()} {registry}"
    said = refusal(tmp_path, {"WINNOW_SCHEMA_REGISTRY__URL": "https://me:hidden@registry.example.org"})
    assert "neither a user nor" in said
    assert "hidden" not in said


def test_prefix_of_dags_is_read_alone_from_where_the_settings_have_it(tmp_path: Path) -> None:
    """The environment before the file; what else is not valid does not matter, and a prefix that is not is refused."""
    assert read_dag_prefix(cwd=tmp_path, env={}) == ""
    write_toml(tmp_path, '[airflow]\ndag_prefix = "file."\n')
    assert read_dag_prefix(cwd=tmp_path, env={"WINNOW_LEASE_MS": "never"}) == "file."
    assert read_dag_prefix(cwd=tmp_path, env={"WINNOW_AIRFLOW__DAG_PREFIX": "env-"}) == "env-"
    for text in ("a b", "x" * 101, "a/b", "ä"):
        with pytest.raises(ConfigurationError, match=r"airflow\.dag_prefix .*letters, digits"):
            read_dag_prefix(cwd=tmp_path, env={"WINNOW_AIRFLOW__DAG_PREFIX": text})
        assert "letters, digits" in refusal(tmp_path, {"WINNOW_AIRFLOW__DAG_PREFIX": text})


def test_lists_of_names_and_patterns_come_from_the_environment_too(tmp_path: Path) -> None:
    """Names with commas, patterns as JSON, because a pattern may have a comma in it."""
    env = {"WINNOW_PAGE__RECORD_READERS": "ada, grace", "WINNOW_PAGE__MASKED_PATTERNS": '["[0-9]{4,16}"]'}
    page = load_settings(cwd=tmp_path, env=env).page
    assert (page.record_readers, page.masked_patterns) == (("ada", "grace"), ("[0-9]{4,16}",))
    assert "regular expression" in refusal(tmp_path, {"WINNOW_PAGE__MASKED_PATTERNS": '["["]'})
    assert "as JSON" in refusal(tmp_path, {"WINNOW_PAGE__MASKED_PATTERNS": "[0-9]+"})
    assert "separated by commas" in refusal(tmp_path, {"WINNOW_PAGE__RECORD_READERS": "ada,,grace"})


def test_list_that_is_given_as_json_is_no_name_in_brackets(tmp_path: Path) -> None:
    """As some charts and tools write every list; half a list is refused and gives nobody a right."""
    env = {
        "WINNOW_PAGE__RECORD_READERS": '["ada", "grace, the admiral"]',
        "WINNOW_PAGE__MASKED_FIELDS": ' ["email"]',
        "WINNOW_INGEST__ROOTS": '["/in,coming", "s3://bucket/in"]',
    }
    settings = load_settings(cwd=tmp_path, env=env)
    assert settings.page.record_readers == ("ada", "grace, the admiral")
    assert settings.page.masked_fields == ("email",)
    assert settings.ingest.roots == ("/in,coming", "s3://bucket/in")
    for text in ('["ada"', '["ada", 1]', '["ada", ""]', "[ada]"):
        assert "as JSON" in refusal(tmp_path, {"WINNOW_PAGE__RECORD_READERS": text})


def test_environment_wins_over_file_and_file_over_default(tmp_path: Path) -> None:
    """Leaf by leaf, inside the open maps too."""
    write_toml(tmp_path, '[engine]\nthreads = 2\nmemory_bytes = "2GB"\n[catalog]\n"s3.region" = "a"\n"s3.x" = "b"\n')
    env = {"WINNOW_ENGINE__THREADS": "5", "WINNOW_CATALOG__S3__REGION": "c"}
    settings = load_settings(cwd=tmp_path, env=env)
    assert (settings.engine.threads, settings.engine.memory_bytes) == (5, 2 * 10**9)
    assert (settings.catalog["s3.region"], settings.catalog["s3.x"]) == ("c", "b")
    found = sources(settings)
    assert found["engine.threads"] == "environment WINNOW_ENGINE__THREADS"
    assert found["engine.memory_bytes"] == "winnow.toml"
    assert found["catalog.s3.region"] == "environment WINNOW_CATALOG__S3__REGION"
    assert found["catalog.s3.x"] == "winnow.toml"
    assert found["engine.spill_folder"] == "default"


def test_named_file_is_read_instead_of_the_one_in_the_current_folder(tmp_path: Path) -> None:
    """Its own folder is where its relative paths begin."""
    write_toml(tmp_path, "lease_ms = 1")
    (tmp_path / "etc").mkdir()
    path = write_toml(tmp_path / "etc", 'lease_ms = 2\nhome = "h"', "prod.toml")
    settings = load_settings(cwd=tmp_path, env={"WINNOW_CONFIG": "etc/prod.toml"})
    assert settings.lease_ms == 2
    assert settings.home == tmp_path / "etc" / "h"
    assert sources(settings)["lease_ms"] == str(path)


def test_named_file_that_is_missing_is_refused(tmp_path: Path) -> None:
    """A name that leads nowhere is a mistake, an absent winnow.toml is not."""
    assert refusal(tmp_path, {"WINNOW_CONFIG": "no.toml"}) == (
        f"The settings file {tmp_path}/no.toml cannot be read (No such file or directory). "
        "Fix that, or unset WINNOW_CONFIG if it should not be read."
    )


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("stagin = 1", "Unknown setting stagin in winnow.toml. The nearest known name is staging."),
        (
            "[engine]\nthread = 1",
            "Unknown setting engine.thread in winnow.toml. The nearest known name is engine.threads.",
        ),
        ("[sparks]\nx = 1", "Unknown setting sparks in winnow.toml. The nearest known name is spark."),
        ("engine = 3", "engine in winnow.toml must be a table: [engine]."),
        ("catalog = 'x'", "catalog in winnow.toml must be a table: [catalog]."),
        ("[spark]\nconf = 'x'", "spark.conf in winnow.toml must be a table: [spark.conf]."),
        ("[catalog]\nuri = ['x']", "catalog.uri in winnow.toml must be text, a number, or true or false."),
        (
            "[catalog]\naccess_key = 'x'\naccess-key = 'y'",
            "winnow.toml sets catalog.access-key twice, spelled in two ways. Remove one of them.",
        ),
        ("a =", "The settings file winnow.toml is not valid TOML: Invalid value (at end of document)."),
    ],
)
def test_file_that_is_wrong_is_refused_with_the_place(tmp_path: Path, text: str, sentence: str) -> None:
    """Unknown keys, tables that are none, and text that is no TOML."""
    write_toml(tmp_path, text)
    assert refusal(tmp_path) == sentence


def test_file_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    """TOML is UTF-8 by definition."""
    (tmp_path / "winnow.toml").write_bytes(b"home = '\xff'")
    assert refusal(tmp_path) == "The settings file winnow.toml is not UTF-8 text. Save it as UTF-8."


# Values that are not valid

A_LIST_OF_NOTIFIERS = 'it must be a list of {"class": "package.Notifier", "arguments": {...}}'
WHOLE_NUMBER = "it must be a whole number of at least 1"
A_SIZE = "it must be a size like 1073741824, 512MB or 1GiB"
A_LOCATION = "it must be a path, file:///folder (three slashes), or a URI like s3://bucket/folder"


@pytest.mark.parametrize(
    ("variable", "text", "name", "reason"),
    [
        ("WINNOW_ENGINE__THREADS", "0", "engine.threads", WHOLE_NUMBER),
        ("WINNOW_ENGINE__THREADS", "two", "engine.threads", WHOLE_NUMBER),
        ("WINNOW_LEASE_MS", "1.5", "lease_ms", WHOLE_NUMBER),
        ("WINNOW_LEASE_MS", "-1", "lease_ms", WHOLE_NUMBER),
        ("WINNOW_ENGINE__MEMORY_BYTES", "lots", "engine.memory_bytes", A_SIZE),
        ("WINNOW_ENGINE__MEMORY_BYTES", "-1GB", "engine.memory_bytes", A_SIZE),
        (
            "WINNOW_ENGINE__MEMORY_BYTES",
            "999999",
            "engine.memory_bytes",
            "it must be at least 1MB; a number without a unit counts bytes",
        ),
        ("WINNOW_WAREHOUSE", "file://lake", "warehouse", A_LOCATION),
        ("WINNOW_WAREHOUSE", "s3:///", "warehouse", A_LOCATION),
        ("WINNOW_STAGING", "file:/lake", "staging", A_LOCATION),
        (
            "WINNOW_STORE_URL",
            "store.db",
            "store_url",
            "it must be a SQLAlchemy URL like postgresql+psycopg://user:password@host/database",
        ),
        (
            "WINNOW_ALERT__WEBHOOK",
            "hooks.example.org/T0",
            "alert.webhook",
            "it must be a URL that begins with https:// or http://",
        ),
        (
            "WINNOW_ALERT__PAGE_URL",
            "airflow.example.org",
            "alert.page_url",
            "it must be a URL that begins with https:// or http://",
        ),
        ("WINNOW_ALERT__NOTIFIERS", "[{", "alert.notifiers", f"it is not JSON; {A_LIST_OF_NOTIFIERS}"),
        ("WINNOW_ALERT__NOTIFIERS", '{"class": "a.B"}', "alert.notifiers", A_LIST_OF_NOTIFIERS),
        ("WINNOW_ALERT__NOTIFIERS", '["a.B"]', "alert.notifiers", A_LIST_OF_NOTIFIERS),
        (
            "WINNOW_ALERT__NOTIFIERS",
            '[{"class": "Slack"}]',
            "alert.notifiers.0.class",
            "it must be the dotted path of a class, like airflow.providers.smtp.notifications.smtp.SmtpNotifier",
        ),
        ("WINNOW_ALERT__SWEEP_STUCK_MS", "0", "alert.sweep_stuck_ms", WHOLE_NUMBER),
        (
            "WINNOW_SPARK__CONF__SPARK__EXECUTOR__CORES",
            "2",
            "spark.conf.SPARK.EXECUTOR.CORES",
            "Spark ignores it; the names of its properties begin with 'spark.', in lower case",
        ),
    ],
)
def test_value_that_is_not_valid_is_refused_with_the_variable_it_came_from(
    tmp_path: Path, variable: str, text: str, name: str, reason: str
) -> None:
    """The sentence names setting, place and rule, and does not repeat the value."""
    assert refusal(tmp_path, {variable: text}) == f"{name} (environment {variable}) is not valid: {reason}."


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("home = 3", "home (winnow.toml) is not valid: it must be a path."),
        ("home = ''", "home (winnow.toml) is not valid: it must be a path."),
        ("store_url = ''", "store_url (winnow.toml) is not valid: it must be text, and not empty."),
        ("expectations = 3", "expectations (winnow.toml) is not valid: it must be text, and not empty."),
        ("lease_ms = true", f"lease_ms (winnow.toml) is not valid: {WHOLE_NUMBER}."),
        ("engine.memory_bytes = true", f"engine.memory_bytes (winnow.toml) is not valid: {A_SIZE}."),
        ("engine.memory_bytes = 1.5e9", f"engine.memory_bytes (winnow.toml) is not valid: {A_SIZE}."),
    ],
)
def test_value_of_the_wrong_type_in_the_file_is_refused(tmp_path: Path, text: str, sentence: str) -> None:
    """TOML has types, settings have theirs."""
    write_toml(tmp_path, text)
    assert refusal(tmp_path) == sentence


def test_all_values_that_are_not_valid_are_told_at_once(tmp_path: Path) -> None:
    """Nobody mends one to meet the next."""
    text = refusal(tmp_path, {"WINNOW_LEASE_MS": "x", "WINNOW_ENGINE__THREADS": "x"})
    assert text.count("is not valid") == 2


@pytest.mark.parametrize("folder", ["50%", "a#b", "what?"])
def test_home_folder_that_is_another_path_as_a_uri_is_refused(tmp_path: Path, folder: str) -> None:
    """File URIs are not encoded, as the table format has it."""
    assert "cannot hold data: a path with '%', '#' or '?'" in refusal(tmp_path, {"WINNOW_HOME": folder})


# Secrets

SECRET = "s3cr3t-value"


def secretive(tmp_path: Path) -> Settings:
    env = {
        "WINNOW_CATALOG__URI": f"postgresql://winnow:{SECRET}@db/catalog",
        "WINNOW_CATALOG__S3__SECRET_ACCESS_KEY": SECRET,
        "WINNOW_CATALOG__S3__ACCESS_KEY_ID": SECRET,
        "WINNOW_CATALOG__CREDENTIAL": f"client:{SECRET}",
        "WINNOW_STORE_URL": f"postgresql+psycopg://winnow:{SECRET}@db/winnow?sslpassword={SECRET}&sslmode=require",
        "WINNOW_ALERT__WEBHOOK": f"https://hooks.example.org/{SECRET}",
        "WINNOW_ALERT__NOTIFIERS": f'[{{"class": "a.B", "arguments": {{"token": "{SECRET}", "to": "{SECRET}"}}}}]',
        "WINNOW_SPARK__CONF__spark__hadoop__fs__s3a__secret__key": SECRET,
        "WINNOW_SPARK__CONF__spark__executor__extraJavaOptions": f"-Dx.trustStorePassword={SECRET} -Xmx1g",
    }
    return load_settings(cwd=tmp_path, env=env)


def test_secrets_are_masked_where_settings_are_shown(tmp_path: Path) -> None:
    """Rows keep what is no secret, so that a person can tell which database it is."""
    rows = secretive(tmp_path).rows()
    assert not [row.name for row in rows if SECRET in row.value]
    found = {row.name: row.value for row in rows}
    assert found["catalog.uri"] == "postgresql://winnow:***@db/catalog"
    assert found["store_url"] == "postgresql+psycopg://winnow:***@db/winnow?sslpassword=***&sslmode=require"
    assert found["spark.conf.spark.executor.extraJavaOptions"] == "-Dx.trustStorePassword=*** -Xmx1g"
    assert found["alert.webhook"] == "***"
    assert found["alert.notifiers"] == "a.B(token=***, to=***)"
    assert found["catalog.s3.access-key-id"] == "***"


def test_secrets_are_not_in_the_printed_form_of_settings(tmp_path: Path) -> None:
    """Neither str nor repr, which end up in logs and stack traces."""
    settings = secretive(tmp_path)
    assert SECRET not in repr(settings)
    assert SECRET not in str(settings)


def test_secret_that_is_not_valid_is_not_in_the_error(tmp_path: Path) -> None:
    """Nor in what caused it."""
    with pytest.raises(ConfigurationError) as caught:
        load_settings(cwd=tmp_path, env={"WINNOW_STORE_URL": SECRET, "WINNOW_ALERT__WEBHOOK": SECRET})
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None
    assert SECRET not in str(caught.value.__context__)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("store_url", "sqlite:////a/store.db", "sqlite:////a/store.db"),
        ("store_url", "postgresql://u:p/a@ss@h/d", "postgresql://u:***@h/d"),
        ("store_url", "postgresql://h/d", "postgresql://h/d"),
        ("catalog.token", "x", "***"),
        ("catalog.token", "", ""),
        ("catalog.adls.account-key", "x", "***"),
        ("catalog.adls.connection-string", "x", "***"),
        ("catalog.header.Authorization", "Bearer x", "***"),
        ("spark.conf.spark.hadoop.fs.azure.account.key.a", "x", "***"),
        ("catalog.s3.region", "eu-west-1", "eu-west-1"),
        ("spark.master", "spark://h:7077", "spark://h:7077"),
    ],
)
def test_masking_hides_secrets_and_leaves_the_rest(name: str, value: str, expected: str) -> None:
    """By name as a whole, by form in part."""
    assert mask(name, value) == expected


# The shape of the module


def test_known_names_are_the_fields_of_the_settings() -> None:
    """A field without a name in the layers could not be set."""

    def fields(model: type[BaseModel], above: str = "") -> set[str]:
        found: set[str] = set()
        for name, info in model.model_fields.items():
            kind = info.annotation
            inner = isinstance(kind, type) and issubclass(kind, BaseModel)
            found |= fields(kind, f"{above}{name}.") if inner and isinstance(kind, type) else {f"{above}{name}"}
        return found

    assert fields(Settings) == {*NAMES, *MAPS}


def test_settings_load_no_heavy_library() -> None:
    """They are read at every parse of a DAG."""
    heavy = ["pyspark", "great_expectations", "pyiceberg", "duckdb", "pyarrow", "pandas", "sqlalchemy", "airflow"]
    imports = "import sys, winnow.config.settings, winnow.config.topic, winnow.clock"
    program = f"{imports}; print([m for m in {heavy} if m in sys.modules])"
    root = Path(layers.__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=root)
    assert done.stdout.strip() == "[]"

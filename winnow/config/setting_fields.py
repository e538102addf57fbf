"""The fields of the settings: type, default, sentence and example of each.

The layers, ``winnow init``'s file and the reference derive from them: a setting is added here and nowhere else.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import PydanticUndefined
from pydantic_settings import BaseSettings, SettingsConfigDict

from winnow.config.masking import MASK
from winnow.config.setting_types import (
    Approvals,
    BytesPerSecond,
    Count,
    DagPrefix,
    DatabaseUrl,
    Dotted,
    FolderPath,
    Folders,
    Location,
    Names,
    Namespace,
    Notifiers,
    PageUrl,
    RecreatedTopics,
    Regex,
    Regexes,
    RegistryUrl,
    Secret,
    SizeBytes,
    SparkConf,
    Text,
    Webhook,
)
from winnow.errors import ConfigurationError


def make_folder_uri(folder: Path, origin: str) -> str:
    """Make the ``file://`` URI of an absolute folder in the table format's spelling: nothing is percent-encoded.

    Raises:
        ConfigurationError: the path holds a character that means something else in a URI.
    """
    if re.search(r"[%#?]", str(folder)):
        raise ConfigurationError(
            f"{origin} cannot hold data: a path with '%', '#' or '?' in it is not the same path as a URI.",
            next="Choose a folder without them.",
        )
    return f"file://{folder}"


@dataclass(frozen=True, slots=True)
class SettingExtra:
    """Attributes of a setting that pydantic's ``Field`` does not have; see :func:`describe_setting`."""

    from_home: Callable[[Path], Any] | None
    relative_to: str | None
    in_file: str | None


def describe_setting(
    sentence: str,
    *,
    default: Any = PydanticUndefined,
    default_factory: Callable[[], Any] | None = None,
    from_home: Callable[[Path], Any] | None = None,
    relative_to: str | None = None,
    in_file: str | None = None,
    example: str | None = None,
    secret: bool = False,
) -> Any:
    """Make the field of a setting.

    Args:
        sentence: what it is, for the reference and the initial file.
        default: its default; None where it may be left out.
        default_factory: function that makes the default of an open map.
        from_home: function that makes the default from the home folder.
        relative_to: how a relative path is made absolute: to a ``folder``, or to a ``uri`` unless it is one.
        in_file: what the initial file says instead of ``sentence``.
        example: a line of TOML, for a setting without a default.
        secret: whether its value stays out of the settings' ``repr``.
    """
    options: dict[str, Any] = {"description": sentence, "repr": not secret}
    if default_factory is not None:
        options["default_factory"] = default_factory
    elif default is not PydanticUndefined:
        options["default"] = default
    if example is not None:
        options["examples"] = [example]
    info = Field(**options)
    info.metadata.append(SettingExtra(from_home, relative_to, in_file))
    return info


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class SparkSettings(_Frozen):
    """How spark-submit is called."""

    master: Text = describe_setting("Spark's master, passed to spark-submit.", default="local[*]")
    conf: SparkConf = describe_setting(
        "Spark's properties, for example `spark.executor.memory`.",
        default_factory=dict,
        secret=True,
        in_file="Spark's properties, as Spark spells them.",
        example='"spark.executor.memory" = "2g"',
    )
    class_archive: bool = describe_setting(
        "Whether the first application leaves an archive of Spark's classes (60 MB) in the user's cache, from which "
        "the drivers of later ones start faster.",
        default=True,
    )


class EngineSettings(_Frozen):
    """Limits of one engine task and of one Spark application. None: no limit."""

    memory_bytes: SizeBytes = describe_setting(
        "Memory that one task may use before it spills to disk: bytes, or a size like `512MB` or `2GiB`.", default=2**30
    )
    threads: Count = describe_setting("Threads of one task's engine.", default=1)
    spill_folder: Text = describe_setting(
        "Where tasks spill and ingests keep their spool, in a subfolder that only its user can read. If not set, a "
        "cluster's executors use Spark's local folders instead, and a process that cannot write to `home` uses the "
        "system's temporary folder.",
        from_home=lambda home: str(home / "spill"),
        relative_to="folder",
    )
    tasks: Count | None = describe_setting(
        "Maximum partitions that one Spark application compacts or compares at once; if not set, Spark's cores decide.",
        default=None,
        example="tasks = 2",
    )
    bytes_per_second: BytesPerSecond | None = describe_setting(
        "Maximum bytes per second that all tasks of one Spark application read and write together, on average: a "
        "number of at least 1, or a size like `50MB`.",
        default=None,
        example='bytes_per_second = "50MB"',
    )
    giant_bytes: SizeBytes = describe_setting(
        "Minimum size of a topic partition that may be split over several tasks, by a compaction or where its latest "
        "state is written: bytes, or a size like `512MB`. One is split only if cores of its Spark application would be "
        "idle otherwise, by a compaction never when `engine.bytes_per_second` is set.",
        default=2**29,
    )


class FactsSettings(_Frozen):
    """How validation recomputes the facts of a compaction."""

    workers: Count | None = describe_setting(
        "Maximum partitions that validation recomputes at once in one process, each within the engine's memory; if "
        "not set, one per core, at most four.",
        default=None,
        example="workers = 2",
    )
    spark_from_bytes: SizeBytes = describe_setting(
        "A topic for which validation would read at least this much is recomputed in a Spark application instead of "
        "the validating process.",
        default=8 * 2**30,
    )


class IngestSettings(_Frozen):
    """Where archives are read."""

    roots: Folders = describe_setting(
        "Folders below which the DAG `ingest_topics` may read: absolute paths and URIs like `s3://bucket/folder`, in "
        "the environment separated by commas or as JSON. Links that lead out of them are refused. Commands at the "
        "shell may read what their user may read.",
        from_home=lambda home: (str(home / "incoming"),),
        example='roots = ["/archive", "s3://bucket/kafka"]',
    )

    spark_from_bytes: SizeBytes = describe_setting(
        "An archive of which at least this much is new is read by a Spark application instead of the ingesting "
        "process. `winnow ingest files --engine` decides it for one call.",
        default=2**30,
    )
    spark_from_records: Count = describe_setting(
        "If at least this many offsets of Kafka topics are new, a Spark application reads them, all topics in one, "
        "instead of the ingesting process. `winnow ingest kafka --engine` decides it for one call.",
        default=5_000_000,
    )
    processes: Count = describe_setting(
        "How many processes read a Kafka topic at most where Spark does not: one for each 500,000 offsets that are "
        "new, and no more than there are cores; each takes about 400 MB. 1: the ingesting process reads by itself.",
        default=4,
    )


class SourceSettings(_Frozen):
    """The Kafka cluster that topics are ingested from, and which of them the DAG ``ingest_topics`` follows."""

    bootstrap_servers: str | None = describe_setting(
        "Brokers to ask first, as `HOST:PORT`, separated by commas.",
        default=None,
        example='bootstrap_servers = "kafka-1:9092,kafka-2:9092"',
    )
    properties_file: FolderPath | None = describe_setting(
        "Properties of Kafka's clients, such as SASL and SSL: the file that Kafka's own tools take as "
        "`--command-config`. Keep it readable for Winnow's user only; nothing in it is logged.",
        default=None,
        relative_to="folder",
        example='properties_file = "client.properties"',
    )
    topics_regex: Regex | None = describe_setting(
        "Which topics of the cluster the DAG `ingest_topics` follows: those whose whole name matches this regular "
        "expression. If not set, it follows none.",
        default=None,
        example="topics_regex = 'shop[.].*'",
    )
    create: bool = describe_setting(
        "Whether followed topics that do not exist here are created, with the partitions that the brokers have.",
        default=False,
        example="create = true",
    )
    sync_config: bool = describe_setting(
        "Whether followed topics take over the topic configuration that the brokers have, such as "
        "`max.compaction.lag.ms`. A change that would remove records waits for a person.",
        default=False,
        example="sync_config = true",
    )
    recreated: RecreatedTopics = describe_setting(
        "What becomes of a followed topic that was deleted and created again in Kafka, by its topic id: `refuse` fails "
        "it until a person decides, `new_epoch` goes on with the new one at the end of the log, also if it has fewer "
        "partitions.",
        default="refuse",
        example='recreated = "new_epoch"',
    )
    interval_ms: Count = describe_setting(
        "How often the DAG `ingest_topics` reads the topics that it follows, in ms.", default=300_000
    )


class SchemaRegistrySettings(_Frozen):
    """The registry that knows the schemas of keys and values."""

    url: RegistryUrl = describe_setting(
        "The address of a schema registry with Confluent's API, with its path if it has one: Apicurio's is "
        "`https://HOST/apis/ccompat/v7`. A user and password in it are refused.",
        default=None,
        example='url = "https://registry.example.com"',
    )
    user: Text | None = describe_setting(
        "The user at the registry, or the name of an API key.", default=None, example='user = "winnow"'
    )
    password: Secret = describe_setting(
        "The user's password, or the secret of the API key; set it in the environment.",
        default=None,
        secret=True,
        example='password = "from a password manager"',
    )
    token: Secret = describe_setting(
        "A bearer token instead of user and password; set it in the environment.",
        default=None,
        secret=True,
        example='token = "from a password manager"',
    )
    ca_file: FolderPath | None = describe_setting(
        "Certificates (PEM) that the registry's certificate has to stand on; if not set, the system's.",
        default=None,
        relative_to="folder",
        example='ca_file = "ca.pem"',
    )
    certificate_file: FolderPath | None = describe_setting(
        "The client's certificate (PEM), for a registry that asks for one.",
        default=None,
        relative_to="folder",
        example='certificate_file = "client.pem"',
    )
    key_file: FolderPath | None = describe_setting(
        "The key of the client's certificate (PEM, without a password); if not set, it is in the same file. Keep it "
        "readable for Winnow's user only.",
        default=None,
        relative_to="folder",
        example='key_file = "client.key"',
    )


class NotifierSettings(_Frozen):
    """One of Airflow's notifiers: its class and its arguments.

    Airflow renders them with ``{{ alert.text }}``, ``{{ alert.kind }}``, ``{{ alert.topic }}``, ``{{ alert.link }}``
    and every other field of an alert. Secrets belong in Airflow's connections.
    """

    path: Dotted = Field(alias="class")
    arguments: dict[str, Any] = Field(default_factory=dict, repr=False)

    def __str__(self) -> str:
        return f"{self.path}({', '.join(f'{name}={MASK}' for name in self.arguments)})"


class AlertSettings(_Frozen):
    """Who gets alerts, and when."""

    webhook: Webhook = describe_setting(
        "Who receives a JSON document for each alert: an http or https URL.",
        default=None,
        example='webhook = "https://hooks.example.com/winnow"',
    )
    page_url: PageUrl = describe_setting(
        "Airflow's address, for the links of alerts that are raised outside of Airflow; inside, its own `[api] "
        "base_url` is used.",
        default=None,
        example='page_url = "https://airflow.example.com"',
    )
    notifiers: Annotated[tuple[NotifierSettings, ...], Notifiers] = describe_setting(
        'Airflow\'s notifiers that receive alerts as well (Slack, e-mail and others): a list of `{"class": '
        '"package.Notifier", "arguments": {…}}`, in the environment as JSON. Arguments are templates over the '
        "alert: `{{ alert.text }}`, `{{ alert.kind }}`, `{{ alert.topic }}`, `{{ alert.link }}`. Secrets belong in "
        "Airflow's connections.",
        default=(),
        example='notifiers = [{ class = "airflow.providers.smtp.notifications.smtp.SmtpNotifier", arguments = { to = '
        '"oncall@example.com", subject = "{{ alert.severity }}: {{ alert.kind }} of {{ alert.topic }}", '
        'html_content = "<pre>{{ alert.text | e }}</pre>" } }]',
    )
    deadline_warning_ms: Count = describe_setting(
        "How long before a deadline the alert deadline_near is sent, in ms; at most a quarter of the topic's "
        "`max.compaction.lag.ms`.",
        default=3_600_000,
    )
    deadline_grace_ms: Count = describe_setting(
        "How long after a deadline the alert deadline_missed is sent, in ms: a partition is only due once its "
        "deadline has passed, so the run that follows needs some time.",
        default=1_800_000,
    )
    sweep_stuck_ms: Count = describe_setting(
        "How long after their grace period retired files may wait before their sweep counts as stuck, in ms.",
        default=259_200_000,
    )
    run_late_ms: Count = describe_setting(
        "How long a compaction or an ingest of a topic may be at work before the alert run_late is sent, in ms.",
        default=21_600_000,
    )


class ScrubSettings(_Frozen):
    """How fast a scrub reads the files of a log in full. None: no limit."""

    bytes_per_day: SizeBytes | None = describe_setting(
        "Maximum bytes that `winnow scrub` and the DAG `scrub_topics` read within 24 hours: bytes, or a size like "
        "`50GB`; if not set, there is no limit. One file is read even if it is larger.",
        default=None,
        example='bytes_per_day = "200GB"',
    )
    bytes_per_second: BytesPerSecond | None = describe_setting(
        "Maximum bytes per second that a scrub reads, on average: a number of at least 1, or a size like `50MB`.",
        default=None,
        example='bytes_per_second = "50MB"',
    )
    spark_from_bytes: SizeBytes = describe_setting(
        "A scrub that reads at least this much has a Spark application read it instead of its own process. `winnow "
        "scrub --engine` decides it for one call.",
        default=2**33,
    )


class ReadSettings(_Frozen):
    """Where records are read that a command writes into a folder."""

    spark_from_bytes: SizeBytes = describe_setting(
        "Where `winnow read`, `winnow latest` or `winnow changes` writes a folder and reads at least this much of the "
        "log, a Spark application does instead of its own process. `--engine` decides it for one call.",
        default=2**33,
    )


class LatestSettings(_Frozen):
    """What tables of the latest state need."""

    secret: Secret = describe_setting(
        "The secret of fields that `winnow.latest.fields` shows as digests (HMAC-SHA-256), at least 16 bytes; set it "
        "in the environment. With another one these tables are written anew.",
        default=None,
        secret=True,
        example='secret = "from a password manager"',
    )
    spark_from_bytes: SizeBytes = describe_setting(
        "An update of such a table for which at least this much of the log is new to it is carried out by a Spark "
        "application instead of the updating process. `winnow latest-table update --engine` decides it for one call.",
        default=2**30,
    )


class EraseSettings(_Frozen):
    """What `winnow erase` needs: the secret for the digests of erased keys, where the DAG finds keys, who approves."""

    secret: Secret = describe_setting(
        "The secret with which digests of erased keys are made (HMAC-SHA-256), at least 16 bytes; set it in the "
        "environment. If not set, the file `erase.hmac_key_file` has it.",
        default=None,
        secret=True,
        example='secret = "from a password manager"',
    )
    hmac_key_file: FolderPath = describe_setting(
        "The file with that secret if `erase.secret` is not set; the first erasure makes it, readable for its owner "
        "only. Keep a copy of it like a password: without it nothing can be ingested into a topic with erased keys.",
        from_home=lambda home: str(home / "erase.secret"),
        relative_to="folder",
    )
    register_folder: Location = describe_setting(
        "The register of erasures: a folder or URI, outside of the warehouse and of its backups, that every host with "
        "commands of Winnow reaches. By it a restored backup, or an older state that is put back, learns what was "
        "erased since. Keep it for as long as any copy of the topics.",
        from_home=lambda home: make_folder_uri(home / "erasures", f"the home folder {home}"),
        relative_to="uri",
    )
    roots: Folders = describe_setting(
        "Folders and URIs below which the DAG `erase_keys` may read files with keys. If not set, it reads none.",
        default=(),
        example='roots = ["s3://privacy/requests"]',
    )
    spark_from_bytes: SizeBytes = describe_setting(
        "Where an erasure reads, or writes again, at least this much of a topic, Spark applications do instead of its "
        "own process. `winnow erase --engine` decides it for one call.",
        default=2**33,
    )
    approvals: Approvals = describe_setting(
        "How many persons an erasure takes, 1 or 2. With 2, who asks for one only makes a request, and another user "
        "of Airflow who may trigger the DAG `erase_keys` approves it on the page.",
        default=1,
        example="approvals = 2",
    )
    shell_approval: bool = describe_setting(
        "With two persons: whether another user of the operating system may approve at a shell, too "
        "(`winnow erase approve`).",
        default=False,
        example="shell_approval = true",
    )
    trust_bucket_deletes: bool = describe_setting(
        "Declares that the bucket keeps nothing of what is deleted (no versions, no soft delete, no retention), for "
        "stores that Winnow cannot ask: Google Cloud Storage, Azure, and others that do not tell. Erasures are refused "
        "there without it.",
        default=False,
    )


class ChangeSettings(_Frozen):
    """Who changes topics, where that can remove records for good."""

    approvals: Approvals = describe_setting(
        "How many persons a change of a topic takes after which runs can remove records for good (retention, "
        "`cleanup.policy`, the strategy, tombstones, a raised log start), 1 or 2. With 2, the DAG `change_topics` "
        "waits until another user approves it in Airflow, and a shell refuses it.",
        default=1,
        example="approvals = 2",
    )


class AirflowSettings(_Frozen):
    """How this installation's DAGs are named in Airflow."""

    dag_prefix: DagPrefix = describe_setting(
        "What stands before the ids of the DAGs, before their tag `winnow` and the assets' names, so that several "
        "installations live in one Airflow: with `sales_` the DAG is `sales_compact_topics`.",
        default="",
        example='dag_prefix = "sales_"',
    )


class PageSettings(_Frozen):
    """Who may read records on the page in Airflow, what is masked there, and the limits of its reader processes."""

    record_readers: Names = describe_setting(
        "Users of Airflow, by name, who may read keys and values of records on the page, if Airflow's auth manager "
        "allows the custom view `Winnow records` as well; in the environment separated by commas or as JSON. If not "
        "set, nobody may.",
        default=(),
        example='record_readers = ["ada", "grace"]',
    )
    masked_patterns: Regexes = describe_setting(
        "Regular expressions, in the environment as JSON: what they match in records is shown as `***` on the page.",
        default=(),
        example="masked_patterns = ['[0-9]{16}', '(?i)bearer [a-z0-9._-]+']",
    )
    masked_fields: Names = describe_setting(
        "Names of JSON fields, upper and lower case alike: their values are shown as `***` on the page, at every "
        "depth of keys, values and header values that are JSON.",
        default=(),
        example='masked_fields = ["email", "iban"]',
    )
    reader_seconds: Count = describe_setting(
        "Maximum seconds, of the clock and of CPU time, of a process that reads the log for the page.", default=30
    )
    reader_memory_bytes: SizeBytes = describe_setting(
        "Maximum address space of such a process, a size like `2GiB`; the libraries need half a GiB.", default=2**31
    )
    reader_processes: Count = describe_setting(
        "Maximum such processes of one api-server at once, one per user; further requests wait, then get the status "
        "429.",
        default=2,
    )


class HistorySettings(_Frozen):
    """How long the metadata store keeps history."""

    retention_ms: Count = describe_setting(
        "How long the metadata store keeps its history, in ms: assessments, runs that ended, verdicts with their "
        "Data Docs pages, what is known of deleted files, samples and deadlines of the page's trends. Sweeps remove "
        "what is older; receipts, checkpoints, open runs and the newest assessment of each partition stay.",
        default=7_776_000_000,
    )


class MetricsSettings(_Frozen):
    """Which metrics are sent."""

    most_topics: Count = describe_setting(
        "With more topics than this, Airflow's metrics receive totals over all topics only, and no figures per topic.",
        default=1_000,
    )


class SettingFields(BaseSettings):
    """All settings, frozen; :class:`winnow.config.settings.Settings` adds what is derived from them."""

    model_config = SettingsConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    home: FolderPath = describe_setting(
        "Folder of everything embedded: catalog, warehouse, staging area, metadata store, Airflow's home.",
        from_home=str,
        relative_to="folder",
    )
    catalog: dict[str, str] = describe_setting(
        "PyIceberg's catalog properties, for example `catalog.uri`. A `py-io-impl` that you set is kept; for a local "
        "warehouse derive it from `winnow.log.file_io.SyncedFileIO`, which syncs what it writes.",
        secret=True,
        in_file="PyIceberg's catalog properties. Set uri, like postgresql+psycopg://winnow@host/catalog or "
        "https://host/catalog, to use another catalog than the embedded one; s3.endpoint, s3.region and similar "
        "properties go here too. Keep keys and passwords in the environment, or use the machine's role.",
    )
    warehouse: Location = describe_setting(
        "Where the tables live: a path, or a URI like `s3://bucket/folder`.",
        from_home=lambda home: make_folder_uri(home / "warehouse", f"the home folder {home}"),
        relative_to="uri",
    )
    warehouse_shared: bool = describe_setting(
        "Whether this installation may write although the warehouse's document `NAMESPACE_installation.json` names "
        "another one. Better give each installation a `namespace` of its own.",
        default=False,
    )
    vended_credentials: bool = describe_setting(
        "Whether files below the warehouse are opened with credentials that the REST catalog vends for each table, "
        "by Spark's tasks too, instead of access of the processes' own; S3 only. What lies outside of the topics' "
        "tables moves into the folder of one more table, so choose it before the first topic is created.",
        default=False,
        example="vended_credentials = true",
    )
    namespace: Namespace = describe_setting(
        "The catalog's namespace of the topics' tables. The side tables' namespaces and the folders in the warehouse "
        "begin with it, so installations with different ones share a warehouse and a catalog. Topics do not move with "
        "it: choose it before the first is created.",
        default="winnow",
    )
    staging: Location = describe_setting(
        "Where plans and staging manifests live: a path or a URI.",
        from_home=lambda home: make_folder_uri(home / "staging", f"the home folder {home}"),
        relative_to="uri",
    )
    store_url: DatabaseUrl = describe_setting(
        "The metadata store, as SQLAlchemy's URL.",
        from_home=lambda home: f"sqlite:///{home / 'store.db'}",
        secret=True,
    )
    spark: SparkSettings
    engine: EngineSettings
    facts: FactsSettings
    ingest: IngestSettings
    source: SourceSettings = Field(default_factory=SourceSettings)
    schema_registry: SchemaRegistrySettings = Field(default_factory=SchemaRegistrySettings)
    expectations: FolderPath | None = describe_setting(
        "Folder with content suites of your own.",
        default=None,
        relative_to="folder",
        example='expectations = "suites"',
    )
    alert: AlertSettings
    metrics: MetricsSettings
    scrub: ScrubSettings = Field(default_factory=ScrubSettings)
    read: ReadSettings = Field(default_factory=ReadSettings)
    history: HistorySettings
    page: PageSettings = Field(default_factory=PageSettings)
    latest: LatestSettings = Field(default_factory=LatestSettings)
    erase: EraseSettings
    change: ChangeSettings = Field(default_factory=ChangeSettings)
    airflow: AirflowSettings = Field(default_factory=AirflowSettings)
    lease_ms: Count = describe_setting("How long a lease on a topic lasts without renewal, in ms.", default=3_600_000)
    owners: dict[str, str] = describe_setting(
        "Users of Airflow, separated by commas, who may act for each owner of topics (`winnow.owner`), for example "
        "`owners.payments`. Others may neither change such topics by a DAG run nor read their records on the page; "
        "`owners.*` may for all. Topics of owners that are not named here are as without it.",
        default_factory=dict,
        in_file="Users of Airflow who may act for each owner of topics, separated by commas.",
        example='payments = "ada, grace"',
    )
    kafka: dict[str, str] = describe_setting(
        "A broker's names: [above](#broker-names).",
        default_factory=dict,
        in_file="Defaults for all topics under the broker's names, as in server.properties.",
        example='"log.cleaner.min.cleanable.ratio" = 0.3',
    )

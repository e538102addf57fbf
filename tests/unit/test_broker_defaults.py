"""Broker names: defaults of every topic, the cleaner's own keys, what is refused, and where each value came from."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from winnow.config.broker import (
    BROKER_DEFINITIONS,
    BROKER_KEYS_WITHOUT_MEANING,
    BrokerDefinition,
    TopicDefault,
    make_topic_defaults,
)
from winnow.config.definitions import DEFINITIONS, TOPIC_KEY_OF_BROKER_NAME, Definition
from winnow.config.settings import Settings, load_settings
from winnow.config.topic import TopicConfig, list_entries
from winnow.errors import ConfigurationError
from winnow.values.strategies import Strategy

HOUR_MS = 3_600_000
DOUBLE_MAX = "1.7976931348623157E308"


def settings_with(folder: Path, toml: str = "", env: dict[str, str] | None = None) -> Settings:
    """The settings of a ``winnow.toml`` whose table ``[kafka]`` holds ``toml``."""
    (folder / "winnow.toml").write_text(f"[kafka]\n{toml}\n", encoding="utf-8")
    return load_settings(cwd=folder, env=env or {})


def defaults(**given: str) -> dict[str, TopicDefault]:
    """The topic defaults of broker names written with ``__`` for ``.``, all from winnow.toml."""
    names = {name.replace("__", "."): value for name, value in given.items()}
    return make_topic_defaults(names, dict.fromkeys(names, "winnow.toml"))


def refusal(**given: str) -> str:
    """What is said of broker names and values, written with ``__`` for ``.``."""
    with pytest.raises(ConfigurationError) as caught:
        defaults(**given)
    assert caught.value.exit_code == 2
    return str(caught.value)


def source(config: TopicConfig, name: str) -> tuple[str, str]:
    """Value and source of one key, as ``topics describe`` shows them."""
    return next((entry.value, entry.source) for entry in list_entries(config) if entry.name == name)


# Where defaults come from and which win


def test_broker_name_in_the_file_is_the_default_of_its_topic_key(tmp_path: Path) -> None:
    """The entry says file and broker name; a key that is not named keeps its default."""
    settings = settings_with(tmp_path, '"log.cleaner.min.cleanable.ratio" = 0.3')
    config = TopicConfig.parse({}, settings.topic_defaults)
    assert config.min_cleanable_dirty_ratio == 0.3
    assert source(config, "min.cleanable.dirty.ratio") == (
        "0.3",
        "default (winnow.toml: log.cleaner.min.cleanable.ratio)",
    )
    assert source(config, "segment.ms") == ("604800000", "default")


def test_topic_value_wins_over_the_installations_default(tmp_path: Path) -> None:
    """Also when it is the value that the table has anyway."""
    settings = settings_with(tmp_path, '"log.cleaner.min.cleanable.ratio" = 0.3')
    config = TopicConfig.parse({"min.cleanable.dirty.ratio": "0.5"}, settings.topic_defaults)
    assert config.min_cleanable_dirty_ratio == 0.5
    assert source(config, "min.cleanable.dirty.ratio") == ("0.5", "topic")
    assert config.overrides == {"min.cleanable.dirty.ratio": "0.5"}


@pytest.mark.parametrize(
    "variable",
    [
        "WINNOW_KAFKA__LOG_CLEANER_MIN_CLEANABLE_RATIO",
        "WINNOW_KAFKA__LOG__CLEANER__MIN__CLEANABLE__RATIO",
        "WINNOW_KAFKA__log.cleaner.min.cleanable.ratio",
    ],
)
def test_variable_spelled_as_for_kafkas_containers_wins_over_the_file(tmp_path: Path, variable: str) -> None:
    """Dots of the name are single or double underscores, or dots where a shell lets them be."""
    settings = settings_with(tmp_path, '"log.cleaner.min.cleanable.ratio" = 0.3', {variable: "0.7"})
    config = TopicConfig.parse({}, settings.topic_defaults)
    assert source(config, "min.cleanable.dirty.ratio") == (
        "0.7",
        f"default (environment {variable}: log.cleaner.min.cleanable.ratio)",
    )


def test_dotted_keys_without_quotes_are_the_same_names(tmp_path: Path) -> None:
    """TOML makes tables of them; they are read flat."""
    assert settings_with(tmp_path, "log.retention.hours = 2").kafka == {"log.retention.hours": "2"}


@pytest.mark.parametrize(
    ("given", "value_ms", "winner"),
    [
        ({"log.retention.hours": "2"}, 2 * HOUR_MS, "log.retention.hours"),
        ({"log.retention.hours": "2", "log.retention.minutes": "3"}, 180_000, "log.retention.minutes"),
        (
            {"log.retention.hours": "2", "log.retention.minutes": "3", "log.retention.ms": "4"},
            4,
            "log.retention.ms",
        ),
        ({"log.retention.hours": "2", "log.retention.ms": "-5"}, -1, "log.retention.ms"),
        ({"log.retention.hours": "-1"}, -1, "log.retention.hours"),
        ({"log.retention.minutes": "-7"}, -1, "log.retention.minutes"),
    ],
)
def test_first_broker_name_that_is_set_wins_in_its_own_unit(given: dict[str, str], value_ms: int, winner: str) -> None:
    """Milliseconds before minutes before hours; a negative retention is no limit."""
    found = make_topic_defaults(given, dict.fromkeys(given, "winnow.toml"))
    assert found == {"retention.ms": TopicDefault(str(value_ms), f"winnow.toml: {winner}")}
    assert TopicConfig.parse({}, found).retention_ms == value_ms


def test_rolling_hours_are_turned_into_milliseconds() -> None:
    """Both of Kafka's settings in hours besides retention."""
    config = TopicConfig.parse({}, defaults(log__roll__hours="3", log__roll__jitter__hours="1"))
    assert (config.segment_ms, config.segment_jitter_ms) == (3 * HOUR_MS, HOUR_MS)


def test_order_of_broker_names_holds_across_file_and_environment(tmp_path: Path) -> None:
    """The environment wins name by name, not over another name."""
    settings = settings_with(tmp_path, '"log.roll.ms" = 5', {"WINNOW_KAFKA__LOG_ROLL_HOURS": "1"})
    assert settings.topic_defaults == {"segment.ms": TopicDefault("5", "winnow.toml: log.roll.ms")}


@pytest.mark.parametrize("key", DEFINITIONS, ids=lambda each: each.name)
def test_every_broker_name_and_every_key_of_winnows_own_can_be_a_default(key: Definition) -> None:
    """The table's own default, said under each of its names, is accepted and comes out as it went in."""
    names = [key.name] if key.name.startswith("winnow.") else [each.name for each in key.broker_names]
    for name in names:
        factor = next((each.factor for each in key.broker_names if each.name == name), 1)
        assert key.default is not None
        text = key.default if factor == 1 or key.default == "-1" else str(int(key.default) // factor)
        found = make_topic_defaults({name: text}, {name: "winnow.toml"})
        assert found == {key.name: TopicDefault(key.default, f"winnow.toml: {name}")}
        assert TopicConfig.parse({}, found).defaults == found


def test_default_from_the_installation_is_not_the_topics_own() -> None:
    """Nothing of it is written into the topic, and configurations with it cross process borders."""
    config = TopicConfig.parse({}, defaults(winnow__keyless="quarantine"))
    assert config.overrides == {}
    assert source(config, "winnow.keyless") == ("quarantine", "default (winnow.toml: winnow.keyless)")
    assert pickle.loads(pickle.dumps(config)) == config
    assert hash(config) == hash(pickle.loads(pickle.dumps(config)))


# What is refused


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        (
            "log.cleaner.min.cleanable.ratio",
            "1.5",
            "Invalid value 1.5 for configuration log.cleaner.min.cleanable.ratio: Value must be no more than 1",
        ),
        (
            "log.cleaner.delete.retention.ms",
            "a day",
            "Invalid value a day for configuration log.cleaner.delete.retention.ms: Not a number of type LONG",
        ),
        (
            "log.cleanup.policy",
            "compact,purge",
            "Invalid value purge for configuration log.cleanup.policy: String must be one of: compact, delete",
        ),
        (
            "log.roll.hours",
            "2147483648",
            "Invalid value 2147483648 for configuration log.roll.hours: Not a number of type INT",
        ),
        ("log.roll.hours", "0", "Invalid value 0 for configuration log.roll.hours: Value must be at least 1"),
        (
            "log.roll.jitter.hours",
            "-1",
            "Invalid value -1 for configuration log.roll.jitter.hours: Value must be at least 0",
        ),
        (
            "log.cleaner.compaction.strategy",
            "Header",
            (
                "Invalid value Header for configuration log.cleaner.compaction.strategy: "
                "String must be one of: offset, timestamp, header"
            ),
        ),
        (
            "winnow.keyless",
            "drop",
            "Invalid value drop for configuration winnow.keyless: String must be one of: reject, quarantine",
        ),
    ],
)
def test_bad_broker_value_is_refused_in_kafkas_words_under_the_brokers_name(
    name: str, text: str, sentence: str
) -> None:
    """With the place it came from."""
    assert refusal(**{name: text}) == f"{sentence}. It comes from winnow.toml."


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("log.roll.ms", "0", "log.roll.ms must be greater than or equal to 1"),
        ("log.roll.ms", "-5", "log.roll.ms must be greater than or equal to 1"),
        ("log.roll.jitter.ms", "-1", "log.roll.jitter.ms must be greater than or equal to 0"),
        ("log.retention.ms", "0", "log.retention.ms must be unlimited (-1) or, greater than or equal to 1"),
        ("log.retention.minutes", "0", "log.retention.ms must be unlimited (-1) or, greater than or equal to 1"),
        ("log.retention.hours", "0", "log.retention.ms must be unlimited (-1) or, greater than or equal to 1"),
    ],
)
def test_time_that_a_broker_cannot_have_is_refused_in_its_words(name: str, text: str, sentence: str) -> None:
    """Kafka checks these after it has chosen among the names; a topic may have retention.ms=0, a broker may not."""
    assert refusal(**{name: text}) == f"{sentence}. {name} comes from winnow.toml."


def test_bad_value_that_loses_to_another_name_is_refused_all_the_same() -> None:
    """It would come into force on the day the other one goes."""
    assert "log.retention.hours" in refusal(log__retention__ms="5", log__retention__hours="soon")


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("log.cleaner.thread", "The nearest known name is log.cleaner.threads."),
        ("log.retention.our", "The nearest known name is log.retention.hours."),
        (
            "retention.ms",
            "That is a topic's name; the broker's is log.retention.ms or log.retention.minutes or log.retention.hours.",
        ),
        ("min.cleanable.dirty.ratio", "That is a topic's name; the broker's is log.cleaner.min.cleanable.ratio."),
        ("remote.storage.enable", "That is a topic's name; a broker has none, so set it on the topic."),
        ("log.dirs", "It configures Kafka's brokers and has no meaning for an archive; leave it out."),
    ],
)
def test_unknown_broker_name_is_refused_with_what_to_write_instead(name: str, hint: str) -> None:
    """Names before values, as for topics."""
    assert refusal(**{name: "1", "log.roll.ms": "0"}) == (
        f"Unknown broker config name: {name}. {hint} It comes from winnow.toml."
    )


def test_refusal_when_settings_are_read_names_the_variable(tmp_path: Path) -> None:
    """Nothing is begun with a default that no topic could have."""
    with pytest.raises(ConfigurationError, match=r"It comes from environment WINNOW_KAFKA__LOG_ROLL_HOURS\.$"):
        settings_with(tmp_path, env={"WINNOW_KAFKA__LOG_ROLL_HOURS": "x"})


def test_table_that_is_none_is_refused(tmp_path: Path) -> None:
    """As for the other open maps."""
    (tmp_path / "winnow.toml").write_text("kafka = 3")
    with pytest.raises(ConfigurationError, match=r"^kafka in winnow.toml must be a table: \[kafka\]\.$"):
        load_settings(cwd=tmp_path, env={})


def test_no_name_is_known_and_meaningless_at_once() -> None:
    """Topic's, cleaner's and meaningless names are three separate sets."""
    cleaner = {each.name for each in BROKER_DEFINITIONS}
    assert not cleaner & TOPIC_KEY_OF_BROKER_NAME.keys()
    assert not BROKER_KEYS_WITHOUT_MEANING & (cleaner | TOPIC_KEY_OF_BROKER_NAME.keys())


# Values that must fit one another


def test_minimum_lag_of_the_topic_above_the_default_maximum_is_refused() -> None:
    """Kafka's sentence, then where both came from."""
    with pytest.raises(ConfigurationError) as caught:
        TopicConfig.parse({"min.compaction.lag.ms": "11"}, defaults(log__cleaner__max__compaction__lag__ms="10"))
    assert str(caught.value) == (
        "conflict topic config setting min.compaction.lag.ms (11) > max.compaction.lag.ms (10). min.compaction.lag.ms "
        "comes from: topic; max.compaction.lag.ms comes from: "
        "default (winnow.toml: log.cleaner.max.compaction.lag.ms)."
    )


def test_maximum_lag_of_the_topic_below_the_default_minimum_is_refused() -> None:
    """The other way round."""
    with pytest.raises(ConfigurationError, match=r"min.compaction.lag.ms \(11\) > max.compaction.lag.ms \(10\)"):
        TopicConfig.parse({"max.compaction.lag.ms": "10"}, defaults(log__cleaner__min__compaction__lag__ms="11"))


def test_topic_that_sets_both_lags_is_not_bound_by_the_defaults() -> None:
    """Only what is in force is compared; equality is no conflict."""
    given = defaults(log__cleaner__max__compaction__lag__ms="10", log__cleaner__min__compaction__lag__ms="10")
    assert TopicConfig.parse({}, given).min_compaction_lag_ms == 10
    config = TopicConfig.parse({"min.compaction.lag.ms": "20", "max.compaction.lag.ms": "30"}, given)
    assert (config.min_compaction_lag_ms, config.max_compaction_lag_ms) == (20, 30)


HEADER = "log.cleaner.compaction.strategy"


@pytest.mark.parametrize(
    ("overrides", "brokers"),
    [
        ({}, {HEADER: "header", f"{HEADER}.header": "v"}),
        ({"compaction.strategy.header": "v"}, {HEADER: "header"}),
        ({"compaction.strategy": "header"}, {f"{HEADER}.header": "v"}),
    ],
)
def test_header_strategy_with_a_name_from_either_place_is_accepted(
    overrides: dict[str, str], brokers: dict[str, str]
) -> None:
    """KIP-280's patch had this check the wrong way round for brokers."""
    config = TopicConfig.parse(overrides, defaults(**brokers))
    assert (config.compaction_strategy, config.compaction_strategy_header) == (Strategy.HEADER, "v")


@pytest.mark.parametrize(
    ("overrides", "brokers"),
    [
        ({}, {HEADER: "header"}),
        ({}, {HEADER: "header", f"{HEADER}.header": " "}),
        ({"compaction.strategy.header": ""}, {HEADER: "header", f"{HEADER}.header": "v"}),
    ],
)
def test_header_strategy_of_the_broker_without_a_name_is_refused(
    overrides: dict[str, str], brokers: dict[str, str]
) -> None:
    """KIP-280's sentence, and where the strategy came from."""
    with pytest.raises(ConfigurationError) as caught:
        TopicConfig.parse(overrides, defaults(**brokers))
    assert str(caught.value).startswith("compaction.strategy.header must be specified. compaction.strategy comes from:")
    assert f"default (winnow.toml: {HEADER})" in str(caught.value)


def test_broker_header_without_the_strategy_is_accepted() -> None:
    """It waits for a topic that chooses the strategy."""
    assert TopicConfig.parse({}, defaults(**{f"{HEADER}.header": "v"})).compaction_strategy is Strategy.OFFSET


# The cleaner's own keys


def test_cleaner_threads_memory_and_rate_become_settings_of_the_engine(tmp_path: Path) -> None:
    """Memory is the total, so each thread gets its part; the sources are the broker's names."""
    settings = settings_with(
        tmp_path,
        '"log.cleaner.threads" = 4\n"log.cleaner.dedupe.buffer.size" = 268435456\n'
        '"log.cleaner.io.max.bytes.per.second" = 1e6',
    )
    engine = settings.engine
    assert (engine.tasks, engine.memory_bytes, engine.bytes_per_second) == (4, 64 * 2**20, 1_000_000.0)
    sources = {row.name: row.source for row in settings.rows()}
    assert sources["engine.tasks"] == "winnow.toml: log.cleaner.threads"
    assert sources["engine.memory_bytes"] == "winnow.toml: log.cleaner.dedupe.buffer.size"
    assert sources["engine.bytes_per_second"] == "winnow.toml: log.cleaner.io.max.bytes.per.second"
    assert sources["kafka.log.cleaner.threads"] == "winnow.toml"
    assert settings.notices == ()


def test_variable_of_a_cleaner_key_wins_over_the_file(tmp_path: Path) -> None:
    """As for topic defaults; the source is the variable."""
    settings = settings_with(tmp_path, '"log.cleaner.threads" = 4', {"WINNOW_KAFKA__LOG_CLEANER_THREADS": "2"})
    assert settings.engine.tasks == 2
    assert settings.notices == ()
    sources = {row.name: row.source for row in settings.rows()}
    assert sources["engine.tasks"] == "environment WINNOW_KAFKA__LOG_CLEANER_THREADS: log.cleaner.threads"


def test_engine_has_no_limit_of_tasks_and_rate_unless_one_is_set(tmp_path: Path) -> None:
    """Kafka's defaults of these keys are not taken over."""
    engine = load_settings(cwd=tmp_path, env={}).engine
    assert (engine.tasks, engine.bytes_per_second, engine.memory_bytes) == (None, None, 2**30)


def test_memory_without_threads_is_that_of_one_thread(tmp_path: Path) -> None:
    """Kafka's default is one."""
    settings = settings_with(tmp_path, '"log.cleaner.dedupe.buffer.size" = 134217728')
    assert settings.engine.memory_bytes == 134_217_728


@pytest.mark.parametrize("text", [DOUBLE_MAX, "Infinity"])
def test_largest_rate_is_no_limit(tmp_path: Path, text: str) -> None:
    """It is Kafka's default."""
    settings = settings_with(tmp_path, f'"log.cleaner.io.max.bytes.per.second" = "{text}"')
    assert settings.engine.bytes_per_second is None


def test_setting_under_winnows_own_name_wins_and_is_noticed(tmp_path: Path) -> None:
    """Two names for one thing: the more particular one holds, and nobody wonders."""
    settings = settings_with(tmp_path, '"log.cleaner.threads" = 4', {"WINNOW_ENGINE__TASKS": "2"})
    assert settings.engine.tasks == 2
    assert settings.notices == (
        (
            "log.cleaner.threads (winnow.toml) has no effect, because engine.tasks (environment WINNOW_ENGINE__TASKS) "
            "sets the same under Winnow's name."
        ),
    )


@pytest.mark.parametrize("threads", [1, 4])
def test_memory_of_not_more_than_one_mebibyte_a_thread_is_refused(tmp_path: Path, threads: int) -> None:
    """Kafka's sentence; exactly 1 MiB is too little, one byte a thread more is enough."""
    lines = '"log.cleaner.threads" = {}\n"log.cleaner.dedupe.buffer.size" = {}'
    with pytest.raises(ConfigurationError) as caught:
        settings_with(tmp_path, lines.format(threads, threads * 2**20))
    assert str(caught.value) == (
        "log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread. It comes from winnow.toml."
    )
    settings = settings_with(tmp_path, lines.format(threads, threads * (2**20 + 1)))
    assert settings.engine.memory_bytes == 2**20 + 1


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("log.cleaner.threads", "0", "Value must be at least 1"),
        ("log.cleaner.threads", "two", "Not a number of type INT"),
        ("log.cleaner.dedupe.buffer.size", "128MB", "Not a number of type LONG"),
        ("log.cleaner.io.max.bytes.per.second", "0", "Value must be at least 1"),
        ("log.cleaner.io.max.bytes.per.second", "NaN", "Value must be at least 1"),
        ("log.cleaner.io.buffer.size", "-1", "Value must be at least 0"),
        ("log.cleaner.io.buffer.load.factor", "most", "Not a number of type DOUBLE"),
        ("log.cleaner.backoff.ms", "-1", "Value must be at least 0"),
        ("log.retention.check.interval.ms", "0", "Value must be at least 1"),
        ("log.cleaner.enable", "no", "Expected value to be either true or false"),
        (
            "log.cleaner.enable",
            "false",
            (
                "Winnow compacts only when it is asked to; pause the DAG compact_topics (with your prefix) in Airflow, "
                "or partitions with: winnow partitions pause TOPIC"
            ),
        ),
    ],
)
def test_bad_value_of_a_cleaner_key_is_refused_in_kafkas_words(name: str, text: str, reason: str) -> None:
    """Kafka prints numbers as it has read them."""
    printed = {"0": "0.0"}.get(text, text) if name.endswith("per.second") else text
    assert refusal(**{name: text}) == (
        f"Invalid value {printed} for configuration {name}: {reason}. It comes from winnow.toml."
    )


@pytest.mark.parametrize("definition", BROKER_DEFINITIONS, ids=lambda each: each.name)
def test_kafkas_own_default_of_a_cleaner_key_is_accepted_and_told(tmp_path: Path, definition: BrokerDefinition) -> None:
    """Whoever copies server.properties is not stopped by a default; each key says what becomes of it."""
    name, default = definition.name, definition.default
    settings = settings_with(tmp_path, f'"{name}" = "{default}"')
    assert settings.topic_defaults == {}
    assert ("kafka." + name, default) in [(row.name, row.value) for row in settings.rows()]
    assert definition.effect.endswith(".")
    assert definition.sentence.endswith(".")


@pytest.mark.parametrize(
    ("text", "rate"), [("50MB", 5e7), ("48MiB", 48 * 2.0**20), ("1", 1.0), ("1500000", 1_500_000.0)]
)
def test_rate_under_winnows_own_name_is_spelled_like_a_size(tmp_path: Path, text: str, rate: float) -> None:
    """Bytes per second."""
    settings = load_settings(cwd=tmp_path, env={"WINNOW_ENGINE__BYTES_PER_SECOND": text})
    assert settings.engine.bytes_per_second == rate


@pytest.mark.parametrize("text", ["0", "0.5", "-1", "fast"])
def test_rate_under_winnows_own_name_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    """No rate at which nothing would ever move."""
    with pytest.raises(ConfigurationError) as caught:
        load_settings(cwd=tmp_path, env={"WINNOW_ENGINE__BYTES_PER_SECOND": text})
    assert str(caught.value) == (
        "engine.bytes_per_second (environment WINNOW_ENGINE__BYTES_PER_SECOND) is not valid: it must be a number of "
        "bytes per second of at least 1, like 50000000 or 50MB."
    )

"""Errors are values with three parts; people read the parts joined, programs read them one by one."""

from __future__ import annotations

import ast
import copy
import json
import pickle
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from winnow import errors
from winnow.cli.command_errors import guard_command, run_for_each_topic
from winnow.cli.output import prepare_output
from winnow.errors import Explanation, UsageError, WinnowError, make_error, say_left
from winnow.sources.topic_filter import OtherTopicError

JOINED = "Topic a is gone. Nothing was changed. Run it again."
ROOT = Path(__file__).parents[2]
TREES = ("winnow", "plugins", "jobs", "dags")
KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, WinnowError)]


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (("Topic a is gone.",), "Topic a is gone."),
        (
            ("Topic a is gone.", "Nothing was changed.", "Run it again."),
            JOINED,
        ),
        (
            ("Topic a is gone", "Nothing was changed", "Run it again."),
            JOINED,
        ),
        (("There is no topic a.", "", "See: winnow topics list"), "There is no topic a. See: winnow topics list"),
        (("Is it gone?", "", "See: winnow topics list"), "Is it gone? See: winnow topics list"),
        (("Invalid value x for configuration y",), "Invalid value x for configuration y"),
        ((), ""),
    ],
)
def test_message_joins_the_parts_and_ends_every_one_but_the_last_with_one_full_stop(
    parts: tuple[str, ...], message: str
) -> None:
    """The last part may end with a command, which has to be pasted as it is."""
    assert str(WinnowError(*parts)) == message
    assert str(Explanation(*(parts or ("",)))) == message


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_keeps_its_parts_over_a_process_border(kind: type[WinnowError]) -> None:
    arrived = pickle.loads(pickle.dumps(kind("Topic a is gone.", "Nothing was changed.", next="Run it again.")))
    assert type(arrived) is kind
    assert (arrived.what, arrived.left, arrived.next) == ("Topic a is gone.", "Nothing was changed.", "Run it again.")
    assert arrived.exit_code == kind.exit_code


def test_error_with_fields_of_its_own_keeps_them_over_a_process_border() -> None:
    sent = OtherTopicError(Explanation("A record is of topic b.", "Nothing landed."), "a.jsonl", "b")
    arrived = pickle.loads(pickle.dumps(sent))
    assert (arrived.explanation, arrived.path, arrived.found) == (sent.explanation, "a.jsonl", "b")
    other = arrived.with_left("")
    assert (str(other), other.path) == ("A record is of topic b.", "a.jsonl")


def test_caller_says_what_was_left_and_the_error_that_it_caught_stays_as_it_was() -> None:
    caught = UsageError("Topic a is gone.", "Nothing was changed.", "Run it again.")
    told = caught.with_left("Ten records landed.")
    assert type(told) is UsageError
    assert str(told) == "Topic a is gone. Ten records landed. Run it again."
    assert caught.left == "Nothing was changed."
    assert copy.copy(told).explanation == told.explanation


def test_what_was_committed_before_a_block_is_said_of_each_error_in_it() -> None:
    with pytest.raises(errors.ServiceError) as failed, say_left("Ten records landed."):
        raise errors.ServiceError("The store is away.", "Nothing was changed.", "Run it again.")
    assert str(failed.value) == "The store is away. Ten records landed. Run it again."
    with pytest.raises(ValueError, match="not Winnow's"), say_left("Ten records landed."):
        raise ValueError("not Winnow's")


def test_clause_stands_in_another_sentence() -> None:
    error = UsageError("Topic a is gone.", "Nothing was changed.")
    assert f"{error.clause}, and that is why." == "Topic a is gone, and that is why."
    assert f"Failed: {error.explanation.clause}; more" == "Failed: Topic a is gone. Nothing was changed; more"


@pytest.mark.parametrize(
    ("exit_code", "kind"),
    [(1, WinnowError), (2, UsageError), (3, errors.BadInputError), (6, errors.ServiceError), (99, WinnowError)],
)
def test_error_of_another_process_is_made_from_its_exit_code_and_parts(exit_code: int, kind: type[WinnowError]) -> None:
    made = make_error(exit_code, Explanation("It failed.", "Nothing landed.", "Run it again."))
    assert type(made) is kind
    assert made.explanation == ("It failed.", "Nothing landed.", "Run it again.")


# ------------------------------------------------------------------------------------------------ what a command prints


def run_command(*arguments: str, problem: Exception, topics: tuple[str, ...] = ()) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of a command with ``--json`` that fails with ``problem``."""

    def command(as_json: bool = typer.Option(False, "--json")) -> None:
        prepare_output()

        def act(topic: str) -> None:
            if topic != "good":
                raise problem

        if not topics:
            raise problem
        raise typer.Exit(run_for_each_topic(topics, act).exit_code)

    application = typer.Typer()
    application.command()(guard_command(command))
    result = CliRunner().invoke(application, list(arguments))
    return result.exit_code, result.stdout, result.stderr


PROBLEM = UsageError("Topic a is gone.", "Nothing was changed.", "See: winnow topics list")


def test_with_json_the_error_is_one_document_on_standard_error() -> None:
    code, out, err = run_command("--json", problem=PROBLEM)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert json.loads(err) == {
        "error": {
            "kind": "UsageError",
            "what": "Topic a is gone.",
            "left": "Nothing was changed.",
            "next": "See: winnow topics list",
            "exit_code": 2,
        }
    }


def test_without_json_the_error_is_its_sentences() -> None:
    assert run_command(problem=PROBLEM) == (
        2,
        "",
        "error: Topic a is gone. Nothing was changed. See: winnow topics list\n",
    )


def test_an_unexpected_error_is_a_document_too_and_shows_no_data() -> None:
    code, out, err = run_command("--json", problem=ValueError("planted secret"))
    document = json.loads(err)["error"]
    assert (code, out, document["kind"], document["exit_code"]) == (1, "", "WinnowError", 1)
    assert (document["left"], document["next"]) == (
        "The command did not finish.",
        "Set WINNOW_DEBUG=1 for the traceback.",
    )
    assert "secret" not in err


def test_of_several_topics_each_that_fails_has_its_document() -> None:
    def describe(topic: str) -> Exception:
        return errors.ServiceError(f"Topic {topic} cannot be read.")

    code, _, err = run_command("--json", problem=describe("bad"), topics=("bad", "good"))
    assert code == 6
    assert [json.loads(line)["error"]["what"] for line in err.splitlines()] == ["Topic bad cannot be read."]


def test_the_next_command_of_the_same_process_prints_sentences_again() -> None:
    run_command("--json", problem=PROBLEM)
    assert run_command(problem=PROBLEM)[2].startswith("error: ")


# ------------------------------------------------------------------------------------------------- who reads a message

CAUGHT = ("problem", "error", "failure", "refused", "cause", "exception")
"""What the tree calls a caught exception."""
FOREIGN = {
    ("winnow/files/object_store.py", "in"): "PyArrow's exceptions have no other sign of the store that failed",
    ("winnow/engine/damage.py", "in"): "DuckDB hands an exception of Arrow's client on as text",
    ("winnow/files/checked_reading.py", "in"): "Arrow's reader wraps an exception of Python in text",
    ("winnow/pipeline/latest/state.py", "in"): "DuckDB's exception has no field for the file",
    ("winnow/log/catalog_access.py", "search"): "a catalog's exception has no field for the name",
    ("winnow/log/file_checksums.py", "endswith"): "Arrow's exception about a folder has no number",
    ("winnow/log_reader/answering.py", "in"): "the loader says by text alone that there is no memory for a library",
    ("winnow/embedded/postgres.py", "split"): "psycopg's message is shown on one line",
}
"""Places that read the text of another library's exception, and why there is no other way."""
PARSERS = {
    "partition",
    "rpartition",
    "split",
    "rstrip",
    "removesuffix",
    "removeprefix",
    "startswith",
    "endswith",
    "find",
}


def is_message(node: ast.AST) -> bool:
    """Whether an expression is the text of a caught exception: ``str(problem)``."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "str"
        and len(node.args) == 1
        and any(isinstance(name, ast.Name) and name.id in CAUGHT for name in ast.walk(node.args[0]))
    )


def find_parsed_messages(source: str) -> list[tuple[int, str]]:
    """Line and operation of each place that looks into the text of a caught exception."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and node.attr in PARSERS and is_message(node.value):
            found.append((node.lineno, node.attr))
        if isinstance(node, ast.Compare) and any(isinstance(each, ast.In | ast.NotIn) for each in node.ops):
            found += [(node.lineno, "in") for each in node.comparators if is_message(each)]
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in {"match", "search"}
        ):
            found += [(node.lineno, node.func.attr) for each in node.args if is_message(each)]
    return found


@pytest.mark.parametrize(
    "source",
    [
        'what = str(problem).partition(". ")[0]',
        'text = str(error).rstrip(".")',
        'is_finer = "--timestamps" in str(problem)',
        'what, *more = str(problem).split(". ")',
        'found = re.search("x", str(failure))',
        'x = str(failure.error).removesuffix(".")',
    ],
)
def test_reading_a_message_is_found(source: str) -> None:
    assert len(find_parsed_messages(source)) == 1


def test_no_code_reads_the_message_of_an_error_but_those_of_other_libraries() -> None:
    found = {
        (str(path.relative_to(ROOT)), operation)
        for tree in TREES
        for path in (ROOT / tree).rglob("*.py")
        for _, operation in find_parsed_messages(path.read_text())
    }
    assert found == FOREIGN.keys()

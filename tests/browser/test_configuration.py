"""The configuration tab: what is changed is reviewed first, and Airflow gets exactly that."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Open
from tests.browser.test_accessibility import list_violations
from tests.browser.test_actions import agree, triggered


def test_a_configuration_is_edited_reviewed_and_sent_with_what_was_seen(look: Open) -> None:
    """The values that the editor showed go along, so that a change by somebody else meanwhile is not overwritten."""
    seen = look("small")
    page = seen.at("#/topics/orders/configuration")
    page.get_by_role("button", name="Edit configuration").click()
    review = page.get_by_role("button", name="Review changes")
    expect(review).to_have_attribute("aria-disabled", "true")
    page.get_by_label("min.cleanable.dirty.ratio").fill("0.25")
    page.get_by_label("max.compaction.lag.ms").fill("")
    page.get_by_label("cleanup.policy").select_option(label="compact and delete")
    seen.picture("configuration-editor", whole=False)
    expect(page.locator(".edit-bar")).to_contain_text("3 changes")
    review.click()
    dialog = page.get_by_role("dialog", name="Change the configuration of orders?")
    expect(dialog.get_by_role("row")).to_have_count(4)
    # It cannot be accepted before it was said what it does.
    expect(dialog.get_by_role("table", name="A run of now, before and after the change")).to_be_visible(timeout=20_000)
    dialog.get_by_label("Reason").fill("smaller deadline")
    seen.picture("configuration-review", whole=False)
    agree(page, "Apply")
    conf = triggered(seen, "change_topics")["conf"]
    assert conf["config"] == {"min.cleanable.dirty.ratio": "0.25", "cleanup.policy": "compact,delete"}
    assert conf["reset"] == ["max.compaction.lag.ms"]
    week_ms = 7 * 24 * 3_600_000
    assert conf["expected"] == {
        "min.cleanable.dirty.ratio": "0.5",
        "cleanup.policy": None,
        "max.compaction.lag.ms": str(week_ms),
    }
    assert (conf["action"], conf["topic"], conf["reason"]) == ("alter", "orders", "smaller deadline")
    # The editor is left, and shows what is in force until the run has ended.
    expect(page.get_by_role("button", name="Edit configuration")).to_be_visible()


def test_keys_are_in_groups_and_a_filter_leaves_no_empty_one(look: Open) -> None:
    """The usual ones first, what has no effect on an archive last."""
    page = look("small").at("#/topics/orders/configuration")
    page.get_by_role("button", name="Edit configuration").click()
    groups = page.locator(".key-group:visible .group-title")
    expect(groups).to_have_text(["Usual", "Lags and deadlines", "Table of the latest state", "Kafka only"])
    page.get_by_label("Filter keys").fill("compaction.lag")
    expect(groups).to_have_text(["Lags and deadlines"])


def test_a_wrong_value_is_marked_in_its_field_at_once_and_units_become_kafkas_numbers(look: Open) -> None:
    """By the server's own rules; nothing can be reviewed until it is corrected."""
    seen = look("small")
    page = seen.at("#/topics/orders/configuration")
    page.get_by_role("button", name="Edit configuration").click()
    field = page.get_by_label("retention.ms", exact=True)
    review = page.get_by_role("button", name="Review changes")
    field.fill("2 days")
    expect(field).to_have_attribute("aria-invalid", "true")
    expect(field).to_have_accessible_description(re.compile("Not a number of type LONG"))
    expect(review).to_have_attribute("aria-disabled", "true")
    expect(review).to_have_attribute("data-tip", "Correct retention.ms first")
    page.mouse.wheel(0, 300)
    seen.picture("configuration-invalid", whole=False)
    field.fill("2d")
    expect(field).to_have_attribute("aria-invalid", "false")
    expect(review).not_to_have_attribute("aria-disabled", "true")
    review.click()
    dialog = page.get_by_role("dialog", name="Change the configuration of orders?")
    dialog.get_by_text("Request to Airflow").click()
    expect(dialog.locator("pre")).to_contain_text('"retention.ms": "172800000"')


@pytest.mark.parametrize("width", [768, 1440])
def test_the_bar_of_the_editor_and_a_field_with_the_focus_stay_in_sight(look: Open, width: int) -> None:
    """Below the page's header, however far one scrolls and in whatever direction one goes through the fields."""
    seen = look("small", width=width)
    page = seen.at("#/topics/orders/configuration")
    page.get_by_role("button", name="Edit configuration").click()
    page.get_by_label("winnow.tags").focus()
    for _ in range(12):
        page.keyboard.press("Shift+Tab")
    bar, edit, field = (page.locator(selector).bounding_box() for selector in ("#bar", ".edit-bar", ".key-row :focus"))
    assert bar is not None
    assert edit is not None
    assert field is not None
    assert page.evaluate("scrollY") > 0
    assert edit["y"] >= bar["y"] + bar["height"] - 1
    assert field["y"] >= edit["y"] + edit["height"]
    seen.picture(f"configuration-scrolled-{width}", whole=False)


def test_a_change_at_kafka_that_waits_is_accepted_with_the_value_that_was_seen(look: Open) -> None:
    """The page says what is not in force here, and a person agrees to exactly that."""
    seen = look("small")
    page = seen.at("#/topics/sessions/configuration")
    expect(page.locator(".edit-bar")).to_contain_text("delete.retention.ms=3600000")
    page.get_by_role("button", name="Accept").click()
    page.get_by_role("dialog").get_by_label("Reason").fill("as at Kafka")
    agree(page, "Accept")
    conf = triggered(seen, "change_topics")["conf"]
    assert (conf["action"], conf["topic"]) == ("accept_kafka_config", "sessions")
    assert conf["expected"] == {"delete.retention.ms": "3600000"}


def test_a_topic_is_created_and_grows_and_wrong_values_are_named_while_typing(look: Open) -> None:
    """Name and configuration are checked as Kafka does before anything is sent."""
    seen = look("small")
    page = seen.at("#/topics")
    page.get_by_role("button", name="Create a topic").click()
    dialog = page.get_by_role("dialog", name="Create a topic")
    dialog.get_by_label("Name").fill("refunds")
    dialog.get_by_text("Configuration", exact=True).click()
    dialog.get_by_label("Filter keys").fill("dirty.ratio")
    dialog.get_by_label("min.cleanable.dirty.ratio").fill("7")
    expect(dialog.get_by_role("status")).to_contain_text("Value must be no more than 1")
    dialog.get_by_label("min.cleanable.dirty.ratio").fill("0.7")
    expect(dialog.get_by_role("status")).to_be_hidden()
    dialog.get_by_label("Reason").fill("new service")
    seen.picture("create-topic", whole=False)
    agree(page, "Create")
    conf = triggered(seen, "change_topics")["conf"]
    assert (conf["action"], conf["topic"], conf["partitions"]) == ("create", "refunds", 3)
    assert conf["config"] == {"min.cleanable.dirty.ratio": "0.7"}

    page = seen.at("#/topics/orders/configuration")
    page.get_by_role("button", name="Add partitions").click()
    dialog = page.get_by_role("dialog", name="Add partitions to orders?")
    expect(dialog).to_contain_text("Keys do not move")
    dialog.get_by_label("Reason").fill("more load")
    agree(page, "Add partitions")
    assert triggered(seen, "change_topics")["conf"]["partitions"] == 4


def test_a_viewer_is_told_why_nothing_can_be_changed(look: Open) -> None:
    """The buttons are there, and say which right is missing."""
    page = look("small", user="vera").at("#/topics/orders/configuration")
    for name in ("Edit configuration", "Add partitions"):
        button = page.get_by_role("button", name=name)
        expect(button).to_have_attribute("aria-disabled", "true")
        expect(button).to_have_attribute(
            "data-tip", "You have read access only: your Airflow role may not trigger change_topics."
        )


@pytest.mark.parametrize(("theme", "width"), [("light", 768), ("dark", 1920)])
def test_values_of_a_tags_other_topics_are_beside_the_fields_and_taken_over(look: Open, theme: str, width: int) -> None:
    """What differs is marked; one press puts it into the field, and the server judges it like what is typed."""
    seen = look("thousand", theme=theme, width=width)
    page = seen.at("#/topics?search=or&tag=gold")
    topic = page.locator("tbody tr a.row-link").first.inner_text()
    page = seen.at(f"#/topics/{topic}/configuration")
    page.get_by_role("button", name="Edit configuration").click()
    page.get_by_label("Compare with topics of the tag").select_option("gold")
    expect(page.get_by_role("status").filter(has_text="what most of")).to_be_visible()
    ratio = page.locator('[data-config="min.cleanable.dirty.ratio"]')
    expect(ratio).to_contain_text(re.compile(r"\d+ of \d+ have 0\.5 by default"))
    page.get_by_label("min.cleanable.dirty.ratio").fill("0.9")
    expect(ratio).to_have_class(re.compile("is-different"))
    assert not (broken := list_violations(page)), "\n".join(broken)
    seen.picture(f"configuration-comparison-{theme}-{width}", whole=False)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.get_by_role("button", name="Take over min.cleanable.dirty.ratio").click()
    expect(page.get_by_label("min.cleanable.dirty.ratio")).to_have_value("")
    expect(ratio).not_to_have_class(re.compile("is-different"))


def test_a_content_suite_is_tried_before_it_may_block_a_run(look: Open) -> None:
    """Each expectation with its outcome and first offsets, and whether a run would be refused."""
    seen = look("small", width=768)
    page = seen.at("#/topics/orders/configuration")
    trial = page.locator("#suite-trial")
    trial.get_by_label("Suite to try").fill("example_json_values")
    trial.get_by_role("button", name="Try suite").click()
    expect(trial.get_by_role("table").get_by_role("row")).to_have_count(5, timeout=60_000)
    expect(trial.get_by_role("status")).to_contain_text("judged by example_json_values")
    expect(trial.get_by_role("row", name="key_not_empty")).to_contain_text("held")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    seen.picture("suite-trial")

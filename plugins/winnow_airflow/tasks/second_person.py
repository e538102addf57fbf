"""A task that changes a topic, and first waits in Airflow for another user's approval where the change takes one.

It is one task: a change that takes nobody else costs no process more, and the approval comes from Airflow's own record
of who responded, not from an XCom, which users may write. While it waits it holds no slot.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import Context
from airflow.sdk.definitions.param import ParamsDict

from winnow.errors import UsageError
from winnow_airflow import outcomes, topic_rights
from winnow_airflow.assets import COMPACTED, build_undo_event, topic_asset
from winnow_airflow.older_airflow import TaskWaiting
from winnow_airflow.tasks import task_start, topic_changes

if TYPE_CHECKING:
    from winnow.pipeline.installation import Installation
    from winnow.pipeline.topics.second_person import ChangeApproval, ShownChange

TIMEOUT = timedelta(minutes=30)
"""For the work; the wait for a person lasts as long as the DAG run may."""


class ChangeTopicOperator(ApprovalOperator):
    """Changes a topic in one commit, and returns a sentence about what changed; an undo sends its asset event."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(subject="A change of a topic takes a second person", **arguments)
        # Airflow would take it for the time of the wait if it were an argument.
        self.execution_timeout = TIMEOUT

    def execute(self, context: Context) -> str:
        """Change the topic, or ask for approval and wait.

        Raises:
            UsageError: the change is refused, or Airflow names nobody who asked. Nothing was changed.
            WinnowError: as :func:`winnow_airflow.tasks.topic_changes.change_topic`.
        """
        with outcomes.push_failure(context), task_start.open_task_installation(context) as installation:
            change = _read_change(context)
            topic_rights.require_right(installation, context, [change["topic"]])
            shown = topic_changes.find_shown_change(installation, change)
            if shown is None:
                return _carry_out(installation, context, None)
            _ask(installation, context, shown)
        self.subject = f"Change topic {shown.topic}?"
        self.body = _describe(context, shown)
        self.params = ParamsDict()  # the form asks for nothing but the answer
        try:
            super().execute(context)
        except TaskWaiting as waiting:
            waiting.kwargs = {**(waiting.kwargs or {}), "digest": shown.digest}
            raise
        raise UsageError("Airflow did not wait for an approval.", left="Nothing was changed.")

    def execute_complete(self, context: Context, event: dict[str, Any], digest: str = "") -> str:
        """Change the topic if another person who may approved what was shown.

        Raises:
            UsageError: who asked approved it, or nobody by name, or who may not act on the topic, or the configuration
                has changed since. Nothing was changed.
            WinnowError: as :func:`winnow_airflow.tasks.topic_changes.change_topic`.
        """
        self.params = ParamsDict()
        answer = super().execute_complete(context=context, event=event)
        responder = str((answer["responded_by_user"] or {}).get("name") or "")
        with outcomes.push_failure(context), task_start.open_task_installation(context) as installation:
            change = _read_change(context)
            topic_rights.require_right(installation, context, [change["topic"]])
            if answer["chosen_options"] != [self.APPROVE]:
                return _reject(installation, context, responder)
            return _carry_out(installation, context, _approve(installation, context, responder, digest))


def _read_change(context: Context) -> topic_changes.TopicChange:
    return cast("topic_changes.TopicChange", dict(context["params"]))


def _ask(installation: Installation, context: Context, shown: ShownChange) -> None:
    """Record that the change waits for a second person."""
    from winnow.pipeline.topics.audit import record_action
    from winnow.store.audit import AuditAction

    topic_rights.require_person(context)
    if context["ti"].try_number > 1:
        # Airflow keeps the request of an earlier try, with the text of that time, and would show that.
        raise UsageError(
            f"This change of topic {shown.topic} takes a second person, whom a task can ask only in its first try.",
            left="Nothing was changed.",
            next="Ask for it anew: trigger change_topics again.",
        )
    record_action(installation, AuditAction.CHANGE_REQUEST, shown.topic, detail=_list_values(shown), once=True)
    text = f"Waits for a second person, who approves it in Airflow: {_list_values(shown)}."
    sentence = outcomes.TopicOutcome(topic=shown.topic, kind="waiting", text=text, plan_id=None)
    outcomes.push_outcomes(context, [sentence])


def _list_values(shown: ShownChange) -> str:
    return ", ".join(f"{name} {_name(was)} → {_name(becomes)}" for name, (was, becomes) in shown.values.items())


def _name(value: str | None) -> str:
    return "default" if value is None else value or "(empty)"


def _describe(context: Context, shown: ShownChange) -> str:
    """Describe the change in Markdown, for the second person."""
    rows = [
        f"| {_quote(name)} | {_quote(_name(was))} | {_quote(_name(becomes))} |"
        for name, (was, becomes) in shown.values.items()
    ]
    asked = f"{_quote(topic_rights.find_person(context) or '')} asks to change topic {_quote(shown.topic)}"
    effect = (
        "Runs can remove records for good because of it. Whoever asked cannot approve it; if the configuration changes "
        "meanwhile, the approval is void."
    )
    parts = [
        f"{asked}, because: {_quote(str(context['params']['reason']))}",
        "\n".join(["| what | now | afterwards |", "|---|---|---|", *rows]),
        *shown.notices,
        effect,
    ]
    return "\n\n".join(parts)


def _quote(text: str) -> str:
    """Quote what a person wrote, so that it is no Markdown."""
    plain = text.replace("`", "'").replace("|", "/").replace("\n", " ")
    return f"`{plain}`"


def _approve(installation: Installation, context: Context, responder: str, digest: str) -> ChangeApproval:
    from winnow.pipeline.topics import rights
    from winnow.pipeline.topics.second_person import ChangeApproval

    topic_rights.require_person(context)
    if not responder:
        raise UsageError("Airflow does not name who approved this.", left="Nothing was changed.")
    rights.require_right(installation, [context["params"]["topic"]], responder)
    return ChangeApproval(digest, topic_rights.find_person(context) or "", responder)


def _reject(installation: Installation, context: Context, responder: str) -> str:
    from dataclasses import replace

    from winnow.pipeline.topics.audit import record_action
    from winnow.store.audit import AuditAction

    topic, by = context["params"]["topic"], responder or "nobody by name"
    record_action(replace(installation, actor=by), AuditAction.CHANGE_REJECT, topic, once=True)
    text = f"Nothing was changed: {by} rejected it."
    outcomes.push_outcomes(context, [outcomes.TopicOutcome(topic=topic, kind="idle", text=text, plan_id=None)])
    return text


def _carry_out(installation: Installation, context: Context, approval: ChangeApproval | None) -> str:
    change = _read_change(context)
    is_first_try = context["ti"].try_number <= 1
    done = topic_changes.change_topic(installation, change, is_first_try=is_first_try, approval=approval)
    if done.undone is not None:
        report, mark = done.undone
        context["outlet_events"][COMPACTED].add(topic_asset(report.topic), extra=build_undo_event(report, mark))
    outcomes.push_sentences(context, change["topic"], [done.text])
    return done.text

"""Inside Airflow: its navigation, the tabs of a DAG and of a DAG run, its address bar, its theme, its login."""

from __future__ import annotations

import re
from urllib.parse import quote

from playwright.sync_api import Browser, expect

from tests.browser.airflow_servers import Server
from tests.browser.conftest import Open


def test_airflows_address_bar_follows_the_route_and_leads_back_to_it(look: Open) -> None:
    """A view inside the frame can be linked: a reload of Airflow shows it again."""
    seen = look("small")
    frame = seen.within_airflow("plugin/winnow")
    frame.get_by_role("link", name="Topics", exact=True).click()
    frame.get_by_role("link", name="customers").click()
    expect(frame.locator("h1")).to_contain_text("customers")
    seen.page.wait_for_url("**/plugin/winnow/winnow/page#/topics/customers")
    frame = seen.within_airflow("plugin/winnow/winnow/page#/topics/customers")
    expect(frame.locator("h1")).to_contain_text("customers")


def test_view_that_is_left_while_an_answer_arrives_draws_nothing(look: Open) -> None:
    """An answer whose rest is not waited for is none, and no empty one."""
    seen = look("small")
    seen.at("#/topics")
    ended = seen.page.evaluate(
        """async () => {
          const { fetchJson } = await import(new URL("static/js/api.js", document.baseURI));
          const genuine = window.fetch;
          const leaving = new AbortController();
          window.fetch = async () => {
            const body = new ReadableStream({
              start(stream) { leaving.signal.addEventListener("abort", () => stream.error(leaving.signal.reason)); },
            });
            return new Response(body, { headers: { "Content-Type": "application/json" } });
          };
          try {
            const answer = fetchJson("topics", {}, leaving.signal);
            setTimeout(() => leaving.abort(), 50);
            return await answer.then((body) => ["answered", body], (error) => ["ended", error.name]);
          } finally {
            window.fetch = genuine;
          }
        }"""
    )
    assert ended == ["ended", "AbortError"]


def test_a_link_to_a_dag_leaves_the_frame(look: Open) -> None:
    """The frame's sandbox forbids that to the page itself; Airflow around it moves all the same."""
    seen = look("small")
    frame = seen.within_airflow("plugin/winnow/winnow/page#/runs?status=invalid")
    frame.locator("tbody a.row-link").first.click()
    expect(frame.get_by_text("Validation failed. Nothing was published.")).to_be_visible()
    frame.get_by_role("link", name="DAG run and logs").click()
    seen.page.wait_for_url(re.compile(f"^{seen.server.url}/dags/compact_topics/runs/manual__"))
    # That DAG run was never in this Airflow, and the browser logs the answer 404.
    assert all("404" in error for error in seen.errors)
    seen.errors.clear()


def test_data_docs_open_beside_airflow(look: Open) -> None:
    """In a tab of their own, behind the same login, with nothing from elsewhere."""
    seen = look("small")
    frame = seen.within_airflow("plugin/winnow/winnow/page#/runs?status=invalid")
    frame.locator("tbody a.row-link").first.click()
    with seen.page.context.expect_page() as opened:
        frame.get_by_role("link", name="Great Expectations' validation result").click()
    docs = opened.value
    docs.wait_for_load_state()
    assert docs.url.startswith(f"{seen.server.url}/winnow/data-docs/validations/")
    expect(docs.get_by_text("Every new segment is there").first).to_be_attached()
    docs.wait_for_load_state("networkidle")
    expect(docs.locator("link[rel=stylesheet], script[src]")).to_have_count(1)


def test_the_tab_of_a_dag_lists_its_compactions(look: Open) -> None:
    """Those of compact_topics; the page's own header is left out, since Airflow's stands around it."""
    seen = look("small")
    frame = seen.within_airflow("dags/compact_topics/plugin/winnow_dag")
    expect(frame.get_by_role("heading", name="Compactions by compact_topics")).to_be_visible()
    expect(frame.locator("tbody tr").first).to_be_visible()
    expect(frame.locator("#bar")).to_be_hidden()
    seen.picture("airflow-dag", whole=False)
    frame = seen.within_airflow("dags/sweep_topics/plugin/winnow_dag")
    expect(frame.get_by_text("sweep_topics has compacted nothing.")).to_be_visible()


def test_the_tab_of_a_dag_run_lists_what_it_compacted(look: Open) -> None:
    """The failed compaction of customers, by the manual run that made it."""
    seen = look("small")
    page = seen.at("#/runs?status=invalid")
    run_id = page.locator("td[data-column='dag_run'] a").first.inner_text()
    made = page.request.post(
        f"{seen.server.url}/api/v2/dags/compact_topics/dagRuns",
        data={"dag_run_id": run_id, "logical_date": None, "conf": {}},
    )
    assert made.ok or made.status == 409, made.text()
    frame = seen.within_airflow(f"dags/compact_topics/runs/{quote(run_id)}/plugin/winnow_dag_run")
    expect(frame.get_by_role("heading", name="Compactions of this DAG run")).to_be_visible()
    expect(frame.locator("tbody tr")).to_have_count(1)
    expect(frame.locator("tbody tr")).to_contain_text("customers")
    seen.picture("airflow-dag-run", whole=False)


def test_the_page_turns_dark_when_airflow_does(look: Open) -> None:
    """Airflow keeps its theme in the local storage, and the page hears of a change at once."""
    seen = look("small")
    frame = seen.within_airflow("plugin/winnow")
    expect(frame.locator("html")).to_have_attribute("data-theme", "light")
    seen.page.evaluate("localStorage.setItem('theme', 'dark')")
    expect(frame.locator("html")).to_have_attribute("data-theme", "dark")


def test_a_link_of_an_alert_survives_the_login(browser: Browser, servers: dict[str, Server]) -> None:
    """Who is not logged in comes to Airflow's login, and from there to the run that the link names."""
    server = servers["small"]
    context = browser.new_context()
    try:
        page = context.new_page()
        page.goto(f"{server.url}/winnow/page#/topics/customers")
        page.locator('input[name="username"]').fill("vera")
        page.locator('input[name="password"]').fill("vera")
        page.keyboard.press("Enter")
        expect(page.locator("h1")).to_contain_text("customers")
        assert page.url == f"{server.url}/winnow/page#/topics/customers"
    finally:
        context.close()

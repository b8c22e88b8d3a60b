"""Makes traffic, and asks the Prometheus that scraped it every query of the dashboards and alerts in `deploy`.

    python3 check.py PROMETHEUS GATEWAY PORT     (two addresses, and the port of an MCP server; the key is CLIENT_KEY)

A query must be valid, and have a number in its answer, unless it is listed here with the reason. Of an alert that is what it
measures, without the comparison that says when it is bad.
"""

import json
import math
import os
import re
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

import traffic

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
# What has no data here, by a part of the query.
WITHOUT_DATA = {
    "antwort_bus_": "there is no bus without other gateways, and one SQLite file has one gateway",
}
# As Grafana fills them in.
CHOICES = {"$__rate_interval": "20s", "$__range": "1m", "${datasource}": "", "$job": "antwort"}
SECONDS = 10


class Prometheus:
    def __init__(self, address: str):
        self.address = address

    def get(self, path: str, **parameters):
        url = f"http://{self.address}/api/v1/{path}?{urllib.parse.urlencode(parameters, doseq=True)}"
        try:
            with urllib.request.urlopen(url, timeout=20) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as refused:
            raise ValueError(json.load(refused)["error"]) from None

    def numbers(self, query: str) -> list[float]:
        """The values of all series of an answer, those that are no number aside."""
        answer = self.get("query", query=query)
        values = [float(series["value"][1]) for series in answer["result"]]
        return [value for value in values if not math.isnan(value)]


def filled_in(query: str) -> str:
    for name, value in CHOICES.items():
        query = query.replace(name, value)
    return re.sub(r"\$\w+", ".*", query)


def queries_of_dashboards():
    for file in sorted((DEPLOY / "grafana").glob("*.json")):
        for panel in json.loads(file.read_text())["panels"]:
            for target in panel.get("targets", []):
                yield f"{file.stem}, {panel['title']}", filled_in(target["expr"])


def queries_of_alerts(prometheus: Prometheus):
    """What each alert measures."""
    for group in prometheus.get("rules")["groups"]:
        for rule in group["rules"]:
            assert rule["health"] == "ok", f"{rule['name']}: {rule.get('lastError')}"
            # Prometheus writes what it has read in a form of its own; the file has the lines apart.
            yield rule["name"], rule["query"]


def measured(query: str) -> list[str]:
    """The parts of a condition without their comparisons."""
    parts = re.split(r" and (?:on \([\w, ]+\) )?", " ".join(query.split()))
    found = [re.fullmatch(r"(.*) (?:==|>|<) [\d.]+", part) for part in parts]
    assert all(found), f"a condition without a comparison at its end: {query}"
    return [part[1] for part in found]


def choices_of_dashboards():
    """Series and label of each choice above the panels."""
    for file in sorted((DEPLOY / "grafana").glob("*.json")):
        for variable in json.loads(file.read_text())["templating"]["list"]:
            if variable["type"] == "query":
                series, label = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["query"]["query"]).groups()
                yield f"{file.stem}, choice of {variable['name']}", filled_in(series), label


def problems(prometheus: Prometheus) -> list[str]:
    found, asked = [], 0
    queries = list(queries_of_dashboards())
    queries += [(name, part) for name, query in queries_of_alerts(prometheus) for part in measured(query)]
    used = set()
    for place, query in queries:
        asked += 1
        reason = next((part for part in WITHOUT_DATA if part in query), None)
        try:
            has_data = bool(prometheus.numbers(query))
        except ValueError as error:
            found.append(f"{place}: {error}: {query}")
            continue
        used.add(reason)
        if has_data != (reason is None):
            found.append(f"{place}: {'data, though it is listed without' if reason else 'no data'}: {query}")
    found += [f"{part}: is in no query" for part in WITHOUT_DATA if part not in used]
    for place, series, label in choices_of_dashboards():
        asked += 1
        if not prometheus.get(f"label/{label}/values", **{"match[]": series}):
            found.append(f"{place}: nothing to choose from")
    print(f"{asked} queries asked, {len(found)} with a problem")
    return found


def main() -> None:
    prometheus, client = Prometheus(sys.argv[1]), traffic.Client(sys.argv[2], os.environ["CLIENT_KEY"])
    # What was counted before the first scrape is no increase.
    while not prometheus.numbers("antwort_build_info"):
        time.sleep(0.2)
    traffic.a_server_leaves(client, int(sys.argv[3]))
    until, rounds = time.monotonic() + SECONDS, 0
    while time.monotonic() < until:
        traffic.a_round(client, rounds)
        if rounds % 4 == 0:
            traffic.over_websocket(client)
        traffic.expect(200, traffic.calls_leaving(client))
        if rounds == 1:
            traffic.a_crowd(client)
        rounds += 1
    time.sleep(1.5)  # the last scrape
    found = problems(prometheus)
    print(*found, sep="\n")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()

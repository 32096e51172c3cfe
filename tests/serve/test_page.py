"""What a browser is shown first, and tiles for other programs."""

from html.parser import HTMLParser

from starlette.testclient import TestClient

from fake_services import problem

BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}


class Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value or "" for name, value in attrs if name in ("href", "src")]


def test_a_browser_gets_a_page_whose_links_work_and_a_program_gets_links(server: TestClient) -> None:
    answer = server.get("/", headers=BROWSER)
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    links = Links()
    links.feed(answer.text)
    assert "viewer/" in links.found
    for link in links.found:
        assert "://" not in link, "nothing of other sites"
        assert server.get(f"/{link}").status_code == 200, link
    for path in ("/uploads", "/jobs/{job}/results/{output}", "/processes/{process}/execution"):
        assert f"<code>{path}</code>" in answer.text
    assert server.get("/").json()["title"] == "attcr"
    assert server.get("/", headers={"Accept": "application/json"}).headers["vary"] == "Accept"


def test_a_layer_is_there_as_tilejson(server: TestClient, done: str) -> None:
    (link,) = (one for one in server.get(f"/jobs/{done}").json()["links"] if one["rel"].endswith("/tilesets-map"))
    told = server.get(link["href"]).json()
    info = server.get(f"/jobs/{done}/info").json()
    assert (told["tilejson"], told["name"], told["tiles"]) == ("3.0.0", "done.tif: result", [info["tiles"]["result"]])
    assert [told[name] for name in ("bounds", "center", "minzoom", "maxzoom")] == [
        info[name] for name in ("bounds", "center", "minzoom", "maxzoom")
    ]
    address = told["tiles"][0].format(z=0, x=0, y=0)
    assert server.get(address).content.startswith(b"\x89PNG")
    assert "it has input, result, quality" in problem(server.get(f"/jobs/{done}/tiles/none.json"))["detail"]

"""Serves parts of a folder's files with their ETags, and writes down what it is asked for.

python file_server.py FOLDER LOG    the port comes on stdout; a line of the log is a path, a tab and the range
"""

import functools
import http.server
import sys
from pathlib import Path


class Handler(http.server.SimpleHTTPRequestHandler):
    """Gives files, or the bytes of them that are asked for."""

    def do_GET(self) -> None:
        asked = self.headers.get("Range") or ""
        path = Path(self.translate_path(self.path))
        with Path(sys.argv[2]).open("a") as log:
            log.write(f"{self.path}\t{asked}\n")
        if not path.is_file():
            self.send_error(404)
            return
        content = path.read_bytes()
        first, last = 0, len(content) - 1
        if asked:
            begin, _, end = asked.removeprefix("bytes=").partition("-")
            first, last = int(begin), min(int(end or last), last)
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {first}-{last}/{len(content)}")
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(last + 1 - first))
        self.send_header("ETag", f'"{len(content)}-{path.stat().st_mtime_ns}"')
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content[first : last + 1])

    def do_HEAD(self) -> None:
        self.do_GET()

    def log_message(self, *_: object) -> None:
        pass


if __name__ == "__main__":
    handler = functools.partial(Handler, directory=sys.argv[1])
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        print(server.server_port, flush=True)
        server.serve_forever()

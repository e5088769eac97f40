#!/usr/bin/python3 -SE
"""repository.py ADDRESS PORT DIRECTORY STATE: serves a package repository, and fails as the file STATE says.

`corrupt`: packages of the right size and wrong content; `missing`: no packages; `silent`: no answer, ever.
"""
import http.server
import os
import socket
import sys
import threading

address, port, directory, state_file = sys.argv[1:]


def state():
    try:
        with open(state_file) as file:
            return file.read().strip()
    except FileNotFoundError:
        return ""


class Handler(http.server.SimpleHTTPRequestHandler):
    def __init__(self, *arguments):
        super().__init__(*arguments, directory=directory)

    def do_GET(self):
        now = state()
        if now == "silent":
            threading.Event().wait()
        elif self.path.endswith(".deb") and now == "missing":
            self.send_error(404)
        elif self.path.endswith(".deb") and now == "corrupt":
            size = os.path.getsize(self.translate_path(self.path))
            self.send_response(200)
            self.send_header("Content-Length", str(size))
            self.end_headers()
            self.wfile.write(bytes(size))
        else:
            super().do_GET()

    def log_message(self, format, *words):
        pass


class Server(http.server.ThreadingHTTPServer):
    def server_bind(self):  # without the look-up of its own name
        http.server.socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address


server = Server((address, int(port)), Handler)
with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
    manager.connect(os.environ["NOTIFY_SOCKET"])
    manager.send(b"READY=1")
server.serve_forever()

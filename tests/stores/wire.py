"""IMAP as bytes: a client that keeps every line it is told, for checks that compare what several servers said."""

import re
import socket

LITERAL = re.compile(rb"\{(\d+)\}$")


class Refused(Exception):
    """The server answered NO or BAD: the command had no effect."""


class Unknown(Exception):
    """The connection ended before the answer: the command may have had its effect or not."""


class Imap:
    """One connection. A command's answer is the untagged responses before its tagged one, each as a line in which literals stand
    where they were sent."""

    def __init__(self, address, user, password, timeout=60):
        try:
            self.socket = socket.create_connection(address, timeout=timeout)
            self.file = self.socket.makefile("rb")
            self.tags = 0
            self.line()
            self.command(f'LOGIN "{user}" "{password}"')
        except OSError as error:
            raise Unknown(repr(error)) from error

    def line(self):
        whole = b""
        while True:
            part = self.file.readline()
            if not part.endswith(b"\r\n"):
                raise Unknown("the connection ended")
            whole += part[:-2]
            literal = LITERAL.search(part[:-2])
            if not literal:
                return whole
            whole += b"\r\n" + self.file.read(int(literal[1]))

    def command(self, text, literal=None):
        """The untagged responses, and the tagged one last."""
        self.tags += 1
        tag = f"t{self.tags}".encode()
        try:
            request = tag + b" " + text.encode()
            if literal is not None:
                request += f" {{{len(literal)}+}}\r\n".encode() + literal
            self.socket.sendall(request + b"\r\n")
            lines = []
            while True:
                lines.append(self.line())
                if lines[-1].startswith(tag + b" "):
                    break
        except OSError as error:
            raise Unknown(repr(error)) from error
        if not lines[-1].startswith(tag + b" OK"):
            # What it could not do for now it may have done, if it says so after a failure of the store.
            raise Refused(lines[-1].decode(errors="replace"))
        return lines

    def close(self):
        self.file.close()
        self.socket.close()


def uid_set(text):
    """`3:5,9` as numbers, in its order."""
    numbers = []
    for part in text.split(","):
        first, _, last = part.partition(":")
        low, high = sorted((int(first), int(last or first)))
        numbers += range(low, high + 1)
    return numbers


def code(lines, name):
    """What is in the response code of that name, in any of the lines; `None` if there is none."""
    for line in lines:
        found = re.search(rb"\[" + name.encode() + rb" ([^\]]*)\]", line)
        if found:
            return found[1].decode()
    return None


def copied(lines):
    """COPYUID: UIDVALIDITY, and pairs of UIDs there and here."""
    found = code(lines, "COPYUID")
    if not found:
        return None, []
    validity, source, target = found.split(" ")
    return int(validity), list(zip(uid_set(source), uid_set(target), strict=True))

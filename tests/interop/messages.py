"""Messages the checks send: ordinary ones and tricky ones."""

SIMPLE = (b"From: Ada <ada@localhost>\r\nTo: Bob <bob@localhost>\r\nSubject: simple\r\n"
          b"Date: Tue, 14 Oct 2025 12:21:05 +0200\r\nMessage-ID: <simple@interop.example>\r\n\r\nHello Bob.\r\n")

ALTERNATIVE_PART = (b"--alt\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n"
                    b"Gr=C3=BC=C3=9Fe aus K=C3=B6ln\r\n"
                    b"--alt\r\nContent-Type: text/html; charset=utf-8\r\n\r\n<p>Hello <b>world</b></p>\r\n--alt--\r\n")
NESTED = (b"From: Inner <inner@interop.example>\r\nTo: ada@localhost\r\nSubject: the inner one\r\n"
          b"Date: Mon, 13 Oct 2025 08:00:00 +0000\r\nMessage-ID: <inner@interop.example>\r\n\r\nInner text, two\r\nlines.\r\n")
ATTACHMENT = b"JVBERi0xLjQKJcOkw7zDtsOfCg==\r\n"

#: multipart/mixed { multipart/alternative { text/plain, text/html }, application/pdf, message/rfc822 }
MULTIPART = (b"From: =?utf-8?Q?J=C3=BCrgen?= <juergen@interop.example>\r\n"
             b"Sender: office@interop.example\r\nReply-To: reply@interop.example\r\n"
             b"To: Ada <ada@localhost>, \"Bob \\\"the\\\" Builder\" <bob@localhost>\r\nCc: team@interop.example\r\n"
             b"Subject: parts of\r\n many kinds\r\nDate: Tue, 14 Oct 2025 12:21:05 +0200\r\n"
             b"In-Reply-To: <before@interop.example>\r\nMessage-ID: <multipart@interop.example>\r\nMIME-Version: 1.0\r\n"
             b"Content-Type: multipart/mixed; boundary=\"mix\"\r\n\r\npreamble\r\n"
             b"--mix\r\nContent-Type: multipart/alternative; boundary=alt\r\n\r\n" + ALTERNATIVE_PART +
             b"\r\n--mix\r\nContent-Type: application/pdf; name=\"a file.pdf\"\r\nContent-Transfer-Encoding: base64\r\n"
             b"Content-Disposition: attachment; filename=\"a file.pdf\"\r\nContent-ID: <pdf@interop.example>\r\n\r\n" + ATTACHMENT +
             b"--mix\r\nContent-Type: message/rfc822\r\n\r\n" + NESTED +
             b"--mix--\r\nepilogue\r\n")


def numbered(number, **headers):
    """A small message with headers of choice; `text` is its body."""
    text = headers.pop("text", f"This is message {number}.")
    fields = {"From": "Ada <ada@localhost>", "To": "Bob <bob@localhost>", "Subject": f"number {number}",
              "Date": "Tue, 14 Oct 2025 12:21:05 +0200", "Message-ID": f"<{number}@interop.example>"}
    fields.update({name.replace("_", "-"): value for name, value in headers.items()})
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items() if value is not None)
    return f"{head}\r\n{text}\r\n".encode()


#: Broken, old and odd; every one must come back byte for byte. Lines end with CRLF, so that LMTP can carry them.
TRICKY = {
    "no header at all": b"\r\njust a body\r\n",
    "no body": b"Subject: no body\r\n\r\n",
    "header without end": b"Subject: no blank line\r\n",
    "8-bit header": b"Subject: caf\xe9 \xff\xfe\r\nFrom: \xe9t\xe9@localhost\r\n\r\nbody\r\n",
    "UTF-8 header": "Subject: Grüße 漢字 🦆\r\n\r\nbody\r\n".encode(),
    "8-bit body": b"Subject: 8-bit\r\n\r\n" + bytes(range(128, 256)) + b"\r\n",
    "control characters": b"Subject: control\r\n\r\n" + bytes(b for b in range(1, 32) if b not in (10, 13)) + b"\x7f\r\n",
    "line of 100,000": b"Subject: long line\r\n\r\n" + b"x" * 100_000 + b"\r\n",
    "header line of 50,000": b"Subject: " + b"word " * 10_000 + b"\r\n\r\nbody\r\n",
    "folded 2,000 times": b"Subject: folded\r\n" + b" more\r\n" * 2000 + b"\r\nbody\r\n",
    "dots": b"Subject: dots\r\n\r\n.\r\n..\r\n...\r\n.hidden\r\n. \r\nend\r\n",
    "looks like mbox": b"Subject: From\r\n\r\nFrom here on\r\n>From there\r\n>>From everywhere\r\n",
    "multipart without end": b"Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\none\r\n--b\r\n\r\ntwo\r\n",
    "multipart without boundary": b"Content-Type: multipart/mixed\r\n\r\n--b\r\n\r\none\r\n--b--\r\n",
    "empty boundary": b"Content-Type: multipart/mixed; boundary=\"\"\r\n\r\n--\r\n\r\none\r\n----\r\n",
    "broken base64": b"Content-Transfer-Encoding: base64\r\nContent-Type: text/plain\r\n\r\n@@@=!abc\r\n",
    "unknown charset": b"Content-Type: text/plain; charset=klingon\r\n\r\n\xff\xfe\r\n",
    "no colon": b"Subject: x\r\nthis is no header field\r\nTo: y\r\n\r\nbody\r\n",
    "spaces before colon": b"Subject : odd\r\nTo\t: y\r\n\r\nbody\r\n",
    "nested 60 deep": b"".join(b"Content-Type: multipart/mixed; boundary=b%d\r\n\r\n--b%d\r\n" % (n, n) for n in range(60)) + b"\r\ndeep\r\n",
    "UTF-7 look-alike": b"Subject: +AGE-\r\n\r\n&AOk-\r\n",
    "many addresses": b"To: " + b",\r\n ".join(b"user%d@interop.example" % n for n in range(2000)) + b"\r\n\r\nbody\r\n",
    "IMAP-like text": b"Subject: ) {5}\r\n\r\n* 1 EXPUNGE\r\nA1 OK done {10}\r\n)\r\n",
}

#: Not allowed in IMAP literals or SMTP lines; Sealpost keeps them all the same. BODY[] has another octet for each, BINARY[] has them.
NULS = b"Subject: nul \x00 here\r\n\r\nbefore\x00after\x00\x00\r\n\x00\r\n"
NULS_IN_A_LITERAL = NULS.replace(b"\x00", b"\x80")

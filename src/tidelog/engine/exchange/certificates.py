"""A certificate for one run, made from the standard library: a key on the curve P-256, signed by itself.

Its secrecy is that of the run's secret: both go to the tasks with the work. TLS itself is OpenSSL's; all that
is done here is to make a key, and to write it down as X.509 (RFC 5280) and SEC 1 (RFC 5915) want it.
"""

from __future__ import annotations

import base64
import hashlib
import os
import ssl
import tempfile
from datetime import UTC, datetime, timedelta
from secrets import randbelow
from typing import Final

# FIPS 186-4, D.1.2.3.
PRIME: Final = 2**256 - 2**224 + 2**192 + 2**96 - 1
ORDER: Final = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
GENERATOR: Final = (
    0x6B17D1F2E12C4247F8BCE6E563A440F277037D812DEB33A0F4A13945D898C296,
    0x4FE342E2FE1A7F9B8EE7EB4A7C0F9E162BCE33576B315ECECBB6406837BF51F5,
)
CURVE: Final = bytes.fromhex("06082a8648ce3d030107")
PUBLIC_KEY: Final = bytes.fromhex("06072a8648ce3d0201")
SIGNATURE: Final = bytes.fromhex("300a06082a8648ce3d040302")  # ECDSA with SHA-256
NAME: Final = bytes.fromhex("3012") + bytes.fromhex("3110300e0603550403") + b"\x0c\x07tidelog"
AUTHORITY: Final = bytes.fromhex("a3133011300f0603551d130101ff040530030101ff")  # it vouches for itself
VALID: Final = timedelta(days=30)

Point = tuple[int, int] | None


def make_certificate() -> bytes:
    """Return a new key and its certificate, as PEM."""
    secret = 1 + randbelow(ORDER - 1)
    public = _bits(b"\x04" + b"".join(part.to_bytes(32, "big") for part in _known(_times(secret, GENERATOR))))
    now = datetime.now(UTC)
    times = [
        _tagged(0x18, moment.strftime("%Y%m%d%H%M%SZ").encode()) for moment in (now - VALID, now + VALID)
    ]
    signed = _sequence(
        bytes.fromhex("a003020102"),  # version 3
        _integer(randbelow(1 << 127)),
        SIGNATURE,
        NAME,
        _sequence(*times),
        NAME,
        _sequence(_sequence(PUBLIC_KEY, CURVE), public),
        AUTHORITY,
    )
    certificate = _sequence(signed, SIGNATURE, _bits(_signature(secret, signed)))
    key = _sequence(
        _integer(1), _tagged(0x04, secret.to_bytes(32, "big")), _tagged(0xA0, CURVE), _tagged(0xA1, public)
    )
    return _pem("EC PRIVATE KEY", key) + _pem("CERTIFICATE", certificate)


def context_of(certificate: bytes, is_server: bool) -> ssl.SSLContext:
    """Return how one side talks by TLS: it shows this certificate, and accepts no other."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if is_server else ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # whoever has the key is a task of this run, wherever it runs
    context.verify_mode = ssl.CERT_REQUIRED
    text = certificate.decode()
    context.load_verify_locations(cadata=text[text.index("-----BEGIN CERTIFICATE") :])
    place, path = tempfile.mkstemp()  # which nobody else may read
    try:
        with os.fdopen(place, "wb") as file:
            file.write(certificate)
        context.load_cert_chain(path)
    finally:
        os.unlink(path)  # noqa: PTH108 - it is a descriptor's
    return context


# ---- the curve


def _known(point: Point) -> tuple[int, int]:
    assert point is not None
    return point


def _sum(left: Point, right: Point) -> Point:
    """Return the sum of two points; None is the point at infinity."""
    if left is None or right is None:
        return left or right
    if left[0] == right[0]:
        if left[1] != right[1]:
            return None
        slope = 3 * (left[0] ** 2 - 1) * pow(2 * left[1], -1, PRIME)
    else:
        slope = (right[1] - left[1]) * pow(right[0] - left[0], -1, PRIME)
    x = (slope * slope - left[0] - right[0]) % PRIME
    return x, (slope * (left[0] - x) - left[1]) % PRIME


def _times(factor: int, point: Point) -> Point:
    found: Point = None
    while factor:
        if factor & 1:
            found = _sum(found, point)
        point, factor = _sum(point, point), factor >> 1
    return found


def _signature(secret: int, signed: bytes) -> bytes:
    digest = int.from_bytes(hashlib.sha256(signed).digest(), "big")
    while True:
        once = 1 + randbelow(ORDER - 1)
        left = _known(_times(once, GENERATOR))[0] % ORDER
        right = pow(once, -1, ORDER) * (digest + left * secret) % ORDER
        if left and right:
            return _sequence(_integer(left), _integer(right))


# ---- DER


def _tagged(tag: int, content: bytes) -> bytes:
    size = len(content)
    if size < 128:
        return bytes((tag, size)) + content
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes((tag, 128 + len(length))) + length + content


def _sequence(*parts: bytes) -> bytes:
    return _tagged(0x30, b"".join(parts))


def _integer(number: int) -> bytes:
    return _tagged(0x02, number.to_bytes(number.bit_length() // 8 + 1, "big"))


def _bits(content: bytes) -> bytes:
    return _tagged(0x03, b"\x00" + content)


def _pem(label: str, content: bytes) -> bytes:
    lines = base64.encodebytes(content).decode()
    return f"-----BEGIN {label}-----\n{lines}-----END {label}-----\n".encode()

"""The mesh: a connection between each two tasks of a run, and rounds in which each task sends to all others.

Begin with `Listener.join`, which connects a task with all others, and `Mesh.swap`, one round. Both sides of a
connection prove that they know the run's secret, over random numbers of both, and that they belong to the
same attempt of it: a task of an earlier attempt that comes late is refused. A frame is a head of fixed size,
the sizes of its parts, and the parts as they are: nothing that is received is ever executed.

One loop sends to and receives from all peers at once, so that two which send much to each other do not wait
for each other. While a task works, a thread sends its peers a heartbeat; a peer that has sent nothing for
`patience` seconds while something is awaited from it counts as lost. A task that fails sends its error to all
others.

Connections are encrypted by TLS, which is OpenSSL's, if the tasks are given a certificate. `make_certificate`
makes one for one run from the standard library: a key on the curve P-256, signed by itself, written as
X.509 (RFC 5280) and SEC 1 (RFC 5915). It is as secret as the secret of the run, and goes to the same tasks.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import selectors
import socket
import ssl
import struct
import tempfile
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from secrets import randbelow
from threading import Event, Lock, Thread
from time import monotonic
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tidelog.errors import Diagnostic, TidelogError, codes

PATIENCE: Final = 60.0  # seconds
BEATS: Final = 4  # heartbeats within the patience of others
LOOK: Final = 0.2  # seconds between two checks of the limits while waiting
FAREWELL: Final = 0.05  # seconds between two attempts to report a failure to others
STEP: Final = 1 << 20  # bytes per call of `send`
PROVING: Final = 5.0  # seconds that a stranger may take to prove who it is
MAGIC: Final = b"tidelog1"
HELLO: Final = struct.Struct("<8sI32s32s")  # magic, number, attempt, nonce
HEAD: Final = struct.Struct("<IIQ")  # kind, number of parts, word
DIGEST: Final = 32
DATA, BEAT, FAULT, LEFT = range(4)  # kinds of frames
WELCOME, LATE, STRANGER = range(3)  # replies to a newcomer

Bytes = npt.NDArray[np.uint8]
Connection = socket.socket | ssl.SSLSocket
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


class Lost(TidelogError):  # noqa: N818 - what became of a task
    """A task has ended or never started; the run can be tried again."""

    exit_code = 5


class HandshakeRefused(Exception):  # noqa: N818 - what became of an attempt
    """The other side belongs to another attempt, or does not know the secret."""


def lost(message: str, help: str | None = None) -> Lost:
    """Return the error for a task that has ended."""
    return Lost(Diagnostic(codes.LOST, message, help=help))


class Listener:
    """The socket at which a task waits for others to connect; made before their addresses are known."""

    def __init__(self, host: str = "127.0.0.1") -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.create_server((host, 0), family=family)
        self.address = f"{host}:{self._socket.getsockname()[1]}"

    def join(
        self,
        number: int,
        addresses: Sequence[str],
        secret: bytes,
        attempt: str,
        *,
        certificate: bytes | None = None,
        patience: float = PATIENCE,
    ) -> Mesh:
        """Return the mesh of all tasks, of which this is the one with a number; addresses are in their order.

        All have the same secret and attempt. With a certificate, which all have too, connections are
        encrypted. Raises `Lost` if some task does not come.
        """
        credentials = _Credentials(number, secret, hashlib.sha256(attempt.encode()).digest(), certificate)
        deadline = monotonic() + patience
        peers: dict[int, Connection] = {}
        try:
            for peer in range(number):
                peers[peer] = _connect(addresses[peer], peer, credentials, deadline)
            self._accept(peers, len(addresses), credentials, deadline)
        except BaseException:
            for connection in peers.values():
                connection.close()
            raise
        finally:
            self._socket.close()
        return Mesh(number, peers, patience=patience)

    def close(self) -> None:
        """Wait for no other task."""
        self._socket.close()

    def _accept(
        self, peers: dict[int, Connection], count: int, credentials: _Credentials, deadline: float
    ) -> None:
        """Wait for the tasks with higher numbers; any other connection is refused."""
        while len(peers) < count - 1:
            self._socket.settimeout(max(0.01, deadline - monotonic()))
            try:
                stranger, _ = self._socket.accept()
            except TimeoutError:
                missing = [
                    str(other) for other in range(count) if other not in peers and other != credentials.number
                ]
                raise lost(
                    f"task {credentials.number} timed out waiting for task {', '.join(missing)}"
                ) from None
            stranger.settimeout(PROVING)
            try:
                peer, connection = credentials.welcome(stranger, range(credentials.number + 1, count), peers)
            except (OSError, HandshakeRefused):
                stranger.close()
            else:
                peers[peer] = connection


def _connect(address: str, peer: int, credentials: _Credentials, deadline: float) -> Connection:
    host, _, port = address.rpartition(":")
    try:
        connection = socket.create_connection((host, int(port)), max(0.01, deadline - monotonic()))
        return credentials.present(connection, peer)
    except HandshakeRefused as refused:
        raise lost(f"task {peer} at {address} refuses task {credentials.number}: {refused}") from None
    except OSError as error:
        raise lost(f"task {credentials.number} cannot reach task {peer} at {address}: {error}") from None


class _Credentials:
    """How a task proves its number and its run, and checks those of the other side."""

    def __init__(self, number: int, secret: bytes, attempt: bytes, certificate: bytes | None) -> None:
        self.number = number
        self.secret = secret
        self.attempt = attempt
        self.certificate = certificate

    def present(self, connection: Connection, peer: int) -> Connection:
        """Prove to a listening task that this one belongs to the run, and check its proof."""
        try:
            connection = self._encrypted(connection, is_server=False)
            own_hello = self._hello(connection)
            peer_hello = _received(connection, HELLO.size)
            connection.sendall(self._proof(b"newcomer", own_hello, peer_hello))
            verdict = _received(connection, 1)[0]
            if verdict != WELCOME:
                raise HandshakeRefused("it runs another attempt" if verdict == LATE else "the secrets differ")
            proof = _received(connection, DIGEST)
            self._check(peer_hello, range(peer, peer + 1))
            if not hmac.compare_digest(proof, self._proof(b"host", own_hello, peer_hello)):
                raise HandshakeRefused("the secrets differ")
        except BaseException:
            connection.close()
            raise
        return connection

    def welcome(
        self, connection: Connection, numbers: range, connected: Mapping[int, Any]
    ) -> tuple[int, Connection]:
        """Return the number and the connection of a task that has proved that it belongs to the run."""
        connection = self._encrypted(connection, is_server=True)
        try:
            return self._welcomed(connection, numbers, connected), connection
        except BaseException:
            connection.close()
            raise

    def _welcomed(self, connection: Connection, numbers: range, connected: Mapping[int, Any]) -> int:
        peer_hello = _received(connection, HELLO.size)
        own_hello = self._hello(connection)
        proof = _received(connection, DIGEST)
        try:
            peer = self._check(peer_hello, numbers)
        except HandshakeRefused:
            connection.sendall(bytes([LATE]))
            raise
        if peer in connected or not hmac.compare_digest(
            proof, self._proof(b"newcomer", peer_hello, own_hello)
        ):
            connection.sendall(bytes([STRANGER]))
            raise HandshakeRefused("the secrets differ")
        connection.sendall(bytes([WELCOME]) + self._proof(b"host", peer_hello, own_hello))
        return peer

    def _encrypted(self, connection: Connection, *, is_server: bool) -> Connection:
        if self.certificate is None:
            return connection
        return context_of(self.certificate, is_server).wrap_socket(connection, server_side=is_server)

    def _hello(self, connection: Connection) -> bytes:
        hello = HELLO.pack(MAGIC, self.number, self.attempt, os.urandom(32))
        connection.sendall(hello)
        return hello

    def _check(self, hello: bytes, numbers: range) -> int:
        magic, number, attempt, _ = HELLO.unpack(hello)
        if magic != MAGIC or attempt != self.attempt or number not in numbers:
            raise HandshakeRefused("it runs another attempt")
        return int(number)

    def _proof(self, role: bytes, newcomer: bytes, host: bytes) -> bytes:
        return hmac.digest(self.secret, role + newcomer + host, "sha256")


def _received(connection: Connection, size: int) -> bytes:
    data = b""
    while len(data) < size:
        chunk = connection.recv(size - len(data))
        if not chunk:
            raise HandshakeRefused("it closed the connection")
        data += chunk
    return data


class Frame:
    """The message of one task to another in a round: a word, and parts of any size."""

    __slots__ = ("parts", "word")

    def __init__(self, word: int, parts: Sequence[Any] = ()) -> None:
        self.word = word
        self.parts = tuple(parts)


NOTHING: Final = Frame(0)


class _Peer:
    """A connection, with data to send and the received part of a frame. Mutable."""

    def __init__(self, number: int, connection: Connection) -> None:
        connection.setblocking(False)
        with suppress(OSError):  # socket pairs within a process have no such option
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.number = number
        self.connection = connection
        self.outgoing: deque[memoryview] = deque()
        self.frames: deque[Frame] = deque()
        self.heard = monotonic()
        self.is_watched = False  # for room to send
        self.is_closed = False
        self.has_left = False  # it has received everything and may have ended
        self._parts: list[Bytes] = []
        self._begin()

    def _begin(self) -> None:
        self._head: tuple[int, int] | None = None  # kind and word
        self._sizes: deque[int] | None = None  # of the parts that are missing
        self._await(HEAD.size)

    def _await(self, size: int) -> None:
        self._part: Bytes = np.empty(size, np.uint8)
        self._view, self._filled = memoryview(self._part.data), 0

    def enqueue(self, kind: int, frame: Frame) -> int:
        """Queue a frame for sending; return the size of its parts in bytes."""
        # An empty array with more than one dimension cannot be cast to bytes.
        views = [memoryview(part).cast("B") if len(part) else memoryview(b"") for part in frame.parts]
        sizes = struct.pack(f"<{len(views)}Q", *map(len, views))
        self.outgoing.append(memoryview(HEAD.pack(kind, len(views), frame.word) + sizes))
        self.outgoing.extend(view for view in views if len(view))
        return sum(map(len, views))

    def send(self) -> None:
        """Send as much as possible without blocking."""
        while self.outgoing:
            view = self.outgoing[0]
            try:
                sent = self.connection.send(view[:STEP])
            except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return
            if sent == len(view):
                self.outgoing.popleft()
            else:
                self.outgoing[0] = view[sent:]

    def receive(self) -> None:
        """Receive what has arrived; raise ConnectionError at the end."""
        while True:
            try:
                size = self.connection.recv_into(self._view[self._filled :])
            except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return
            if not size:
                raise ConnectionResetError("the connection was closed")
            self.heard = monotonic()
            self._filled += size
            while self._filled == len(self._part):
                self._take_part()

    def _take_part(self) -> None:
        """Continue with the next part after a complete one."""
        if self._head is None:
            kind, count, word = HEAD.unpack(self._view)
            self._head = kind, word
            self._await(8 * count)
            return
        if self._sizes is None:
            self._sizes = deque(struct.unpack(f"<{len(self._part) // 8}Q", self._view))
        else:
            self._parts.append(self._part)
        if self._sizes:
            self._await(self._sizes.popleft())
            return
        kind, word = self._head
        frame, self._parts = Frame(word, self._parts), []
        self._begin()
        if kind == FAULT:
            raise PeerFailed(self.number, frame)
        if kind == DATA:
            self.frames.append(frame)
        self.has_left |= kind == LEFT


class PeerFailed(Exception):  # noqa: N818 - what a task says
    """A task has failed; `frame` is its error."""

    def __init__(self, number: int, frame: Frame) -> None:
        super().__init__(number)
        self.number = number
        self.frame = frame


class Mesh:
    """One task's connections to all others. Used by one thread."""

    def __init__(self, number: int, peers: Mapping[int, Connection], *, patience: float = PATIENCE) -> None:
        self.number = number
        self.count = len(peers) + 1
        self.patience = patience
        self.sent = 0  # bytes
        self.check: Callable[[], None] = _proceed  # called while waiting for others; may raise
        self._peers = {each: _Peer(each, connection) for each, connection in peers.items()}
        self._selector = selectors.DefaultSelector()
        for peer in self._peers.values():
            self._selector.register(peer.connection, selectors.EVENT_READ, peer)
        self._lock = Lock()
        self._looked = monotonic()
        self._closed = Event()
        if peers:
            Thread(target=self._send_heartbeats, daemon=True).start()

    def __enter__(self) -> Mesh:
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        if error is None:
            self._leave()
        self.close()

    def swap(self, frames: Mapping[int, Frame]) -> dict[int, Frame]:
        """Send each task its frame, an empty one where there is none; return those of all others.

        Raises the error of `lost` if a task is gone, `PeerFailed` if one says that it has failed.
        """
        with self._lock:
            for number, peer in self._peers.items():
                if peer.has_left:
                    raise lost(f"task {number} ended before the others")
                self.sent += peer.enqueue(DATA, frames.get(number, NOTHING))
                self._send(peer)
            started = monotonic()
            while any(not peer.frames or peer.outgoing for peer in self._peers.values()):
                self._turn(LOOK)
                self.check()
                self._check_patience(started)
            return {number: peer.frames.popleft() for number, peer in self._peers.items()}

    def look(self) -> None:
        """Check that the other tasks are alive, unless this was checked recently, while computing.

        A task that has left is not lost: it has completed the last exchange.
        """
        if monotonic() - self._looked > LOOK:
            with self._lock:
                self._turn(0, may_leave=True)
            self._looked = monotonic()

    def _leave(self) -> None:
        """Notify all others that this task no longer needs them, and read data that they have sent.

        Closing a connection earlier loses the data sent last.
        """
        with self._lock:
            for peer in self._peers.values():
                if not peer.is_closed:
                    peer.enqueue(LEFT, NOTHING)
                    with suppress(OSError, PeerFailed):
                        peer.send()
                        peer.receive()

    def fail(self, frame: Frame) -> None:
        """Notify all others that still listen that this task has failed.

        The others close the connections: closing one before all data is received loses the data sent last.
        """
        with self._lock:
            end = monotonic() + PROVING
            for peer in self._peers.values():
                peer.enqueue(FAULT, frame)
            while monotonic() < end and self._say(FAREWELL):
                pass

    def _say(self, seconds: float) -> bool:
        """Send queued data and drop received data; return whether some task still listens."""
        listening = [peer for peer in self._peers.values() if not peer.is_closed]
        for peer in listening:
            try:
                peer.send()
                if not peer.outgoing:
                    peer.connection.shutdown(socket.SHUT_WR)
            except OSError:
                self._forget(peer)
        for key, _ in self._selector.select(seconds) if listening else ():
            try:
                if not key.data.connection.recv(STEP):
                    self._forget(key.data)
            except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                pass
            except OSError:
                self._forget(key.data)
        return bool(listening)

    def close(self) -> None:
        """Close all connections; sent data still arrives."""
        self._closed.set()
        with self._lock:
            for peer in self._peers.values():
                with suppress(OSError):
                    peer.connection.shutdown(socket.SHUT_WR)
                peer.connection.close()
            self._selector.close()

    def _turn(self, seconds: float, may_leave: bool = False) -> None:
        """Send and receive as much as possible, waiting at most this long."""
        for key, events in self._selector.select(seconds):
            peer: _Peer = key.data
            if events & selectors.EVENT_WRITE:
                self._send(peer)
            if events & selectors.EVENT_READ:
                try:
                    peer.receive()
                except OSError as error:
                    if may_leave and peer.has_left:
                        self._forget(peer)
                    else:
                        self._lose(peer, error)

    def _send(self, peer: _Peer) -> None:
        try:
            peer.send()
        except OSError as error:
            self._receive_last(peer)
            self._lose(peer, error)
        wants_room = bool(peer.outgoing)
        if wants_room != peer.is_watched:
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if wants_room else 0)
            self._selector.modify(peer.connection, events, peer)
            peer.is_watched = wants_room

    def _receive_last(self, peer: _Peer) -> None:
        """Receive the data that a task sent before it closed the connection, perhaps the reason."""
        with suppress(OSError):
            peer.receive()

    def _lose(self, peer: _Peer, error: OSError) -> None:
        """Continue without a task from which no data is awaited."""
        self._forget(peer)
        if peer.outgoing or not peer.frames:
            raise lost(f"task {peer.number} is gone: {error}", "the log of that task says why") from None

    def _forget(self, peer: _Peer) -> None:
        if not peer.is_closed:
            peer.is_closed = True
            with suppress(KeyError, ValueError):
                self._selector.unregister(peer.connection)

    def _check_patience(self, started: float) -> None:
        """Raise if a task from which data is awaited has sent none for too long."""
        now = monotonic()
        for peer in self._peers.values():
            if not peer.frames and now - max(peer.heard, started) > self.patience:
                raise lost(f"task {peer.number} has not responded for {self.patience:g} s")

    def _send_heartbeats(self) -> None:
        """Send the others a heartbeat periodically; awaited data counts as one."""
        while not self._closed.wait(self.patience / BEATS):
            if self._lock.acquire(blocking=False):
                try:
                    for peer in self._peers.values():
                        if not peer.outgoing and not self._closed.is_set():
                            peer.enqueue(BEAT, NOTHING)
                            with suppress(OSError, ValueError):  # the task finds out when it next looks
                                peer.send()
                finally:
                    self._lock.release()


def _proceed() -> None:
    """Do nothing."""


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
    """Return the context of one side for TLS: it shows this certificate, and accepts no other."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if is_server else ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # any holder of the key is a task of this run, on any host
    context.verify_mode = ssl.CERT_REQUIRED
    text = certificate.decode()
    context.load_verify_locations(cadata=text[text.index("-----BEGIN CERTIFICATE") :])
    descriptor, path = tempfile.mkstemp()  # only this user may read it
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(certificate)
        context.load_cert_chain(path)
    finally:
        os.unlink(path)  # noqa: PTH108 - it is a descriptor's
    return context


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
    result: Point = None
    while factor:
        if factor & 1:
            result = _sum(result, point)
        point, factor = _sum(point, point), factor >> 1
    return result


def _signature(secret: int, signed: bytes) -> bytes:
    digest = int.from_bytes(hashlib.sha256(signed).digest(), "big")
    while True:
        once = 1 + randbelow(ORDER - 1)
        left = _known(_times(once, GENERATOR))[0] % ORDER
        right = pow(once, -1, ORDER) * (digest + left * secret) % ORDER
        if left and right:
            return _sequence(_integer(left), _integer(right))


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

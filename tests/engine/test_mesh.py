"""Connections between tasks: who may join, what arrives, and what happens when one does not come, or goes."""

from __future__ import annotations

import socket
import struct
from functools import partial
from secrets import token_bytes
from time import sleep
from typing import Any

import numpy as np
import pytest
from tests.engine.meshes import at_once, meshes

from tidelog.engine.exchange import Listener, Lost, Mesh, make_certificate
from tidelog.engine.exchange.sockets import DATA, HEAD, HELLO, MAGIC, Frame, PeerFailed

SECRET = token_bytes(32)


def joined(count: int, **settings: Any) -> list[Any]:
    """What comes of tasks that join; `settings` may be lists, with one for each task."""
    listeners = [Listener() for _ in range(count)]
    addresses = [listener.address for listener in listeners]
    acts = []
    for number, listener in enumerate(listeners):
        own = {name: each[number] if isinstance(each, list) else each for name, each in settings.items()}
        secret, attempt = own.pop("secret", SECRET), own.pop("attempt", "1")
        acts.append(partial(listener.join, number, addresses, secret, attempt, **own))
    return at_once(acts)


def swapped(made: list[Mesh], parts: list[list[Any]]) -> list[Any]:
    """What each task receives when each sends the same parts to all."""
    frames = [
        {other: Frame(mesh.number, each) for other in range(mesh.count)}
        for mesh, each in zip(made, parts, strict=True)
    ]
    return at_once([partial(mesh.swap, each) for mesh, each in zip(made, frames, strict=True)])


@pytest.mark.parametrize("certificate", [None, make_certificate()], ids=["plain", "encrypted"])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_each_receives_what_all_others_send(count: int, certificate: bytes | None) -> None:
    made = joined(count, certificate=certificate)
    for size in (0, 1, 5_000_000, 3):  # more than buffers hold: nobody waits for another to receive
        parts = [[bytes([number]) * size, b"", np.arange(number, dtype=np.int64)] for number in range(count)]
        for number, found in enumerate(swapped(made, parts)):
            assert sorted(found) == [other for other in range(count) if other != number]
            for other, frame in found.items():
                assert frame.word == other
                assert [bytes(part) for part in frame.parts] == [bytes(part) for part in parts[other]]
    for mesh in made:
        mesh.close()


def test_frames_of_the_next_round_may_come_early() -> None:
    made = meshes(3)

    def act(mesh: Mesh) -> list[int]:
        found = []
        for number in range(50):
            if mesh.number == 2 and number % 10 == 0:
                sleep(0.01)
            frames = mesh.swap({other: Frame(number) for other in range(3)})
            found += [frame.word for frame in frames.values()]
        return found

    assert at_once([partial(act, mesh) for mesh in made]) == [[n // 2 for n in range(100)]] * 3
    for mesh in made:
        mesh.close()


# ---- who may join


def test_another_secret_is_refused() -> None:
    found = joined(2, secret=[SECRET, b"another"], patience=0.5)
    assert all(isinstance(each, Lost) for each in found)
    assert "the secrets differ" in str(found[1])


def test_a_late_attempt_is_refused_and_the_present_one_goes_on() -> None:
    listeners = [Listener() for _ in range(3)]
    addresses = [listener.address for listener in listeners]
    acts = [
        partial(listeners[0].join, 0, addresses, SECRET, "2"),
        partial(_late, listeners[1], addresses),
        partial(_late_then_present, listeners[2], addresses),
    ]
    first, second, third = at_once(acts)
    assert [mesh.count for mesh in (first, second, third)] == [3, 3, 3]
    for mesh in (first, second, third):
        mesh.close()


def _late(listener: Listener, addresses: list[str]) -> Mesh:
    sleep(0.2)
    return listener.join(1, addresses, SECRET, "2")


def _late_then_present(listener: Listener, addresses: list[str]) -> Mesh:
    with pytest.raises(Lost, match="another attempt"):
        Listener().join(2, addresses, SECRET, "1")
    return listener.join(2, addresses, SECRET, "2")


def test_strangers_are_ignored() -> None:
    listeners = [Listener() for _ in range(2)]
    addresses = [listener.address for listener in listeners]
    host, port = addresses[0].split(":")

    def intrude() -> Mesh:
        for said in (
            b"",
            b"GET / HTTP/1.1\r\n\r\n" * 20,
            HELLO.pack(MAGIC, 1, b"x" * 32, b"y" * 32) + b"z" * 32,
        ):
            with socket.create_connection((host, int(port))) as stranger:
                stranger.sendall(said)
        return listeners[1].join(1, addresses, SECRET, "1")

    found = at_once([partial(listeners[0].join, 0, addresses, SECRET, "1"), intrude])
    assert all(isinstance(each, Mesh) for each in found), found
    for mesh in found:
        mesh.close()


def test_another_certificate_is_refused() -> None:
    found = joined(2, certificate=[make_certificate(), make_certificate()], patience=0.5)
    assert all(isinstance(each, Lost) for each in found)


def test_a_task_that_does_not_come_is_named() -> None:
    listeners = [Listener() for _ in range(3)]
    addresses = [listener.address for listener in listeners]
    found = at_once([partial(listeners[0].join, 0, addresses, SECRET, "1", patience=0.3)])
    for listener in listeners:
        listener.close()
    assert "timed out waiting for task 1, 2" in str(found[0])


# ---- who goes, and who is silent


def test_a_task_that_goes_is_an_error_at_once_at_all_others() -> None:
    made = meshes(3)
    made[1].close()
    found = at_once([partial(made[number].swap, {}) for number in (0, 2)])
    assert all(isinstance(each, Lost) and "task 1 is gone" in str(each) for each in found)


def test_a_task_that_fails_says_why_to_all_others() -> None:
    made = meshes(3)
    reason = b"no more" * 100_000

    def hear(mesh: Mesh) -> bytes:
        try:
            mesh.swap({other: Frame(0, [bytes(1_000_000)]) for other in range(3)})
        except PeerFailed as told:
            mesh.fail(told.frame)  # else the other may see this one go before it hears why
            return bytes(told.frame.parts[0])
        finally:
            mesh.close()
        return b""

    found = at_once(
        [partial(made[0].fail, Frame(7, [reason])), partial(hear, made[1]), partial(hear, made[2])]
    )
    assert found == [None, reason, reason]


def test_a_failure_is_noticed_while_working() -> None:
    made = meshes(2)

    def work() -> str:
        try:
            for _ in range(200):
                made[1].look()
                sleep(0.02)
        except PeerFailed:
            return "noticed"
        finally:
            made[1].close()
        return "not noticed"

    assert at_once([partial(made[0].fail, Frame(0)), work]) == [None, "noticed"]


def test_a_silent_task_counts_as_lost() -> None:
    left, right = socket.socketpair()
    mesh = Mesh(0, {1: left}, patience=0.3)
    found = at_once([partial(mesh.swap, {})])
    assert "task 1 has not responded for 0.3 s" in str(found[0])
    right.close()
    mesh.close()


def test_a_task_that_works_for_long_is_waited_for() -> None:
    made = meshes(2, patience=0.4)

    def work() -> Any:
        sleep(1.2)
        return made[1].swap({0: Frame(5)})

    found = at_once([partial(made[0].swap, {1: Frame(6)}), work])
    assert found[0][1].word == 5
    assert found[1][0].word == 6
    for mesh in made:
        mesh.close()


def test_what_is_awaited_can_be_stopped() -> None:
    made = meshes(2)

    def stop() -> None:
        raise KeyboardInterrupt

    made[0].check = stop
    assert isinstance(at_once([partial(made[0].swap, {})])[0], KeyboardInterrupt)
    for mesh in made:
        mesh.close()


def test_frames_that_arrive_byte_by_byte() -> None:
    left, right = socket.socketpair()
    mesh = Mesh(0, {1: left})

    def trickle() -> None:
        frame = HEAD.pack(DATA, 3, 9) + struct.pack("<3Q", 2, 0, 1) + b"abc"
        for byte in frame:
            right.sendall(bytes([byte]))
            sleep(0.001)

    found = at_once([partial(mesh.swap, {}), trickle])
    assert [bytes(part) for part in found[0][1].parts] == [b"ab", b"", b"c"]
    right.close()
    mesh.close()


def test_a_task_that_has_all_it_needs_may_leave_while_others_work() -> None:
    made = meshes(2)
    at_once([partial(mesh.swap, {}) for mesh in made])
    with made[0]:
        pass
    made[1]._looked = 0.0
    made[1].look()  # it is gone, and not missed
    with pytest.raises(Lost, match="task 0 ended before the others"):
        made[1].swap({})
    made[1].close()


def test_a_task_that_ends_by_an_error_is_missed() -> None:
    made = meshes(2)
    at_once([partial(mesh.swap, {}) for mesh in made])
    with pytest.raises(KeyboardInterrupt), made[0]:
        raise KeyboardInterrupt
    made[1]._looked = 0.0
    with pytest.raises(Lost, match="task 0 is gone"):
        made[1].look()
    made[1].close()

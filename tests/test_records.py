"""Records behave as dataclasses of the standard library, whose methods are made at once."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import sys
from collections.abc import Callable, Hashable
from dataclasses import FrozenInstanceError, asdict, astuple, field, fields, is_dataclass, replace
from itertools import product
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog import records

Item = TypeVar("Item")
Decorator = Callable[..., Any]
OPTIONS = [
    dict(zip(("frozen", "slots", "eq", "order"), values, strict=True))
    for values in product((False, True), repeat=4)
    if values[2] or not values[3]  # order needs eq
]


def classes(decorator: Decorator, options: dict[str, bool]) -> dict[str, Any]:
    """Classes of many forms."""

    @decorator(**options)
    class Plain:
        first: int
        second: str = "two"
        third: list[int] = field(default_factory=list, compare=False)
        count: ClassVar[int] = 3

    @decorator(**options)
    class Derived(Plain):
        """With documentation."""

        fourth: float = 4.0
        second: str = "zwei"

    @decorator(**options, kw_only=True)
    class Keywords:
        first: int = field(repr=False)
        second: str = "two"

    @decorator(**options)
    class Mixed:
        first: int
        second: str = field(default="two", kw_only=True)
        third: tuple[int, ...] = field(default=(), hash=False)

    @decorator(**options)
    class Written:
        first: int

        def __repr__(self) -> str:
            return "written"

        def __eq__(self, other: object) -> bool:
            return isinstance(other, type(self))

        def __hash__(self) -> int:
            return 7

    @decorator(**options)
    class Equal:
        first: int

        def __eq__(self, other: object) -> bool:
            return True

    @decorator(**options, repr=False)
    class Late(Generic[Item]):
        first: int
        second: int = field(init=False)
        third: list[int] = field(init=False, default_factory=list)
        fourth: int = field(init=False, default=4)

        def __post_init__(self) -> None:
            object.__setattr__(self, "second", self.first + 1)

    class Named(Protocol):
        def name(self) -> str: ...

    @decorator(**options)
    class Implementing(Named):
        first: int

        def name(self) -> str:
            return f"name {self.first}"

    @decorator(**options)
    class Empty:
        pass

    class Child(Plain):
        """No record itself."""

    made = (Plain, Derived, Keywords, Mixed, Written, Equal, Late, Implementing, Empty, Child)
    return {each.__name__: each for each in made}


def outcome(action: Callable[[], Any]) -> Any:
    """What an action gives, or how it fails."""
    try:
        return action()
    except (TypeError, AttributeError, FrozenInstanceError) as error:
        return type(error), str(error)


def observed(cls: Any) -> list[Any]:
    """What can be seen of a class, and of instances that are made of it."""
    first = {"first": 1} if "first" in cls.__annotations__ or cls.__name__ in ("Derived", "Child") else {}
    one = cls(**first)
    other = cls(**dict.fromkeys(first, 2))
    seen: list[Any] = [
        [(f.name, f.type, f.default, f.init, f.repr, f.compare, f.hash, f.kw_only) for f in fields(one)],
        str(inspect.signature(cls)),
        cls.__init__.__annotations__,
        cls.__init__.__qualname__,
        cls.__doc__,
        cls.__match_args__,
        str(cls.__dataclass_params__),
        is_dataclass(cls),
        issubclass(cls, Hashable),
        sorted(set(dir(cls)) - {"__weakref__"}),
        getattr(cls, "__slots__", None),
        hasattr(one, "__dict__"),
        repr(one) if cls.__dataclass_params__.repr else "",
        asdict(one) if cls.__name__ != "Late" else "",
        astuple(one) if cls.__name__ != "Late" else "",
        one == copy.copy(one),
        one == other,
        one != copy.deepcopy(one),
        one == object(),
        outcome(lambda: hash(one))
        if issubclass(cls, Hashable) and cls.__hash__ is not object.__hash__
        else 0,
        outcome(lambda: one < other),
        outcome(lambda: one >= other),
        outcome(lambda: repr(replace(one, **first)) if cls.__dataclass_params__.repr else ""),
        outcome(lambda: setattr(one, "first", 5)) if first else "",  # else dataclasses with slots fail oddly
        outcome(lambda: delattr(one, "first")) if first else "",
        cls.__name__ == "Child" or outcome(lambda: setattr(one, "unknown", 5)) is None,
        outcome(lambda: cls(1, 2, 3, 4, 5, 6)),
        outcome(lambda: cls(nothing=1)),
    ]
    match cls(**first):
        case cls(first=value):
            seen.append(value)
        case _:
            seen.append("no match")
    return seen


@pytest.mark.parametrize("options", OPTIONS, ids=lambda each: "-".join(name for name in each if each[name]))
def test_records_are_like_dataclasses(options: dict[str, bool]) -> None:
    ours, theirs = (classes(each, options) for each in (records.dataclass, dataclasses.dataclass))
    for name, cls in ours.items():
        assert observed(cls) == observed(theirs[name]), name


def test_methods_are_made_when_they_are_used() -> None:
    cls = classes(records.dataclass, {"frozen": True})["Plain"]
    cls(1)
    waiting = {name for name, value in vars(cls).items() if type(value) is records._Awaited}
    assert {"__eq__", "__hash__", "__repr__"} <= waiting
    assert "__init__" not in waiting
    assert cls(1) == cls(1)
    assert type(vars(cls)["__eq__"]) is not records._Awaited


def test_a_subclass_does_not_take_the_methods_of_its_base() -> None:
    made = classes(records.dataclass, {})
    assert repr(made["Derived"](1)).endswith("(first=1, second='zwei', third=[], fourth=4.0)")
    assert repr(made["Plain"](1)).endswith("(first=1, second='two', third=[])")
    assert made["Plain"](1) != made["Child"](1)


@records.dataclass(frozen=True, slots=True)
class Pair:
    """A record at the top of a module, which can be pickled."""

    left: Any
    right: Any = None


@dataclasses.dataclass(frozen=True)
class Nested(Pair):
    """A dataclass of the standard library over a record."""

    depth: int = 1


values = st.none() | st.integers() | st.floats() | st.text() | st.tuples(st.integers(), st.text())


@given(values, values)
def test_pickles_copies_and_hashes(left: Any, right: Any) -> None:
    pair = Pair(left, right)
    again = pickle.loads(pickle.dumps(pair))
    assert repr(again) == repr(pair)
    assert copy.copy(pair) == pair
    assert hash(copy.copy(pair)) == hash(pair) == hash((left, right))
    assert repr(Nested(left, right, 2)) == f"Nested(left={left!r}, right={right!r}, depth=2)"


def test_records_are_deepcopied_and_replaced() -> None:
    pair = Pair([1], {"a": 2})
    assert copy.deepcopy(pair) == pair
    assert replace(pair, left=3) == Pair(3, {"a": 2})
    if sys.version_info >= (3, 13):
        assert copy.replace(pair, left=3) == Pair(3, {"a": 2})


def test_slots_that_are_there_already_are_refused() -> None:
    with pytest.raises(TypeError, match="already specifies __slots__"):

        @records.dataclass(slots=True)
        class Slotted:  # type: ignore[misc]
            __slots__ = ("first",)
            first: int

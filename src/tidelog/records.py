"""Dataclasses whose methods are made when they are first used.

`dataclasses.dataclass` compiles up to nine methods of each class while its module is imported, which takes
0.3 ms a class; most processes call few of them. This decorator takes the same options, and its classes behave
alike: `fields`, `replace`, `asdict`, equality, hashes, order, representation, pickling, `match`. `_Awaited`
stands in place of each method until it is looked up; then it makes the method and puts it into the class. The
standard library makes the methods, from a model, a class that has only the fields; only `__init__` and the
methods that refuse assignments are written here, because it compiles them together.

`InitVar`, `KW_ONLY` and `init=False` of a whole class are not supported. Imports nothing of tidelog.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from itertools import chain
from types import MemberDescriptorType
from typing import TYPE_CHECKING, Any

ORDER = ("__lt__", "__le__", "__gt__", "__ge__")
SHARED = ("__dataclass_fields__", "__dataclass_params__", "__match_args__", "__replace__")
SHARED_HERE = SHARED if sys.version_info >= (3, 13) else SHARED[:-1]
METHODS = {
    "__repr__": {"repr": True},
    "__eq__": {"eq": True},
    "__hash__": {"unsafe_hash": True},
    **{name: {"eq": True, "order": True} for name in ORDER},
}
_ABSENT = dataclasses.MISSING
_set_attribute = object.__setattr__


class _Made:
    """The default of parameters whose values a factory makes."""

    def __repr__(self) -> str:
        return "<factory>"


_FACTORY = _Made()


class _Recipe:
    """What a class is made of, as long as something of it is to be made."""

    __slots__ = ("cls", "defaults", "options")

    def __init__(self, options: dict[str, bool]) -> None:
        self.options = options
        self.defaults: dict[str, Any] = {}  # values and `Field`s from the body of the class
        self.cls: Any = object

    def make(self, name: str) -> Any:
        """The method or attribute of the class."""
        if name == "__init__":
            return _initializer(self.cls, self.options)
        if name == "__doc__":
            return self._signature()
        if name in METHODS:
            made = self._model(self.cls.__dataclass_fields__, **METHODS[name])
            method = getattr(made, name)
            method.__qualname__ = f"{self.cls.__qualname__}.{name}"
            return method
        inherited = _inherited_fields(self.cls)
        for redefined in self.cls.__annotations__:
            inherited.pop(redefined, None)
        model = self._model({**inherited, **self.defaults})
        if name == "__dataclass_params__":
            for option, value in {"init": True, **self.options}.items():
                if hasattr(model.__dataclass_params__, option):
                    setattr(model.__dataclass_params__, option, value)
        return getattr(model, name)

    def _model(self, defaults: dict[str, Any], **options: bool) -> Any:
        """A dataclass of the standard library that has the fields, and the methods asked for."""
        annotations = {name: each.type for name, each in _inherited_fields(self.cls).items()}
        annotations |= self.cls.__annotations__
        of_fields = {name: value for name, value in defaults.items() if name in annotations}
        names = {"__annotations__": annotations, "__module__": self.cls.__module__, "__doc__": "A model."}
        asked = {"init": False, "repr": False, "eq": False, "kw_only": self.options["kw_only"], **options}
        return dataclasses.dataclass(**asked)(type(self.cls.__name__, (), {**of_fields, **names}))

    def _signature(self) -> str:
        import inspect

        name: str = self.cls.__name__
        return name + str(inspect.signature(self.cls)).replace(" -> None", "")


class _Awaited:
    """Stands in a class for an attribute that is made when it is first looked up."""

    __slots__ = ("name", "recipe")

    def __init__(self, recipe: _Recipe, name: str) -> None:
        self.recipe = recipe
        self.name = name

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        cls = self.recipe.cls
        current = cls.__dict__.get(self.name, self)
        if current is self:
            current = self.recipe.make(self.name)
            type.__setattr__(cls, self.name, current)
        if hasattr(current, "__get__"):
            return current.__get__(instance, owner)
        return current


def _inherited_fields(cls: type) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for base in cls.__mro__[:0:-1]:
        fields |= getattr(base, "__dataclass_fields__", {})
    return fields


def _initializer(cls: Any, options: dict[str, bool]) -> Callable[..., None]:
    """The method `__init__` of a class with these fields."""
    names: dict[str, Any] = {"_FACTORY": _FACTORY, "_set": _set_attribute}
    parameters: dict[bool, list[str]] = {False: ["self"], True: []}
    lines, annotations = [], {}
    for field in dataclasses.fields(cls):
        name = value = field.name
        if field.default is not _ABSENT:
            names[f"_default_{name}"] = field.default
        elif field.default_factory is not _ABSENT:
            names[f"_factory_{name}"] = field.default_factory
        if field.init:
            annotations[name] = field.type
            default = ""
            if f"_default_{name}" in names:
                default = f"=_default_{name}"
            elif f"_factory_{name}" in names:
                default, value = "=_FACTORY", f"_factory_{name}() if {name} is _FACTORY else {name}"
            parameters[bool(field.kw_only)].append(name + default)
        elif f"_factory_{name}" in names:
            value = f"_factory_{name}()"
        elif f"_default_{name}" in names and options["slots"]:
            value = f"_default_{name}"
        else:
            continue  # the default is an attribute of the class, or it is set later
        slot = getattr(cls, name, None)
        if not options["frozen"]:
            lines.append(f"self.{name} = {value}")
        elif isinstance(slot, MemberDescriptorType):
            names[f"_set_{name}"] = slot.__set__  # a third faster: nothing is looked up by name
            lines.append(f"_set_{name}(self, {value})")
        else:
            lines.append(f"_set(self, {name!r}, {value})")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    keywords = ["*", *parameters[True]] if parameters[True] else []
    text = f"def __init__({', '.join(parameters[False] + keywords)}):\n " + "\n ".join(lines or ["pass"])
    exec(text, names)
    method: Callable[..., None] = names["__init__"]
    method.__annotations__ = {**annotations, "return": None}
    method.__qualname__ = f"{cls.__qualname__}.__init__"
    method.__module__ = cls.__module__
    return method


def _get_state(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        _set_attribute(self, field.name, value)


def _refusing(recipe: _Recipe) -> dict[str, Any]:
    """The methods by which a frozen class refuses assignments to its attributes."""

    def is_refused(self: object, name: str) -> bool:
        return type(self) is recipe.cls or name in recipe.cls.__dataclass_fields__

    def __setattr__(self: object, name: str, value: object) -> None:  # noqa: N807
        if is_refused(self, name):
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        super(recipe.cls, self).__setattr__(name, value)

    def __delattr__(self: object, name: str) -> None:  # noqa: N807
        if is_refused(self, name):
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
        super(recipe.cls, self).__delattr__(name)

    return {"__setattr__": __setattr__, "__delattr__": __delattr__}


def _process(cls: type, options: dict[str, bool]) -> type:
    """Add to a class what its fields say; the class itself, or with slots a new one."""
    recipe = _Recipe(options)
    own = [name for name, type_ in cls.__annotations__.items() if "ClassVar" not in str(type_)]
    for name in own:
        default = getattr(cls, name, _ABSENT)
        if default is not _ABSENT and not isinstance(default, MemberDescriptorType):
            recipe.defaults[name] = default
    added = _attributes(cls, recipe)
    if options["slots"]:
        recipe.cls = _slotted(cls, own, added, options["frozen"])
        return recipe.cls  # type: ignore[no-any-return]
    recipe.cls = cls
    for name, value in recipe.defaults.items():
        if isinstance(value, dataclasses.Field):
            if value.default is _ABSENT:
                delattr(cls, name)
            else:
                setattr(cls, name, value.default)
    for name, value in added.items():
        setattr(cls, name, value)
    return cls


def _attributes(cls: type, recipe: _Recipe) -> dict[str, Any]:
    """What a class gets beside its body."""
    body, options = cls.__dict__, recipe.options
    awaited = [*SHARED_HERE, "__init__"]
    awaited.extend(name for option, name in (("repr", "__repr__"), ("eq", "__eq__")) if options[option])
    awaited.extend(ORDER if options["order"] else ())
    added: dict[str, Any] = {name: _Awaited(recipe, name) for name in awaited if name not in body}
    if body.get("__doc__") is None:
        added["__doc__"] = _Awaited(recipe, "__doc__")
    is_hash_written = "__hash__" in body and not (body["__hash__"] is None and "__eq__" in body)
    if options["eq"] and not is_hash_written:
        added["__hash__"] = _Awaited(recipe, "__hash__") if options["frozen"] else None
    return added | _refusing(recipe) if options["frozen"] else added


def _slotted(cls: type, own: list[str], added: dict[str, Any], is_frozen: bool) -> type:
    """The class again, with slots for its fields."""
    if "__slots__" in cls.__dict__:
        raise TypeError(f"{cls.__name__} already specifies __slots__")
    names = {**cls.__dict__, **added}
    inherited = () if cls.__bases__ == (object,) else (*filter(dataclasses.is_dataclass, cls.__mro__[:0:-1]),)
    every = dict.fromkeys([field.name for base in inherited for field in dataclasses.fields(base)] + own)
    taken = set(chain.from_iterable(_slots_of(base) for base in cls.__mro__[1:-1]))
    names["__slots__"] = tuple(name for name in every if name not in taken)
    for name in every:
        names.pop(name, None)
    names.pop("__dict__", None)
    names.pop("__weakref__", None)
    if is_frozen:
        names.setdefault("__getstate__", _get_state)
        names.setdefault("__setstate__", _set_state)
    made = type(cls)(cls.__name__, cls.__bases__, names)
    made.__qualname__ = cls.__qualname__
    return made


def _slots_of(cls: type) -> tuple[str, ...]:
    slots = cls.__dict__.get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)


if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(
        cls: type | None = None,
        /,
        *,
        repr: bool = True,
        eq: bool = True,
        order: bool = False,
        frozen: bool = False,
        slots: bool = False,
        kw_only: bool = False,
    ) -> Any:
        """Make a class a dataclass, as `dataclasses.dataclass` does, method by method when they are used."""
        options = {
            "repr": repr,
            "eq": eq,
            "order": order,
            "frozen": frozen,
            "slots": slots,
            "kw_only": kw_only,
        }
        if cls is None:
            return lambda each: _process(each, options)
        return _process(cls, options)
